package harness

import "fmt"

// Identity names on whose behalf a request is sent.
type Identity int

// The identities a scenario can speak as.
const (
	Primary     Identity = iota // full key of the first tenant; what requests use unless told otherwise
	OtherTenant                 // full key of a second tenant
	ReadOnly                    // key of the first tenant that may only read
	Production                  // key of the first tenant that is not a test key
	Anonymous                   // no credential at all
	Unknown                     // a well-formed credential the host never issued
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
	}
	return "it needs none"
}

// Credentials holds the bearer keys of a run. They are never written anywhere.
type Credentials struct {
	Primary     string
	OtherTenant string
	ReadOnly    string
	Production  string
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
	}
	return ""
}

// String keeps keys out of logs and error texts.
func (c Credentials) String() string { return "[credentials]" }

// GoString keeps keys out of %#v.
func (c Credentials) GoString() string { return "[credentials]" }
