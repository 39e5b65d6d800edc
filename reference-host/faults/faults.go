// Package faults is the list of ways in which the reference host can be broken
// on purpose. Each is a mistake the author of a host could make, and each says
// which requirements it breaks: a suite in which one of them goes unnoticed has
// a check that cannot fail.
//
// The host knows nothing of them. A fault changes what crosses the wire, or
// what the host is configured with.
package faults

import (
	"net/http"
	"slices"
	"strings"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// Fault is one named defect.
type Fault struct {
	// ID says in kebab case what is broken.
	ID string
	// Breaks are exactly the requirements whose rows must turn: to executed-fail,
	// or to a partial witness where the requirement is a recommendation.
	Breaks []requirements.ID
	// Blocks are the requirements whose rows must become blocked, because the
	// fault takes away what they are observed on.
	Blocks []requirements.ID
	// Reason is text that the detail of each broken row must hold, so that a row
	// that turned for another reason does not count. Alternatives are separated
	// by a vertical bar.
	Reason string
	// Summary is the defect in one sentence.
	Summary string
	// Slow marks a fault that makes the suite wait for something that never
	// comes; it is best started early.
	Slow bool
	// Document and Section say where the specification forbids it.
	Document, Section string
	// Wrap puts the defect around the host's handler, nil for none.
	Wrap func(http.Handler) http.Handler
	// Decorate puts the defect into what the host is made of, nil for none.
	Decorate func(*referencehost.Config)
}

// All returns every fault, in the order of the documents.
func All() []Fault {
	all := slices.Concat(
		discoveryFaults(), deletedFaults(), representationFaults(), recordFaults(), cachingFaults(),
		versionFaults(), headerFaults(), eraFaults(), errorFaults(), malformedFaults(), authFaults(),
		createFaults(), idFaults(), ownerFaults(), cancelFaults(), snapshotFaults(),
		configurableFaults(), closedConfigurableFaults(), limitFaults(), surfaceFaults(), keyFaults(), replayFaults(),
		eventFaults(), pollFaults(), pollCursorFaults(), modeFaults(), frameFaults(),
		resumeFaults(), cursorFaults(), authorizationFaults(),
	)
	for i := range all {
		if r, ok := requirements.Get(all[i].Breaks[0]); ok && all[i].Document == "" {
			all[i].Document, all[i].Section = r.Document, r.Section
		}
	}
	return all
}

// Get returns the fault of an id.
func Get(id string) (Fault, bool) {
	for _, f := range All() {
		if f.ID == id {
			return f, true
		}
	}
	return Fault{}, false
}

// ByRequirement returns the ids of the faults that break each requirement, in
// the order of All.
func ByRequirement() map[requirements.ID][]string {
	out := map[requirements.ID][]string{}
	for _, f := range All() {
		for _, id := range f.Breaks {
			out[id] = append(out[id], f.ID)
		}
	}
	return out
}

// wire is a fault that shows on the wire alone.
func wire(id, summary, reason string, wrap tamper.Middleware, breaks ...requirements.ID) Fault {
	return Fault{ID: id, Summary: summary, Reason: reason, Wrap: wrap, Breaks: breaks}
}

// blocking adds the requirements that can no longer be observed.
func (f Fault) blocking(ids ...requirements.ID) Fault {
	f.Blocks = ids
	return f
}

// slow marks a fault as slow.
func (f Fault) slow() Fault {
	f.Slow = true
	return f
}

// Explains reports whether a row's detail gives one of the fault's reasons.
func (f Fault) Explains(detail string) bool {
	for reason := range strings.SplitSeq(f.Reason, "|") {
		if strings.Contains(detail, reason) {
			return true
		}
	}
	return false
}

type object = map[string]any
