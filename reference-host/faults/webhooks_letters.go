package faults

import (
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"time"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/reference-host/tamper/outbound"
	"wopcert/requirements"
)

// inLetters edits every page of dead letters.
func inLetters(edit func(doc object, list []any) []any) tamper.Middleware {
	return tamper.JSON(deadLetters(), http.StatusOK, func(_ *http.Request, doc map[string]any) {
		list, _ := doc["deliveries"].([]any)
		doc["deliveries"] = edit(doc, list)
	})
}

// inLetter edits every dead letter.
func inLetter(edit func(letter object)) tamper.Middleware {
	return inLetters(func(_ object, list []any) []any {
		for _, v := range list {
			edit(v.(object))
		}
		return list
	})
}

// exhausted edits every dead letter of a delivery whose attempts were used up.
func exhausted(edit func(letter object)) tamper.Middleware {
	return inLetter(func(l object) {
		if l["reason"] == "retries_exhausted" {
			edit(l)
		}
	})
}

func deadLetterFaults() []Fault {
	dead, read, content := requirements.R0173WebhookDurableDeliveryDeadLetter, requirements.R0188DeadLetterRead, requirements.R0188DeadLetterContentFree
	pages, cursor := requirements.WebhooksDeadLetterPages, requirements.WebhooksDeadLetterCursor
	retention, gone := requirements.WebhooksDeadLetterRetention, requirements.WebhooksDeadLetterUnregistered
	return []Fault{
		wire("webhook-letters-lost", "What is given up is forgotten.", "among the dead letters",
			inLetters(func(object, []any) []any { return []any{} }), dead, requirements.WebhooksUnprojectableDeadLettered).
			blocking(read, content, pages, cursor, retention, gone).slow(),
		wire("webhook-letters-twice", "A delivery that was given up is listed twice.", "records of one delivery|each record on one page|two records or fewer",
			inLetters(func(_ object, list []any) []any { return append(list, list...) }), dead, pages),
		wire("webhook-letter-attempts-retries", "A dead letter counts the retries and not the attempts.", "attempts",
			exhausted(func(l object) { l["attempts"] = integer(l["attempts"]) - 1 }), dead),
		wire("webhook-letter-other-reason", "A dead letter gives the other reason.", "reason",
			inLetter(func(l object) { l["reason"] = "payload_unprojectable" }), dead),
		wire("webhook-letter-status-of-gateway", "A dead letter holds a status nobody answered.", "lastStatus",
			inLetter(func(l object) { l["lastStatus"] = 504 }), dead),
		wire("webhook-letter-of-another-type", "A dead letter names another type of event.", "eventType",
			exhausted(func(l object) { l["eventType"] = "run.started" }), dead),
		wire("webhook-letter-id-bare", "A dead letter is named without its tenant.", "deliveryId",
			inLetter(func(l object) { _, l["deliveryId"], _ = strings.Cut(text(l["deliveryId"]), "/") }), read, pages),
		wire("webhook-letter-id-of-another-tenant", "A dead letter is named under another tenant.", "deliveryId",
			inLetter(func(l object) { l["deliveryId"] = "another-" + text(l["deliveryId"]) }), read),
		wire("webhook-letter-without-expiry", "A dead letter does not say until when it is kept.", "expiresAt",
			inLetter(func(l object) { delete(l, "expiresAt") }), read, pages, retention),
		wire("webhook-letter-kept-shorter", "A dead letter is kept a day less than is advertised.", "expiresAt",
			inLetter(func(l object) {
				at, _ := time.Parse(time.RFC3339, text(l["expiresAt"])) // the host writes no other form
				l["expiresAt"] = at.Add(-24 * time.Hour).Format(time.RFC3339)
			}), retention),
		wire("webhook-letter-with-secret", "A dead letter holds what it was to be signed with.", "secret|one is in it",
			inLetter(func(l object) { l["secret"] = "none of your business" }), read, pages, content),
		bodyInLetters(content),
		wire("webhook-letters-oldest-first", "Dead letters are listed from the oldest on.", "newest to the oldest",
			inLetters(func(_ object, list []any) []any { slices.Reverse(list); return list }), pages),
		wire("webhook-letters-limit-ignored", "A page of dead letters is as long as it gets.", "two records or fewer",
			tamper.Requests(deadLetters(), func(r *http.Request) { tamper.SetQuery(r, "limit", "") }), pages).blocking(cursor),
		wire("webhook-letters-end-early", "The first page of dead letters is the last.", "of 4",
			tamper.JSON(deadLetters(), http.StatusOK, func(_ *http.Request, doc map[string]any) { delete(doc, "nextCursor") }), pages).blocking(cursor),
		wire("webhook-cursor-ignored", "A cursor the host did not mint is no cursor.", "200",
			askingAgain(func(string) bool { return true }), cursor),
		cursorOfAnother(cursor),
		wire("webhook-letters-foreign-not-found", "The dead letters of another tenant are not found.", "404",
			refuseInstead(deadLetters(), 403, 404, "not_found"), requirements.WebhooksDeadLetterForeign),
		wire("webhook-letters-foreign-empty", "Another tenant has no dead letters to show.", "200",
			tamper.Answers(deadLetters(), func(_ *http.Request, a *tamper.Answer) {
				if a.Status == http.StatusForbidden {
					a.Status = http.StatusOK
					a.SetJSON(object{"deliveries": []any{}})
				}
			}), requirements.WebhooksDeadLetterForeign),
		wire("webhook-letters-after-unregister", "A subscription that is not there has no dead letters.", "200",
			tamper.Answers(deadLetters(), func(_ *http.Request, a *tamper.Answer) {
				if a.Status == http.StatusNotFound {
					a.Status = http.StatusOK
					a.SetJSON(object{"deliveries": []any{}})
				}
			}), gone),
		wire("webhook-letters-gone", "The dead letters of a subscription that is not there are refused as those of another tenant.", "403",
			refuseInstead(deadLetters(), 404, 403, "id_tenant_mismatch"), gone),
	}
}

