package scenarios

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"wopcert/harness"
	"wopcert/requirements"
)

// aiEnvelopes covers what a host does with an AI envelope (events.md, "AI
// envelopes: E1–E5").
func aiEnvelopes() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-ai-envelopes",
		Title:    "AI envelopes are admitted whole, recorded under their correlationId, and never retried once refused",
		Document: "events.md", Section: "AI envelopes: E1–E5",
		Gates: []harness.Gate{harness.Advertises("supportedEnvelopes"), optIn(envelopeEmit)},
		Tests: []harness.Test{
			{
				Name:      "an envelope without correlationId or meta.source is refused",
				Witnesses: []requirements.ID{requirements.EventsEnvelopeMembersRequired},
				Run:       membersRequired,
			},
			{
				Name:      "a kind outside the rule of namespaces is refused",
				Witnesses: []requirements.ID{requirements.EventsEnvelopeKindNamespaced},
				Run:       kindsNamespaced,
			},
			{
				Name:      "what an envelope produces names it as the cause",
				Witnesses: []requirements.ID{requirements.EventsEnvelopeCausation},
				Run:       envelopeCauses,
			},
			{
				Name:      "an envelope emitted again has the recorded outcome",
				Witnesses: []requirements.ID{requirements.EventsEnvelopeReemission},
				Run:       emittedAgain,
			},
			{
				Name:      "a partial emission is whole at its last chunk",
				Witnesses: []requirements.ID{requirements.EventsEnvelopePartial},
				Run:       emittedInParts,
			},
			{
				Name:      "a refused emission is recorded once",
				Witnesses: []requirements.ID{requirements.EventsRefusalNotRetried},
				Run:       refusedOnce,
			},
			{
				Name:      "a run records no more refusals than its ceiling",
				Witnesses: []requirements.ID{requirements.EventsRefusalCeiling},
				Run:       refusalCeiling,
			},
		},
	}
}

func membersRequired(t *harness.T) {
	needAccepted(t, emit(t, envelopeEmit, admissible(t)))
	sourceless := admissible(t)
	sourceless["meta"] = without(sourceless["meta"].(object), "source")
	for _, c := range []struct {
		what     string
		envelope object
	}{
		{"an envelope without correlationId", without(admissible(t), "correlationId")},
		{"an envelope without meta.source", sourceless},
		{"an envelope without meta", without(admissible(t), "meta")},
	} {
		e := emit(t, envelopeEmit, c.envelope)
		t.Expect(requirements.EventsEnvelopeMembersRequired, e.refuses(t, c.what, c.envelope, ""))
		t.Expect(requirements.EventsEnvelopeMembersRequired, inventsNoCause(c.what, e, c.envelope))
	}
}

// inventsNoCause checks that nothing a run recorded while its node worked has a
// cause that is no event of the log: for an envelope that has none of its own
// that would be an invented one. An envelope's own correlationId is no
// invention.
func inventsNoCause(what string, e emitted, envelope object) harness.Check {
	expected := "after " + what + " no cause but events of the log"
	known := []any{envelope["correlationId"]}
	for _, event := range e.log.events {
		known = append(known, event["eventId"])
	}
	for _, event := range betweenNode(e.log.events) {
		if cause, has := event["causationId"]; has && !slices.Contains(known, cause) {
			return harness.That(false, expected, "%s with causationId %s", label(event), show(cause)).At(e.log.last)
		}
	}
	return harness.That(true, expected, "%d events", len(e.log.events)).At(e.log.last)
}

func kindsNamespaced(t *harness.T) {
	kinds, _ := catalog(t.Host().Discovery)
	for _, kind := range kinds {
		t.Expect(requirements.EventsEnvelopeKindNamespaced, namespacedKind(t, kind))
	}
	needAccepted(t, emit(t, envelopeEmit, admissible(t)))
	for _, kind := range []string{"wopcert-unregistered-org.thing", "openwop.thing", "note"} {
		envelope := aiEnvelope(kind, -1, object{"title": "A note"})
		t.Expect(requirements.EventsEnvelopeKindNamespaced, emit(t, envelopeEmit, envelope).refuses(t, "the kind "+kind, envelope, ""))
	}
}

