package corpus

import "slices"

// Corpus is the contract, loaded and checked. It never changes after Load and is
// safe for concurrent use; every slice it returns belongs to the caller.
type Corpus struct {
	stampSHA256  string
	version      string   // of an installed package, "" for the embedded contract
	kept         []string // schema names an installed package has nothing for
	errors       table[ErrorCode]
	events       table[EventType]
	families     table[Family]
	profiles     table[Profile]
	operations   table[Operation]
	seams        table[SeamOperation]
	codemap      table[CodemapRow]
	channels     []Channel
	metadataKeys []string
	orgs         []string
	reservedOrgs []string
	trustAnchors []string
	coherence    []string
	schemas      *schemaSet
}

// table keeps rows in registry order beside an index by their key.
type table[T any] struct {
	rows  []T
	index map[string]int
}

func (t table[T]) get(key string, clone func(T) T) (T, bool) {
	i, ok := t.index[key]
	if !ok {
		var zero T
		return zero, false
	}
	return clone(t.rows[i]), true
}

func (t table[T]) all(clone func(T) T) []T {
	rows := make([]T, len(t.rows))
	for i, row := range t.rows {
		rows[i] = clone(row)
	}
	return rows
}

// StampSHA256 is the SHA-256 of the CORPUS-STAMP.json bytes, in lower-case hex.
func (c *Corpus) StampSHA256() string { return c.stampSHA256 }

// Version is the contract version of the schemas in use: [SpecArtifactsVersion], or an installed package's.
func (c *Corpus) Version() string {
	if c.version != "" {
		return c.version
	}
	return SpecArtifactsVersion
}

// OwnSchemas lists the schema names that stay this program's because an installed package has nothing for them.
func (c *Corpus) OwnSchemas() []string { return slices.Clone(c.kept) }

// Errors lists the error registry (errors.md §The registry).
func (c *Corpus) Errors() []ErrorCode { return c.errors.all(identity) }

// Error looks up one registered error code.
func (c *Corpus) Error(code string) (ErrorCode, bool) { return c.errors.get(code, identity) }

// Events lists the registered run event types (events.md §Types).
func (c *Corpus) Events() []EventType { return c.events.all(identity) }

// Event looks up one registered run event type by its version 2 name.
func (c *Corpus) Event(typ string) (EventType, bool) { return c.events.get(typ, identity) }

// EventCodemap lists the pairs of version 1 and version 2 event type names. It is a
// bijection: the load fails otherwise, so that a row may be read both ways
// (persistence.md §The v1 wire of an era-3 log).
func (c *Corpus) EventCodemap() []CodemapRow { return c.codemap.all(identity) }

// EventFromV1 is the version 2 name of a registered version 1 event type. A vendor
// type is not in the codemap and keeps its name.
func (c *Corpus) EventFromV1(v1 string) (v2 string, ok bool) {
	row, ok := c.codemap.get(v1, identity)
	return row.V2, ok
}

// EventToV1 is the version 1 name of a registered event type, the same row read
// backwards.
func (c *Corpus) EventToV1(v2 string) (v1 string, ok bool) {
	e, ok := c.events.get(v2, identity)
	return e.V1, ok
}

// Families lists the capability families (declaration registry).
func (c *Corpus) Families() []Family { return c.families.all(Family.clone) }

// Family looks up one capability family by its key.
func (c *Corpus) Family(key string) (Family, bool) { return c.families.get(key, Family.clone) }

// MetadataKeys lists the members of the discovery root that are not families
// (capabilities.md §3).
func (c *Corpus) MetadataKeys() []string { return slices.Clone(c.metadataKeys) }

// Profiles lists the profiles (profile registry).
func (c *Corpus) Profiles() []Profile { return c.profiles.all(Profile.clone) }

// Profile looks up one profile by its id.
func (c *Corpus) Profile(id string) (Profile, bool) { return c.profiles.get(id, Profile.clone) }

// Operations lists the operations of the canonical API.
func (c *Corpus) Operations() []Operation { return c.operations.all(Operation.clone) }

// Operation looks up one operation by its operation id.
func (c *Corpus) Operation(id string) (Operation, bool) { return c.operations.get(id, Operation.clone) }

// SeamOperations lists the operations of the seams profile (api/seams.json).
func (c *Corpus) SeamOperations() []SeamOperation { return c.seams.all(SeamOperation.clone) }

// SeamOperation looks up one operation of the seams profile by its operation id.
func (c *Corpus) SeamOperation(id string) (SeamOperation, bool) {
	return c.seams.get(id, SeamOperation.clone)
}

// Channels lists the event channels of the canonical API.
func (c *Corpus) Channels() []Channel { return slices.Clone(c.channels) }

// Orgs lists the registered organisations, the only ones a vendor event type or
// vendor error code may name (events.md §Types, errors.md §The registry). The
// schemas refuse reserved organisations; registration is for the caller to check.
func (c *Corpus) Orgs() []string { return slices.Clone(c.orgs) }

// ReservedOrgs lists the organisation names that are never registered.
func (c *Corpus) ReservedOrgs() []string { return slices.Clone(c.reservedOrgs) }

// TrustAnchorRequirements lists the requirement ids a colocated companion may
// witness (conformance.md §Colocated companion).
func (c *Corpus) TrustAnchorRequirements() []string { return slices.Clone(c.trustAnchors) }

// CoherenceScenarios lists the scenarios that check the contract itself; a row of
// one of their tests never belongs in a host's bundle (conformance.md §Two
// products, two ledgers).
func (c *Corpus) CoherenceScenarios() []string { return slices.Clone(c.coherence) }
