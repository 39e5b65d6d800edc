package corpus

import "slices"

// ErrorCode is one row of the error registry (errors.md §The registry).
type ErrorCode struct {
	Code       string `json:"code"`
	HTTPStatus int    `json:"httpStatus"`
	Retriable  bool   `json:"retriable"`
	// Since is the protocol version that registered the code, or "" for a code
	// that joined during major 2 at a minor version this registry does not know.
	Since string `json:"since"`
	// Deprecated is the version that deprecated the code, or "".
	Deprecated string `json:"deprecated,omitempty"`
	// Meaning is this project's own one-line statement of what the code says.
	Meaning string `json:"meaning"`
	// Details names the schema definition the code's details must satisfy
	// ("error-details#/$defs/…"), or "" when details may be any object.
	Details string `json:"details,omitempty"`
}

// EventType is one registered run event type (events.md §Types).
type EventType struct {
	Type string `json:"type"`
	// Payload is the $defs key of run-event-payloads the payload validates against.
	Payload string `json:"payload"`
	// V1 is the version 1 name of the type, from the codemap.
	V1 string `json:"-"`
	// Tier is the least verbose stream mode that carries the type: "updates",
	// "messages" or "debug" (events.md §Stream modes). debug carries every type.
	Tier string `json:"tier"`
	// Artifact marks a domain.noun name, permitted for an emitted artifact only.
	Artifact bool `json:"artifact,omitempty"`
}

// Family is one capability family a host may advertise (capabilities.md).
type Family struct {
	Key string `json:"key"`
	// Witness is the witness class declared for the family.
	Witness string `json:"witness"`
	// Anchor is "core" for a family at the discovery root and "ext" for one that
	// lives in the extension layer.
	Anchor string `json:"anchor"`
	// Status is the maturity the declaration registers.
	Status string `json:"status"`
	// Facets are the registered facet names, sorted; empty when the family has none.
	Facets []string `json:"facets"`
}

// Profile is a predicate over a discovery document plus the scenarios that have
// to pass for it to certify (overview.md, conformance.md §Certification).
type Profile struct {
	ID      string `json:"id"`
	Summary string `json:"summary"`
	// Families and Metadata are the discovery root members the profile requires.
	Families []string        `json:"families"`
	Metadata []string        `json:"metadata"`
	Floor    []FloorScenario `json:"floor"`
}

// FloorScenario is one scenario of a profile's floor and the contract version
// from which it counts.
type FloorScenario struct {
	Scenario string `json:"scenario"`
	Since    string `json:"since"`
}

// Operation is one operation of the canonical API (path manifest).
type Operation struct {
	ID            string `json:"id"`
	Method        string `json:"method"`
	Path          string `json:"path"`
	Authenticated bool   `json:"authenticated"`
	RequestBody   bool   `json:"requestBody"`
	// Mutating operations change state and accept Idempotency-Key where listed.
	Mutating        bool     `json:"mutating"`
	RequestHeaders  []string `json:"requestHeaders"`
	ResponseHeaders []string `json:"responseHeaders"`
	// Scope is the scope the operation needs, several joined by " + ", or "".
	Scope string `json:"scope"`
	// Gate is the family (or dotted facet) that has to be advertised for the
	// operation to exist, or "".
	Gate string `json:"gate"`
	// Success and Errors are the HTTP statuses the API document and the prose name
	// for the operation. Those any operation may answer (406, 413, 415, 426, 429,
	// 500) are listed only where a document says so.
	Success []int `json:"success"`
	Errors  []int `json:"errors"`
}

// Channel is one event channel of the canonical API.
type Channel struct {
	Name    string `json:"name"`
	Address string `json:"address"`
}

// CodemapRow pairs the two names of one event type: V1 is what a log of era 2 holds,
// V2 what every reader of major 2 shows (persistence.md §The codemap is data).
type CodemapRow struct {
	V1 string `json:"v1"`
	V2 string `json:"v2"`
}

// SeamOperation is one operation of the seams profile (conformance.md §The seams
// profile). None of them belongs to the canonical API.
type SeamOperation struct {
	ID     string `json:"id"`
	Method string `json:"method"`
	// Path begins with /conformance/seams/ and is relative to the host's base URL.
	Path string `json:"path"`
	// Request and Response name the definitions the bodies validate against
	// ("seams#/$defs/…" or a schema of the canonical API), "" where there is no JSON
	// body or this project holds no schema for it.
	Request  string `json:"request,omitempty"`
	Response string `json:"response,omitempty"`
	// Gate is the family (or dotted facet) a host needs beside the profile for the
	// operation to mean anything, or "".
	Gate    string `json:"gate,omitempty"`
	Success []int  `json:"success"`
	Errors  []int  `json:"errors"`
	// Summary is this project's own sentence on what the operation is for.
	Summary string `json:"summary"`
}

func (o SeamOperation) clone() SeamOperation {
	o.Success, o.Errors = slices.Clone(o.Success), slices.Clone(o.Errors)
	return o
}

func (f Family) clone() Family { f.Facets = slices.Clone(f.Facets); return f }

func (p Profile) clone() Profile {
	p.Families, p.Metadata, p.Floor = slices.Clone(p.Families), slices.Clone(p.Metadata), slices.Clone(p.Floor)
	return p
}

func (o Operation) clone() Operation {
	o.RequestHeaders, o.ResponseHeaders = slices.Clone(o.RequestHeaders), slices.Clone(o.ResponseHeaders)
	o.Success, o.Errors = slices.Clone(o.Success), slices.Clone(o.Errors)
	return o
}

func identity[T any](v T) T { return v }