// namespacedKind checks a kind of a host's catalog. An org this contract does
// not register may be one of a newer contract.
func namespacedKind(t *harness.T, kind string) harness.Check {
	const expected = "a universal kind, one of ui. or media., or one under an org that is not reserved"
	org, name, dotted := strings.Cut(kind, ".")
	ok := slices.Contains(universalKinds(), kind) ||
		dotted && name != "" && (org == "ui" || org == "media" || !slices.Contains(t.Corpus().ReservedOrgs(), org))
	return harness.That(ok, expected, "%s in supportedEnvelopes.kinds", show(kind))
}

func envelopeCauses(t *harness.T) {
	envelope := admissible(t)
	e := emit(t, envelopeEmit, envelope)
	needAccepted(t, e)
	t.Expect(requirements.EventsEnvelopeCausation, causes(t, e, envelope))
}

// causes checks that what a run recorded because of an envelope names its
// correlationId: at least one event does, and no event beyond those of a run
// that emits nothing names another cause.
func causes(t *harness.T, e emitted, envelope object) harness.Check {
	correlation := envelope["correlationId"].(string)
	expected := "causationId = correlationId on every event the envelope produced, and at least one"
	if len(causedBy(e.log.events, correlation)) == 0 {
		return harness.That(false, expected, "%d events, none with causationId %s", len(e.log.events), correlation).At(e.log.last)
	}
	usual := map[any]int{}
	for _, event := range betweenNode(silentEmission(t)) {
		usual[event["type"]]++
	}
	for _, event := range betweenNode(e.log.events) {
		typ, _ := event["type"].(string)
		if event["causationId"] == any(correlation) || strings.HasPrefix(typ, "lease.") || typ == "provider.usage" {
			continue // a lease and what a model cost go with the node's work, not with what it says
		}
		if usual[typ]--; usual[typ] < 0 {
			return harness.That(false, expected, "%s with causationId %s", label(event), show(event["causationId"])).At(e.log.last)
		}
	}
	return harness.That(true, expected, "%d events with it", len(causedBy(e.log.events, correlation))).At(e.log.last)
}

// silentEmission is the log of a run that emits nothing, empty where the host
// makes none.
func silentEmission(t *harness.T) []object {
	r := create(t, emissions(envelopeEmit))
	if !r.Is(http.StatusCreated).OK || r.Text("runId") == "" {
		return nil
	}
	return readLog(t, r.Text("runId"), settle).events
}

func emittedAgain(t *harness.T) {
	first, other := admissible(t), admissible(t)
	once := emit(t, envelopeEmit, other)
	needAccepted(t, once)
	again := with(first, "envelopeId", "wopcert-"+newOpaque())
	twice := emit(t, envelopeEmit, first, again)
	if !t.Expect(requirements.EventsEnvelopeReemission, twice.accepts("an envelope and the same again", 2)) {
		return
	}
	t.Expect(requirements.EventsEnvelopeReemission, same("results entry of the second emission", twice.results[0], twice.results[1]).At(twice.log.last))
	t.Expect(requirements.EventsEnvelopeReemission, harness.Equal("number of events an envelope causes, emitted twice",
		len(causedBy(once.log.events, other["correlationId"].(string))),
		len(causedBy(twice.log.events, first["correlationId"].(string)))).At(twice.log.last))
}

// chunks are a partial emission of a number of chunks, each an envelope that
// would do alone.
func chunks(t *harness.T, total int) []any {
	whole := admissible(t)
	var out []any
	for i := range total {
		chunk := with(whole, "envelopeId", "wopcert-"+newOpaque())
		chunk["partial"] = object{"isPartial": i < total-1, "index": i, "total": total}
		out = append(out, chunk)
	}
	return out
}

