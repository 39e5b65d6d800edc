package scenarios

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"wopcert/harness"
)

// The workflows that hand what they are given to a host's admission of AI
// envelopes, as if a model had emitted it, and the kinds they speak of.
//
// A workflow has the variable emissions, an array, and one node that takes its
// elements in order. An element is an AI envelope as it comes, or {"refusal":
// {"safetyCategory": …}} for an emission the model refuses. An envelope that
// is not admitted fails the node with the refusal's code; otherwise the node
// completes with outputs.results, one entry for each element in order, whose
// outcome is "accepted" once the emission is. The contract's node has an
// accepted set of noteKind alone.
const (
	envelopeEmit     = "wopcert-envelope-emit"
	envelopeContract = "wopcert-envelope-contract"

	noteKind     = "example.wopcert-note"     // payload {title, body?}, with a floor of 2
	memoKind     = "example.wopcert-memo"     // payload any object, with no floor
	unlistedKind = "example.wopcert-unlisted" // in no catalog
	errorKind    = "error"                    // universal
)

// universalKinds are the kinds that need no catalog.
func universalKinds() []string {
	return []string{"clarification.request", "schema.request", "schema.response", errorKind}
}

// newCorrelationID is a correlationId no envelope has had.
func newCorrelationID() string { return "wopcert-" + newOpaque() }

// aiEnvelope is a complete envelope of a kind. A negative version leaves
// schemaVersion out.
func aiEnvelope(kind string, version int64, payload any) object {
	e := object{
		"type":          kind,
		"envelopeId":    "wopcert-" + newOpaque(),
		"correlationId": newCorrelationID(),
		"payload":       payload,
		"meta":          object{"source": "ai-generation", "ts": time.Now().UTC().Format(time.RFC3339)},
	}
	if version >= 0 {
		e["schemaVersion"] = version
	}
	return e
}

// note is an envelope of noteKind at the version the host advertises for it.
func note(t *harness.T) object {
	return aiEnvelope(noteKind, versionFloor(t, noteKind), object{"title": "A note"})
}

func memo() object { return aiEnvelope(memoKind, -1, object{"text": "A memo"}) }

// reportedError is an envelope of the universal kind error.
func reportedError() object {
	return aiEnvelope(errorKind, -1, object{"code": "wopcert.none", "message": "There is nothing to say."})
}

// admissible is an envelope the host has to admit: a note where its catalog has
// that kind, else one of a universal kind.
func admissible(t *harness.T) object {
	if catalogued(t, noteKind) {
		return note(t)
	}
	return reportedError()
}

// without is a copy of an object without a member.
func without(body object, name string) object {
	out := object{}
	for k, v := range body {
		if k != name {
			out[k] = v
		}
	}
	return out
}

// catalog are the kinds of supportedEnvelopes.kinds.
func catalog(d *harness.Discovery) (kinds []string, advertised bool) {
	v, _ := d.Facet("supportedEnvelopes", "kinds")
	return stringList(v)
}

func catalogued(t *harness.T, kind string) bool {
	kinds, _ := catalog(t.Host().Discovery)
	return slices.Contains(kinds, kind)
}

// needKinds ends a test whose fixture's kinds the host's catalog does not have:
// every envelope of them is refused for that.
func needKinds(t *harness.T, kinds ...string) {
	for _, kind := range kinds {
		if !catalogued(t, kind) {
			t.Abort("the kinds of the fixtures are not in the catalog: list %s under supportedEnvelopes.kinds", kind)
		}
	}
}

// hasCatalog gates on a catalog, without which only universal kinds are
// admitted and the kinds of the fixtures show nothing.
func hasCatalog() harness.Gate {
	return harness.HostFact("the host does not advertise supportedEnvelopes.kinds, so that it refuses every kind that is not universal",
		func(d *harness.Discovery) bool { _, ok := catalog(d); return ok })
}

// versionFloor is the schemaVersion a host advertises for a kind, 0 where
// schemaVersions.kinds does not list it.
func versionFloor(t *harness.T, kind string) int64 {
	v, _ := t.Host().Discovery.Facet("schemaVersions", "kinds", kind)
	n, _ := integer(v)
	return n
}

// strictnessMode is envelopeStrictness.mode, "" where the host states none.
func strictnessMode(d *harness.Discovery) string {
	v, _ := d.Facet("envelopeStrictness", "mode")
	s, _ := v.(string)
	return s
}

// emitted is what came of a run that emits envelopes.
type emitted struct {
	created *harness.Response
	log     log
	status  string
	code    string // of the error the node failed with, or the run where no node did
	results []any  // outputs.results of the node
}

