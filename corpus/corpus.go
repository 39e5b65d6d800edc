package corpus

import "slices"

// Corpus is the contract, loaded and checked. It never changes after Load and is
// safe for concurrent use; every slice it returns belongs to the caller.
type Corpus struct {
	stampSHA256  string
	errors       table[ErrorCode]
	events       table[EventType]
	families     table[Family]
	profiles     table[Profile]
	operations   table[Operation]
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

// Errors lists the error registry (errors.md §The registry).
func (c *Corpus) Errors() []ErrorCode { return c.errors.all(identity) }

// Error looks up one registered error code.
func (c *Corpus) Error(code string) (ErrorCode, bool) { return c.errors.get(code, identity) }

// Events lists the registered run event types (events.md §Types).
func (c *Corpus) Events() []EventType { return c.events.all(EventType.clone) }

// Event looks up one registered run event type by its version 2 name.
func (c *Corpus) Event(typ string) (EventType, bool) { return c.events.get(typ, EventType.clone) }

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