func emittedInParts(t *harness.T) {
	needAccepted(t, emit(t, envelopeEmit, admissible(t)))
	parts := chunks(t, 3)
	e := emit(t, envelopeEmit, parts...)
	if !t.Expect(requirements.EventsEnvelopePartial, e.accepts("a partial emission in three chunks", 3)) {
		return
	}
	t.Expect(requirements.EventsEnvelopePartial, completesAt(e.results, 2).At(e.log.last))
	t.Expect(requirements.EventsEnvelopePartial, causes(t, e, parts[0].(object)))
	t.Expect(requirements.EventsEnvelopePartial, chunksInOrder(e, parts[0].(object)["correlationId"].(string)))
	endless := emit(t, envelopeEmit, chunks(t, 3)[:2]...)
	t.Expect(requirements.EventsEnvelopePartial, completesAt(endless.results, -1).At(endless.log.last))
}

// completesAt checks that of the results of a partial emission the one of the
// chunk that ends it says accepted, and none before; -1 for no such chunk.
func completesAt(results []any, last int) harness.Check {
	var accepted []int
	for i, r := range results {
		if harness.Get(r, "outcome") == any("accepted") {
			accepted = append(accepted, i)
		}
	}
	want := []int{last}
	if last < 0 {
		want = nil
	}
	return harness.That(slices.Equal(accepted, want), fmt.Sprintf("outcome accepted at the chunks %v", want), "at %v of %d", accepted, len(results))
}

// chunksInOrder checks that the events that record the chunks do so in order,
// as far as they say which chunk they record.
func chunksInOrder(e emitted, correlation string) harness.Check {
	const expected = "the chunks recorded in order"
	indices := []int64{}
	for _, event := range causedBy(e.log.events, correlation) {
		for _, path := range [][]string{{"payload", "index"}, {"payload", "partial", "index"}, {"payload", "fields", "index"}, {"payload", "fields", "partial", "index"}} {
			if n, ok := integer(harness.Get(event, path...)); ok {
				indices = append(indices, n)
				break
			}
		}
	}
	return harness.That(slices.IsSorted(indices), expected, "index %v", indices).At(e.log.last)
}

// refusedEmission is an emission that the model refuses.
func refusedEmission(category string) object {
	return object{"refusal": object{"safetyCategory": category}}
}

// refusedRun has a model refuse a number of emissions under a ceiling.
func refusedRun(t *harness.T, ceiling, n int) emitted {
	var list []any
	for range n {
		list = append(list, refusedEmission("wopcert"))
	}
	return emitRun(t, with(emissions(envelopeEmit, list...), "configurable",
		object{"version": 1, "ai": object{"maxRefusals": ceiling}}))
}

func refusedOnce(t *harness.T) {
	e := refusedRun(t, 3, 1)
	t.Expect(requirements.EventsRefusalNotRetried, harness.All(
		harness.Equal("number of envelope.refusal of one refused emission", 1, countOf(e.log.events, ofType("envelope.refusal"))),
		noneOf("retry of the refused emission", e.log.events, ofType("envelope.retry-attempted")),
	).At(e.log.last))
}

func refusalCeiling(t *harness.T) {
	for _, ceiling := range []int{2, 1} {
		e := refusedRun(t, ceiling, 4)
		recorded := countOf(e.log.events, ofType("envelope.refusal"))
		if recorded == 0 {
			t.Abort("no refusal to count: the run is %s and recorded no envelope.refusal", e.outcome())
		}
		t.Expect(requirements.EventsRefusalCeiling, harness.That(recorded <= ceiling && e.status == "failed",
			fmt.Sprintf("at most %d envelope.refusal for four refusals under maxRefusals %d, and a failed run", ceiling, ceiling),
			"%d of them and a run %s", recorded, e.outcome()).At(e.log.last))
	}
}
