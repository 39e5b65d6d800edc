// Package variants is the list of freedoms the specification leaves a host:
// another legal form of an answer, an optional member, a choice it may make.
// Each turns the reference host into another host that conforms just as well,
// and the suite must not see any difference.
package variants

import (
	"net/http"
	"slices"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// Variant is one freedom, taken.
type Variant struct {
	// ID says in kebab case what is different.
	ID string
	// Summary is the difference in one sentence.
	Summary string
	// Document and Section say who grants the freedom.
	Document, Section string
	// Relaxes are the requirements whose rows may become inapplicable or partial,
	// because the freedom takes away what they watch. They must not fail.
	Relaxes []requirements.ID
	// Opens are requirements that bind the host only with this variant: their
	// rows, inapplicable without it, have to be executed-pass under it.
	Opens []requirements.ID
	// BasePath is the path below which the host is served, "" for the root.
	BasePath string
	// Wrap changes what crosses the wire, nil for nothing.
	Wrap func(http.Handler) http.Handler
	// Decorate changes what the host is made of, nil for nothing.
	Decorate func(*referencehost.Config)
}

// All returns every variant, in the order of the documents.
func All() []Variant {
	return slices.Concat(discoveryVariants(), versionVariants(), runVariants(), identityVariants(), eventVariants(), frameVariants(), transportVariants(),
		forkVariants(), diffVariants(), annotationVariants(), artifactVariants(), evalVariants(), modeVariants(), envelopeVariants(),
		overlapVariants(), eraVariants(), familyVariants(), controlVariants(), browserVariants(), effectVariants(), webhookVariants(), interruptVariants(), interruptTokenVariants())
}

// Get returns the variant of an id.
func Get(id string) (Variant, bool) {
	for _, v := range All() {
		if v.ID == id {
			return v, true
		}
	}
	return Variant{}, false
}

// ByRequirement returns the ids of the variants that relax each requirement,
// in the order of All.
func ByRequirement() map[requirements.ID][]string {
	out := map[requirements.ID][]string{}
	for _, v := range All() {
		for _, id := range v.Relaxes {
			out[id] = append(out[id], v.ID)
		}
	}
	return out
}

type object = map[string]any

// grant is a variant that shows on the wire alone.
func grant(id, document, section, summary string, wrap tamper.Middleware, relaxes ...requirements.ID) Variant {
	return Variant{ID: id, Document: document, Section: section, Summary: summary, Wrap: wrap, Relaxes: relaxes}
}

// made is a variant of what the host is made of.
func made(id, document, section, summary string, decorate func(*referencehost.Config), relaxes ...requirements.ID) Variant {
	return Variant{ID: id, Document: document, Section: section, Summary: summary, Decorate: decorate, Relaxes: relaxes}
}

func text(v any) string {
	s, _ := v.(string)
	return s
}