// afterRestart are what goes wrong with webhooks when the host comes back.
func afterRestartFaults() []Fault {
	outlasts, id := requirements.WebhooksOutlastsRestart, requirements.WebhooksMessageIdRestart
	unprojectable := requirements.WebhooksUnprojectableDeadLettered
	isUnprojectable := func(l object) bool { return l["reason"] == "payload_unprojectable" }
	return []Fault{
		made("webhook-deliveries-lost", "What was not delivered when the host ended is not delivered any more.", "none in the time given",
			withoutRows("webhook-deliveries"), outlasts).blocking(id).slow(),
		made("webhook-message-id-of-process", "A message has another id when the host comes back.", "the webhook-id of the attempt before the kill",
			func(c *referencehost.Config) {
				process := rand.Text()
				outbound.Delivering(func(p *outbound.Post) {
					if p.Hook.Standard {
						p.Header.Set("webhook-id", process+"_"+p.Header.Get("webhook-id"))
						p.Sign()
					}
				})(c)
			}, id),
		wire("webhook-unprojectable-lost", "What cannot be shown in version 2 is left out without a word.", "among the dead letters",
			inLetters(func(_ object, list []any) []any {
				return slices.DeleteFunc(list, func(v any) bool { return isUnprojectable(v.(object)) })
			}), unprojectable).slow(),
		wire("webhook-unprojectable-exhausted", "What cannot be shown in version 2 is said to have been tried often enough.", "reason of the record",
			inLetter(func(l object) {
				if isUnprojectable(l) {
					l["reason"] = "retries_exhausted"
				}
			}), unprojectable),
	}
}

// withoutRows has a host find a table empty when it starts.
func withoutRows(table string) func(*referencehost.Config) {
	return func(c *referencehost.Config) { c.Store = emptyTable{c.Store, table} }
}

type emptyTable struct {
	referencehost.Store
	table string
}

// Scan implements referencehost.Store.
func (s emptyTable) Scan(ctx context.Context, table, prefix string, visit func(key string, value []byte) error) error {
	if table == s.table && prefix == "" {
		return nil
	}
	return s.Store.Scan(ctx, table, prefix, visit)
}

// askingAgain drops a cursor that was refused, where it is one of those meant.
func askingAgain(meant func(cursor string) bool) tamper.Middleware {
	return tamper.Instead(deadLetters(), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := tamper.Record(next, r)
		if cursor := r.URL.Query().Get("cursor"); a.Status == http.StatusBadRequest && cursor != "" && meant(cursor) {
			a = tamper.Ask(next, r, http.MethodGet, r.URL.EscapedPath(), nil)
		}
		a.Send(w)
	})
}

// cursorOfAnother takes any cursor the host has minted, for whatever list.
func cursorOfAnother(breaks requirements.ID) Fault {
	var minted notes[bool]
	return wire("webhook-cursor-of-another", "A cursor is good for every subscription.", "200",
		tamper.Chain(
			tamper.JSON(deadLetters(), http.StatusOK, func(_ *http.Request, doc map[string]any) {
				if cursor := text(doc["nextCursor"]); cursor != "" {
					minted.put(cursor, true)
				}
			}),
			askingAgain(func(cursor string) bool { known, _ := minted.get(cursor); return known }),
		), breaks)
}

// bodyInLetters puts what could not be delivered beside the list of it.
func bodyInLetters(breaks requirements.ID) Fault {
	var last notes[string] // webhookId -> body
	return Fault{ID: "webhook-letters-with-body", Summary: "What could not be delivered stands in a header of the page.", Reason: "a text of a payload",
		Breaks: []requirements.ID{breaks},
		Wrap: tamper.Answers(deadLetters(), func(r *http.Request, a *tamper.Answer) {
			if body, ok := last.get(hookSegment(r)); ok && a.Status == http.StatusOK {
				a.Header.Set("Last-Delivery", body)
			}
		}),
		Decorate: outbound.Delivering(func(p *outbound.Post) {
			if strings.Contains(string(p.Body), `"run.started"`) || strings.Contains(string(p.Body), `"node.completed"`) {
				last.put(p.Hook.ID, string(p.Body))
			}
		}),
	}
}

