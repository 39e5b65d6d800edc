package variants

import (
	"encoding/json"
	"net/http"
	"slices"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/reference-host/tamper/logs"
	"wopcert/requirements"
)

// catalogued are the rows that need a vendor's kind the host admits.
func catalogued() []requirements.ID {
	return []requirements.ID{
		requirements.EventsEnvelopeMembersRequired, requirements.EventsEnvelopeCausation, requirements.EventsEnvelopeReemission,
		requirements.EventsEnvelopePartial, requirements.EventsEnvelopeKindCatalog, requirements.EventsEnvelopeVersionAbove,
		requirements.EventsEnvelopeAbsentMode, requirements.EventsEnvelopeDriftWarn, requirements.EventsEnvelopeContractRefused,
		requirements.EventsEnvelopeContractDistinct, requirements.EventsTierOneAccepted,
	}
}

// family lays one record over the host's own.
func family(name string, facets object) func(*referencehost.Config) {
	return families(map[string]map[string]any{name: facets})
}

// recoded gives failures of one code another, wherever they show.
func recoded(code, as string) tamper.Middleware {
	edit := func(v any) {
		if failure, ok := v.(object); ok && failure["code"] == code {
			failure["code"] = as
		}
	}
	return tamper.Chain(
		snapshot(func(doc object) { edit(doc["error"]) }),
		tamper.Events(func(e map[string]any) bool {
			payload, _ := e["payload"].(object)
			edit(payload["error"])
			return true
		}),
	)
}

// refusedOnce makes the first refusal of the model the last the run records.
func refusedOnce() tamper.Middleware {
	return tamper.Requests(tamper.CreateRun, func(r *http.Request) {
		doc, ok := tamper.BodyJSON(r)
		configurable, _ := doc["configurable"].(object)
		inputs, _ := doc["inputs"].(object)
		if ai, has := configurable["ai"].(object); ok && has && inputs["emissions"] != nil && ai["maxRefusals"] != nil && ai["maxRefusals"] != json.Number("0") {
			ai["maxRefusals"] = 1
			tamper.SetBodyJSON(r, doc)
		}
	})
}

// secondLines records a second line of what each envelope did.
func secondLines(log referencehost.Log, drafts []referencehost.Draft) []referencehost.Draft {
	out := make([]referencehost.Draft, 0, len(drafts))
	for _, d := range drafts {
		out = append(out, d)
		if d.Type == "log.appended" && d.CausationID != "" {
			d.EventID, d.Payload = d.EventID+".2", tamper.Encode(object{"level": "debug", "message": "the envelope was stored"})
			out = append(out, d)
		}
	}
	return out
}

func envelopeVariants() []Variant {
	const doc, e1to5, facets = "events.md", "AI envelopes: E1–E5", "Envelope, feedback and usage facets"
	return []Variant{
		made("envelope-kinds-absent", doc, "supportedEnvelopes", "The host makes no claim about kinds of envelopes.",
			family("supportedEnvelopes", object{"kinds": nil}), catalogued()...).opening(requirements.EventsEnvelopeCatalogAbsent),
		made("envelopes-not-claimed", doc, "supportedEnvelopes", "The host claims nothing about envelopes.",
			without("supportedEnvelopes", "schemaVersions", "envelopeStrictness", "envelopeContracts", "envelopes"),
			slices.Concat(catalogued(), []requirements.ID{
				requirements.EventsEnvelopeKindNamespaced, requirements.EventsRefusalNotRetried, requirements.EventsRefusalCeiling,
			})...),
		made("envelope-kinds-more", doc, "supportedEnvelopes", "The catalog of kinds holds content primitives and more kinds of a vendor.",
			family("supportedEnvelopes", object{"kinds": []any{
				"media.image", "ui.form", "example.other.thing", "example.wopcert-memo", "example.wopcert-note",
			}})),
		made("envelopes-strict", doc, "envelopeStrictness", "An envelope of an earlier version is refused.",
			family("envelopeStrictness", object{"mode": "strict"}), requirements.EventsEnvelopeAbsentMode, requirements.EventsEnvelopeDriftWarn).
			opening(requirements.EventsEnvelopeDriftStrict),
		made("envelopes-warn-stated", doc, "envelopeStrictness", "The host states the mode it would have without saying so.",
			family("envelopeStrictness", object{"mode": "warn"}), requirements.EventsEnvelopeAbsentMode),
		made("envelope-contracts-off", doc, "Envelope contracts", "Nodes have no envelope contracts.",
			without("envelopeContracts"), requirements.EventsEnvelopeContractRefused, requirements.EventsEnvelopeContractDistinct),
		made("envelope-contracts-denied", doc, "Envelope contracts", "The host says that nodes have no envelope contracts.",
			family("envelopeContracts", object{"advertised": false}),
			requirements.EventsEnvelopeContractRefused, requirements.EventsEnvelopeContractDistinct),
		made("envelopes-tier-one-warn", doc, facets, "The common subset of structured output is judged leniently.",
			family("envelopes", object{"tierOneSubsetCompliance": "warn"})),
		made("envelopes-tier-one-off", doc, facets, "The host says nothing about the common subset of structured output.",
			without("envelopes"), requirements.EventsTierOneAccepted),
		made("cost-estimates-off", doc, facets, "Usage is recorded without a cost.",
			family("providerUsage", object{"costEstimates": false}), requirements.EventsCostEstimateStamped),
		grant("envelope-refusals-coded-otherwise", doc, e1to5, "An envelope that is refused for its form has a general code.",
			recoded("envelope_invalid", "validation_error")),
		made("envelope-of-two-events", doc, e1to5, "An envelope is recorded in two events.", logs.Decorating(logs.Edit{Append: secondLines})),
		grant("envelope-refusal-ends-run", doc, e1to5, "The first refusal of a model ends the run.", refusedOnce()),
		made("ai-off", doc, facets, "The host has no AI provider and none that stands in for one.", without("aiProviders"),
			requirements.EventsMessagesChunks, requirements.EventsMessagesMeta, requirements.EventsCostEstimateStamped,
			requirements.EventsTierOneAccepted, requirements.RunsMockProviderRefused),
	}
}
