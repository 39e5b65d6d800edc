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
	// Reason is text that the detail of each of those rows must hold, so that a
	// row that turned for another reason does not count.
	Reason string
	// Summary is the defect in one sentence.
	Summary string
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
		discoveryFaults(), recordFaults(), cachingFaults(), versionFaults(), headerFaults(), eraFaults(),
		errorFaults(), authFaults(), createFaults(), idFaults(), ownerFaults(), cancelFaults(), snapshotFaults(),
		optionFaults(), idempotencyFaults(), eventFaults(), pollFaults(), streamFaults(), resumeFaults(),
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

type object = map[string]any