func egressRuleFaults() []Fault {
	mapped, translated, special := requirements.WebhooksEgressMapped, requirements.WebhooksEgressTranslated, requirements.WebhooksEgressSpecialPurpose
	refusing := func(id, summary string, breaks requirements.ID, marks ...string) Fault {
		return wire(id, summary, "201 for the public address", tamper.Instead(registerHook(), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			asked, _ := tamper.BodyJSON(r)
			a := tamper.Record(next, r)
			for _, mark := range marks {
				if a.Status == http.StatusCreated && strings.Contains(strings.ToLower(text(asked["url"])), mark) {
					a.Refuse(http.StatusBadRequest, "webhook_url_rejected", "not there")
				}
			}
			a.Send(w)
		}), breaks)
	}
	accepting := func(id, summary string, breaks requirements.ID, marks ...string) Fault {
		return wire(id, summary, "201", askingHook(func(doc object) {
			for _, mark := range marks {
				if strings.Contains(strings.ToLower(text(doc["url"])), mark) {
					doc["url"] = "https://hooks.example/x"
				}
			}
		}), breaks)
	}
	return []Fault{
		refusing("webhook-mapped-refused", "Every IPv4-mapped address is refused.", mapped, "ffff:"),
		accepting("webhook-mapped-hex-accepted", "A private address is not recognised in the hexadecimal spelling of a mapped one.", mapped, "ffff:a00:1]", "ffff:7f00:1]"),
		accepting("webhook-mapped-long-accepted", "A private address is not recognised in a mapped one that is written out.", mapped, "0000:0000:"),
		refusing("webhook-nat64-refused", "Every address behind NAT64 is refused.", translated, "[64:ff9b:"),
		refusing("webhook-6to4-refused", "Every address of 6to4 is refused.", translated, "[2002:"),
		accepting("webhook-nat64-private-accepted", "A private address behind NAT64 is accepted.", translated, "[64:ff9b::10", "[64:ff9b::7f"),
		accepting("webhook-compatible-private-accepted", "A private address in the IPv4-compatible form is accepted.", translated, "[::10.0.0.1]", "[::a00:1]"),
		accepting("webhook-documentation-accepted", "An address for documentation is accepted.", special, "203.0.113.", "198.51.100.", "192.0.2.", "2001:db8"),
		accepting("webhook-carrier-accepted", "An address inside a carrier's network is accepted.", special, "100.64."),
		accepting("webhook-benchmark-accepted", "An address for benchmarks is accepted.", special, "198.18."),
	}
}

func subscriberFaultsV1() []Fault {
	accepted := requirements.R0176V1SignedWebhookAccepted
	seam := tamper.Op(http.MethodPost, "/conformance/seams/sample/webhooks/receive")
	verdict := func(id, summary, reason string, edit func(asked object, doc object)) Fault {
		return wire(id, summary, reason, tamper.Instead(seam, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			asked, _ := tamper.BodyJSON(r)
			a := tamper.Record(next, r)
			if doc, ok := a.JSON(); ok && a.Status == http.StatusOK {
				edit(asked, doc)
				a.SetJSON(doc)
			}
			a.Send(w)
		}), accepted)
	}
	headerOf := func(asked object, name string) string {
		headers, _ := asked["headers"].(object)
		for key, value := range headers {
			if strings.EqualFold(key, name) {
				return text(value)
			}
		}
		return ""
	}
	because := func(reason string) func(asked, doc object) {
		return func(_, doc object) {
			if strings.Contains(text(doc["reason"]), reason) {
				doc["accepted"] = true
				delete(doc, "reason")
			}
		}
	}
	return []Fault{
		verdict("webhook-v1-refused", "A delivery of a host of version 1 is refused.", "the headers of version 1", func(asked, doc object) {
			if headerOf(asked, "OpenWOP-Signature") == "" {
				doc["accepted"] = false
			}
		}),
		verdict("webhook-v1-case-matters", "The headers of a delivery are found in one spelling.", "in lower case", func(asked, doc object) {
			if headers, ok := asked["headers"].(object); ok && headers["x-openwop-signature"] != nil {
				doc["accepted"] = false
			}
		}),
		verdict("webhook-v1-tampered-accepted", "The signature of a delivery is not checked.", "accepted for", because("signature does not match")),
		verdict("webhook-v1-stale-accepted", "The time of a delivery is not checked.", "six minutes", because("five minutes")),
		verdict("webhook-v1-algorithm-accepted", "The algorithm of a delivery is not looked at.", "an algorithm nobody knows", because("algorithm is not v1")),
		wire("webhook-v1-not-listed", "The host lists the companion scheme alone.", "signatureAlgorithms with v1|signatureAlgorithms lacks", document(func(doc object) {
			if hooks, ok := doc["webhooks"].(object); ok {
				hooks["signatureAlgorithms"] = []any{"standard-webhooks-1"}
			}
		}), requirements.R0176V1SignedWebhookAcceptedFacet, requirements.R0169CapabilitiesRootClosedValid),
	}
}