// emissions is the createRun body of a run that emits.
func emissions(fixture string, list ...any) object {
	return object{"workflowId": fixture, "inputs": object{"emissions": append([]any{}, list...)}}
}

// emit has a workflow emit envelopes and waits for the end of the run. The
// test ends when the host does not make that run or does not end it.
func emit(t *harness.T, fixture string, list ...any) emitted {
	return emitRun(t, emissions(fixture, list...))
}

func emitRun(t *harness.T, body object) emitted {
	e := emitted{created: create(t, body)}
	id := e.created.Text("runId")
	if !e.created.Is(http.StatusCreated).OK || id == "" {
		t.Abort("no emission to observe: createRun of %v gave %s", body["workflowId"], answered(e.created))
	}
	e.log = readLog(t, id, settle)
	if !e.log.terminal || len(e.log.events) == 0 {
		t.Abort("no finished emission to observe: run of %v has status %q and %d events after %s",
			body["workflowId"], e.log.status, len(e.log.events), settle)
	}
	for _, event := range e.log.events {
		switch event["type"] {
		case "node.failed":
			e.code, _ = harness.Get(event["payload"], "error", "code").(string)
		case "run.failed":
			e.status = "failed"
			if code, _ := harness.Get(event["payload"], "error", "code").(string); e.code == "" {
				e.code = code
			}
		case "run.completed":
			e.status = "completed"
		case "run.cancelled":
			e.status = "cancelled"
		case "node.completed":
			if list, ok := harness.Get(event["payload"], "outputs", "results").([]any); ok {
				e.results = list
			}
		}
	}
	return e
}

// outcome is how a run that emits ended, in words.
func (e emitted) outcome() string {
	if e.code != "" {
		return e.status + " with " + e.code
	}
	return fmt.Sprintf("%s with %d results", e.status, len(e.results))
}

// accepts checks that every emission of a run was admitted.
func (e emitted) accepts(what string, n int) harness.Check {
	ok := e.status == "completed" && len(e.results) == n && !slices.Contains(e.results, nil)
	return harness.That(ok, fmt.Sprintf("%s accepted: a completed run with %d results", what, n), "a run %s", e.outcome()).At(e.log.last)
}

// needAccepted ends a test whose control was not admitted: a host that refuses
// everything shows nothing by a refusal.
func needAccepted(t *harness.T, e emitted) {
	if c := e.accepts("an envelope without fault", 1); !c.OK {
		t.Abort("an envelope without fault is not accepted either, so a refusal shows nothing: %s", c.Observed)
	}
}

// refuses checks that an emission failed the run: with a code, "" for any a
// host may use, and without an event that would record the envelope as
// admitted.
func (e emitted) refuses(t *harness.T, what string, emission object, code string) harness.Check {
	expected := what + " refused: a failed run"
	if code != "" {
		expected += " with " + code
	}
	ok := e.status == "failed" && permittedCode(t.Corpus(), e.code) && (code == "" || e.code == code)
	if !ok {
		return harness.That(false, expected, "a run %s", e.outcome()).At(e.log.last)
	}
	correlation, _ := emission["correlationId"].(string)
	for _, event := range causedBy(e.log.events, correlation) {
		if !recordsRefusal(event) {
			return harness.That(false, expected+", and no event of it", "a run %s, and %s caused by it", e.outcome(), label(event)).At(e.log.last)
		}
	}
	return harness.That(true, expected, "a run %s", e.outcome()).At(e.log.last)
}

// recordsRefusal reports whether an event that a refused envelope caused is no
// sign of its admission: it says that something failed, or only that something
// happened.
func recordsRefusal(event object) bool {
	typ, _ := event["type"].(string)
	return strings.HasPrefix(typ, "log.") || strings.HasPrefix(typ, "envelope.") ||
		slices.Contains([]string{"node.failed", "node.retried", "run.failed"}, typ)
}

// causedBy are the events with a causationId, none for "".
func causedBy(events []object, causation string) []object {
	var out []object
	for _, e := range events {
		if causation != "" && e["causationId"] == any(causation) {
			out = append(out, e)
		}
	}
	return out
}

// betweenNode are the events a run recorded while its node worked, those about
// the node itself left out.
func betweenNode(events []object) []object {
	var out []object
	inside := false
	for _, e := range events {
		typ, _ := e["type"].(string)
		switch {
		case typ == "node.started":
			inside = true
		case strings.HasPrefix(typ, "node.") || strings.HasPrefix(typ, "run."):
			inside = inside && !endsNode(e)
		case inside:
			out = append(out, e)
		}
	}
	return out
}
