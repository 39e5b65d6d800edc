package scenarios

import (
	"fmt"
	"net/http"
	"slices"

	"wopcert/harness"
	"wopcert/requirements"
)

// envelopeContracts covers the accepted set of a node (events.md, "Envelope
// contracts").
func envelopeContracts() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-envelope-contracts",
		Title:    "A node emits only the kinds its contract accepts",
		Document: "events.md", Section: "Envelope contracts",
		Gates: []harness.Gate{
			harness.HostFact("the host does not advertise envelopeContracts.advertised as true", func(d *harness.Discovery) bool {
				v, _ := d.Facet("envelopeContracts", "advertised")
				return v == true
			}),
			hasCatalog(), optIn(envelopeContract),
		},
		Tests: []harness.Test{
			{
				Name:      "a kind outside the node's contract is refused, one inside is not",
				Witnesses: []requirements.ID{requirements.EventsEnvelopeContractRefused},
				Run:       contractHolds,
			},
			{
				Name:      "the refusal is not the one for a missing capability",
				Witnesses: []requirements.ID{requirements.EventsEnvelopeContractDistinct},
				Run:       contractDistinct,
			},
		},
	}
}

func contractHolds(t *harness.T) {
	needKinds(t, noteKind, memoKind)
	outside := memo()
	refused := emit(t, envelopeContract, outside)
	t.Expect(requirements.EventsEnvelopeContractRefused, emit(t, envelopeContract, note(t)).accepts("a kind of the node's contract", 1))
	t.Expect(requirements.EventsEnvelopeContractRefused, refused.refuses(t, "a kind outside the node's contract", outside, ""))
	universal := emit(t, envelopeContract, reportedError())
	t.Expect(requirements.EventsEnvelopeContractRefused, harness.That(
		universal.status == "completed" || universal.status == "failed" && universal.code != refused.code,
		"a universal kind not refused by the contract", "a run %s", universal.outcome()).At(universal.log.last))
}

// contractDistinct tells the refusal of an envelope from that of a workflow
// whose node type asks for a capability: this run begins, and its node fails.
func contractDistinct(t *harness.T) {
	needKinds(t, memoKind)
	const expected = "a run that begins and whose node fails with another code than capability_required"
	r := create(t, emissions(envelopeContract, memo()))
	if !r.Is(http.StatusCreated).OK || r.Text("runId") == "" {
		t.Expect(requirements.EventsEnvelopeContractDistinct, harness.That(false, expected, "createRun answered %s", answered(r)).At(r))
		return
	}
	l := readLog(t, r.Text("runId"), settle)
	failed := eventsOfType(l.events, "node.failed")
	if !l.terminal || len(failed) == 0 {
		t.Abort("no refusal to tell from another: the run has status %q and its log no node.failed", l.status)
	}
	var codes []string
	for _, e := range slices.Concat(failed, eventsOfType(l.events, "run.failed")) {
		code, _ := harness.Get(e["payload"], "error", "code").(string)
		codes = append(codes, code)
	}
	distinct := !slices.Contains(codes, "capability_required") && !slices.Contains(codes, "")
	t.Expect(requirements.EventsEnvelopeContractDistinct, harness.That(distinct, expected, "codes %v", codes).At(l.last))
}

// envelopeFacets covers the structured-output subset (events.md, "Envelope,
// feedback and usage facets").
func envelopeFacets() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-envelope-facets",
		Title:    "An envelope within the common subset is accepted from every provider",
		Document: "events.md", Section: "Envelope, feedback and usage facets",
		Gates: []harness.Gate{
			harness.HostFact("the host does not advertise envelopes.tierOneSubsetCompliance as strict or warn", func(d *harness.Discovery) bool {
				v, _ := d.Facet("envelopes", "tierOneSubsetCompliance")
				return v == "strict" || v == "warn"
			}),
			harness.HostFact("the host advertises no provider under aiProviders.providers", func(d *harness.Discovery) bool {
				return len(providers(d)) > 0
			}),
			optIn(envelopeEmit),
		},
		Tests: []harness.Test{
			{
				Name:      "each provider's envelope of plain members is accepted",
				Witnesses: []requirements.ID{requirements.EventsTierOneAccepted},
				Run:       acceptedFromEach,
			},
		},
	}
}

// providers are those of aiProviders.providers, whose entries are names.
func providers(d *harness.Discovery) []string {
	v, _ := d.Facet("aiProviders", "providers")
	list, _ := stringList(v)
	return list
}

// mostProviders bounds how many providers are tried.
const mostProviders = 5

func acceptedFromEach(t *harness.T) {
	list := providers(t.Host().Discovery)
	for _, provider := range list[:min(len(list), mostProviders)] {
		body := emissions(envelopeEmit, admissible(t))
		if takesProvider(t) {
			body["inputs"].(object)["provider"] = provider
		}
		t.Expect(requirements.EventsTierOneAccepted, emitRun(t, body).accepts(fmt.Sprintf("an envelope from provider %q", provider), 1))
	}
}

// takesProvider reports whether the emitting workflow lets the suite name the
// provider.
func takesProvider(t *harness.T) bool {
	variables, _ := getWorkflow(t, envelopeEmit).Get("variables").([]any)
	return slices.ContainsFunc(variables, func(v any) bool { return harness.Get(v, "name") == any("provider") })
}
