package harness

import "fmt"

// Identity names on whose behalf a request is sent.
type Identity int

// The identities a scenario can speak as.
const (
	Primary        Identity = iota // full key of the first tenant; what requests use unless told otherwise
	OtherTenant                    // full key of a second tenant
	ReadOnly                       // key of the first tenant that may only read
	Production                     // key of the first tenant that is not a test key
	Anonymous                      // no credential at all
	Unknown                        // a well-formed credential the host never issued
	Approver                       // full key of a further principal of the first tenant, who approves
	SecondApprover                 // full key of yet another principal of the first tenant
	Override                       // full key of a principal of the first tenant whom the host lets release an approval alone
)

func (i Identity) String() string {
	switch i {
	case Primary:
		return "primary tenant"
	case OtherTenant:
		return "other tenant"
	case ReadOnly:
		return "read-only key"
	case Production:
		return "production key"
	case Anonymous:
		return "anonymous caller"
	case Unknown:
		return "unknown caller"
	case Approver:
		return "approver"
	case SecondApprover:
		return "second approver"
	case Override:
		return "override principal"
	}
	return fmt.Sprintf("identity %d", int(i))
}

func (i Identity) supply() string {
	switch i {
	case Primary:
		return "give it with --api-key-env VAR or api_key_env in wopcert.yaml"
	case OtherTenant:
		return "give it with --other-tenant-key-env VAR or other_tenant_key_env in wopcert.yaml"
	case ReadOnly:
		return "give it with --read-only-key-env VAR or read_only_key_env in wopcert.yaml"
	case Production:
		return "give it with --production-key-env VAR or production_key_env in wopcert.yaml"
	case Approver:
		return "give it with --approver-key-env VAR or approver_key_env in wopcert.yaml"
	case SecondApprover:
		return "give it with --second-approver-key-env VAR or second_approver_key_env in wopcert.yaml"
	case Override:
		return "give it with --override-key-env VAR or override_key_env in wopcert.yaml"
	}
	return "it needs none"
}

// Credentials holds the bearer keys of a run. They are never written anywhere.
type Credentials struct {
	Primary        string
	OtherTenant    string
	ReadOnly       string
	Production     string
	Approver       string
	SecondApprover string
	Override       string
}

// identities are those a key can be given for, in the order of the flags.
func identities() []Identity {
	return []Identity{Primary, OtherTenant, ReadOnly, Production, Approver, SecondApprover, Override}
}

// Values returns the keys that were given, for whoever has to keep them out of
// what is written.
func (c Credentials) Values() []string {
	var keys []string
	for _, who := range identities() {
		if key := c.key(who); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// Labels names the identities that keys were given for.
func (c Credentials) Labels() []string {
	labels := []string{}
	for _, who := range identities() {
		if c.Has(who) {
			labels = append(labels, who.String())
		}
	}
	return labels
}

// ApproverRefs say how the host's own identity model names the approvers. All
// are optional; what is missing blocks the tests that need it.
type ApproverRefs struct {
	Principal string // the approver as approversList names it; read from what the approver did when empty
	Group     string // a group the approver is a member of and the primary key's principal is not
	Role      string // a role the second approver holds and the primary key's principal does not
	Override  string // the role that makes the override principal one
}

// NeedsGroup gates on the name of a group the approver is a member of.
func NeedsGroup() Gate {
	return Gate{suite: true, need: need{kind: NeedMeans, what: "a group of the approver"}, explain: func(e *Env) (string, bool) {
		return "no group of the approver is known; name one with --approver-group REF or approver_group in wopcert.yaml", e.Approver.Group != ""
	}}
}

// NeedsRole gates on the name of a role the second approver holds.
func NeedsRole() Gate {
	return Gate{suite: true, need: need{kind: NeedMeans, what: "a role of the second approver"}, explain: func(e *Env) (string, bool) {
		return "no role of the second approver is known; name one with --approver-role REF or approver_role in wopcert.yaml", e.Approver.Role != ""
	}}
}

// unknownKey is what the Unknown identity presents. It is no secret.
const unknownKey = "wopcert-unknown-credential-0000000000000000"

// Has reports whether requests of an identity can be sent.
func (c Credentials) Has(who Identity) bool {
	return who == Anonymous || c.key(who) != ""
}

func (c Credentials) key(who Identity) string {
	switch who {
	case Primary:
		return c.Primary
	case OtherTenant:
		return c.OtherTenant
	case ReadOnly:
		return c.ReadOnly
	case Production:
		return c.Production
	case Unknown:
		return unknownKey
	case Approver:
		return c.Approver
	case SecondApprover:
		return c.SecondApprover
	case Override:
		return c.Override
	}
	return ""
}

// String keeps keys out of logs and error texts.
func (c Credentials) String() string { return "[credentials]" }

// GoString keeps keys out of %#v.
func (c Credentials) GoString() string { return "[credentials]" }
