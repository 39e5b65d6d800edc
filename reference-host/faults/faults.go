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
	"wopcert/reference-host/variants"
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
	// Opens are requirements that bind the host only with the switch the fault
	// carries: their rows, inapplicable without it, have to be executed-pass.
	Opens []requirements.ID
	// Relaxes are requirements whose rows may become inapplicable or partial with
	// the switch, as for the variant that makes it.
	Relaxes []requirements.ID
	// Closes are requirements that no longer bind the broken host: their rows have
	// to be inapplicable.
	Closes []requirements.ID
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
		versionFaults(), headerFaults(), eraFaults(), translationFaults(), fieldFaults(), unmappedFaults(), seededRunFaults(), pinFaults(), writerFaults(),
		recoveryFaults(), seamProfileFaults(), relaxedFaults(),
		errorFaults(), malformedFaults(), authFaults(),
		createFaults(), idFaults(), ownerFaults(), cancelFaults(), snapshotFaults(),
		configurableFaults(), closedConfigurableFaults(), limitFaults(), surfaceFaults(), keyFaults(), replayFaults(),
		eventFaults(), pollFaults(), pollCursorFaults(), modeFaults(), frameFaults(),
		resumeFaults(), cursorFaults(), authorizationFaults(),
		forkFaults(), forkChildFaults(), diffFaults(), ancestryFaults(), annotationFaults(), targetFaults(), artifactFaults(), evalFaults(), turnFaults(),
		payloadFaults(), streamModeFaults(), mixedModeFaults(), messageFaults(), quietFaults(), hostEventFaults(), batchFaults(), subscriberFaults(),
		waitFaults(), lateFaults(), envelopeFaults(), envelopeOnceFaults(), catalogFaults(), schemaVersionFaults(), contractFaults(),
		profileFaults(), extensionFaults(), twinFaults(), overlapFaults(), modeAloneFaults(), operationFaults(), createAloneFaults(), pageFaults(), engineVersionFaults(), preflightFaults(), forceEngineFaults(),
		seamFaults(), gatedFaults(), scopeFaults(), workflowFaults(), dedupFaults(), evalRefusalFaults(), residencyFaults(), conversationRefusalFaults(),
		boundFaults(), aiFaults(), constantFaults(), schemaFaults(), metadataFaults(), waitingFaults(), memberFaults(), encodingFaults(),
		listFaults(), listPageFaults(), bulkFaults(), bulkEntryFaults(), raceFaults(), pauseFaults(), drainFaults(),
		kindFaults(), egressFaults(), egressRuleFaults(), registrationFaults(), selectionFaults(), unregisterFaults(), deliveryFaults(), signatureFaults(), retryFaults(), deadLetterFaults(),
		standardFaults(), verificationFaults(), rotationFaults(), subscriberFaultsV1(), afterRestartFaults(), inFlightFaults(), keyScopeFaults(), ledgerFaults(),
		effectWireFaults(), compensationWireFaults(), attemptFaults(), providerFaults(), onwardFaults(), suppressionFaults(), determinismFaults(), unwindFaults(),
		interruptPayloadFaults(), interruptKindFaults(), interruptEventFaults(), oneCodeFaults(), reentryFaults(), runSurfaceFaults(),
		approvalFaults(), quorumFaults(), approverFaults(), tokenSchemeFaults(), tokenLifeFaults(), tokenSurfaceFaults(), callbackFaults(), interruptRecoveryFaults(),
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

// also adds requirements that the fault breaks beside its own, and how their rows
// say so: alternatives divided by |.
func (f Fault) also(reason string, ids ...requirements.ID) Fault {
	f.Breaks = append(f.Breaks, ids...)
	f.Reason += "|" + reason
	return f
}

// blocking adds the requirements that can no longer be observed.
func (f Fault) blocking(ids ...requirements.ID) Fault {
	f.Blocks = append(f.Blocks, ids...)
	return f
}

// closing adds the requirements that no longer bind.
func (f Fault) closing(ids ...requirements.ID) Fault {
	f.Closes = append(f.Closes, ids...)
	return f
}

// on puts the fault into the host that a variant makes: for requirements that
// bind no other.
func (f Fault) on(variant string) Fault {
	v, _ := variants.Get(variant) // an unknown one leaves the rows shut, which the proof reports
	f.Opens = append(f.Opens, v.Opens...)
	f.Relaxes = append(f.Relaxes, v.Relaxes...)
	inner, outer := v.Wrap, f.Wrap
	switch {
	case outer == nil:
		f.Wrap = inner
	case inner != nil:
		f.Wrap = tamper.Chain(outer, inner)
	}
	first, then := v.Decorate, f.Decorate
	switch {
	case then == nil:
		f.Decorate = first
	case first != nil:
		f.Decorate = func(c *referencehost.Config) { first(c); then(c) }
	}
	return f
}

// made is a fault in what the host is made of.
func made(id, summary, reason string, decorate func(*referencehost.Config), breaks ...requirements.ID) Fault {
	return Fault{ID: id, Summary: summary, Reason: reason, Decorate: decorate, Breaks: breaks}
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
