package testnet

import (
	"wopcert/harness"
	referencehost "wopcert/reference-host"
)

// Credentials are a bundled host's keys as the suite uses them.
func Credentials(config referencehost.Config) harness.Credentials {
	var c harness.Credentials
	into := map[string]*string{
		referencehost.KeyTenantA:    &c.Primary,
		referencehost.KeyTenantB:    &c.OtherTenant,
		referencehost.KeyReadOnly:   &c.ReadOnly,
		referencehost.KeyProduction: &c.Production,
		referencehost.KeyApprover1:  &c.Approver,
		referencehost.KeyApprover2:  &c.SecondApprover,
		referencehost.KeyApprover3:  &c.Override,
	}
	for _, k := range config.Keys {
		if key, ok := into[k.Name]; ok {
			*key = k.Key
		}
	}
	return c
}

// Approvers are how a bundled host names its approvers.
func Approvers(config referencehost.Config) harness.ApproverRefs {
	refs := harness.ApproverRefs{Group: referencehost.ApproverGroup, Role: referencehost.ApproverRole, Override: referencehost.OverrideRole}
	for _, k := range config.Keys {
		if k.Name == referencehost.KeyApprover1 {
			refs.Principal = k.SubjectID
		}
	}
	return refs
}
