package variants

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// dictionary remembers which value stands for which.
type dictionary struct {
	mu sync.Mutex
	of map[string]string
}

func newDictionary() *dictionary { return &dictionary{of: map[string]string{}} }

// put notes what a shown value stands for, without the prefix of a weak tag,
// and returns it.
func (d *dictionary) put(shown, value string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.of[strings.TrimPrefix(shown, "W/")] = value
	return shown
}

// translate takes every shown value in a text back.
func (d *dictionary) translate(text string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for shown, value := range d.of {
		text = strings.ReplaceAll(text, shown, value)
	}
	return text
}

// created edits the 201 of a created run.
func created(edit func(r *http.Request, doc object)) tamper.Middleware {
	return tamper.JSON(tamper.CreateRun, http.StatusCreated, func(r *http.Request, doc map[string]any) { edit(r, doc) })
}

// snapshot edits the snapshot of a run.
func snapshot(edit func(doc object)) tamper.Middleware {
	return tamper.JSON(tamper.GetRun, http.StatusOK, func(_ *http.Request, doc map[string]any) { edit(doc) })
}

// relinked rewrites the links of a created run; origin is that of the request.
func relinked(link func(origin, path string) string) tamper.Middleware {
	return created(func(r *http.Request, doc object) {
		origin := "http://" + r.Host
		for _, name := range []string{"eventsUrl", "statusUrl"} {
			if s, ok := doc[name].(string); ok {
				doc[name] = link(origin, strings.TrimPrefix(s, origin))
			}
		}
	})
}

// counting mints ids from a counter in an alphabet of its own.
type counting struct {
	n    atomic.Uint64
	mint func(n uint64) string
}

// Opaque implements referencehost.IDs.
func (c *counting) Opaque() string { return c.mint(c.n.Add(1)) }

// ids makes the host mint its ids in another way.
func ids(mint func(n uint64) string) func(*referencehost.Config) {
	return func(c *referencehost.Config) { c.IDs = &counting{mint: mint} }
}

// tenantNames renames the tenants of the configured keys.
func tenantNames(name func(tenant string) string) func(*referencehost.Config) {
	return func(c *referencehost.Config) {
		keys := append([]referencehost.Credential(nil), c.Keys...)
		for i := range keys {
			keys[i].Tenant = name(keys[i].Tenant)
		}
		c.Keys = keys
	}
}

func pad(n uint64, width int, with string) string {
	s := strconv.FormatUint(n, 10)
	return strings.Repeat(with, max(width-len(s), 0)) + s
}

func runVariants() []Variant {
	return []Variant{
		grant("links-absolute", "runs.md", "Response", "The links of a created run are absolute.",
			relinked(func(origin, path string) string { return origin + path })),
		grant("links-relative", "runs.md", "Response", "The links of a created run are paths.",
			relinked(func(_, path string) string { return path })),
		grant("links-without-scheme", "runs.md", "Response", "The links of a created run name the host without the scheme.",
			relinked(func(origin, path string) string { return strings.TrimPrefix(origin, "http:") + path })),
		grant("links-upper-case-scheme", "runs.md", "Response", "The links of a created run spell the scheme in capitals.",
			relinked(func(origin, path string) string { return "HTTP" + strings.TrimPrefix(origin, "http") + path })),
		grant("no-status-url", "runs.md", "Response", "A created run is answered without a statusUrl.",
			created(func(_ *http.Request, doc object) { delete(doc, "statusUrl") })),
		grant("status-url", "runs.md", "Response", "A created run is answered with a statusUrl.",
			created(func(_ *http.Request, doc object) {
				doc["statusUrl"] = "/runs/" + strings.Replace(text(doc["runId"]), "/", "~2F", 1)
			})),
		grant("created-pending", "runs.md", "Response", "A created run is answered as pending.",
			created(func(_ *http.Request, doc object) { doc["status"] = "pending" })),
		grant("created-running", "runs.md", "Response", "A created run is answered as running.",
			created(func(_ *http.Request, doc object) { doc["status"] = "running" })),
		grant("created-location", "runs.md", "Response", "A created run is answered with a Location.",
			tamper.Answers(tamper.CreateRun, func(_ *http.Request, a *tamper.Answer) {
				if doc, ok := a.JSON(); ok && a.Status == http.StatusCreated {
					a.Header.Set("Location", "/runs/"+strings.Replace(text(doc["runId"]), "/", "~2F", 1))
				}
			})),
		grant("cancel-answers-cancelling", "runs.md", "Cancel", "The answer to a cancel says that the run is being cancelled.",
			tamper.JSON(tamper.CancelRun, http.StatusOK, func(_ *http.Request, doc map[string]any) { doc["status"] = "cancelling" })),
		grant("cancel-answers-cancelled", "runs.md", "Cancel", "A cancel is answered once the run is cancelled, and says so.", cancelAwaited()),
		grant("no-snapshot-etag", "runs.md", "Caching and encoding", "A snapshot has no entity tag.",
			tamper.Answers(tamper.GetRun, func(_ *http.Request, a *tamper.Answer) { a.Header.Del("ETag") }),
			requirements.R0170RunSnapshotEtag),
		grant("snapshot-etag-weak", "runs.md", "Caching and encoding", "The entity tag of a snapshot is weak.",
			tagged(tamper.GetRun, func(tag string) string { return "W/" + tag })),
		grant("snapshot-etag-punctuation", "runs.md", "Caching and encoding", "The entity tag of a snapshot has another form.",
			tagged(tamper.GetRun, func(tag string) string { return `"v:` + strings.Trim(tag, `"`) + `/~"` })),
		grant("snapshot-minimal", "runs.md", "Snapshot", "A snapshot holds the required members, the run options and what its state asks for, and no more.",
			snapshot(func(doc object) {
				keep := map[string]bool{"runId": true, "workflowId": true, "status": true, "owner": true, "eventLogSchemaVersion": true,
					"configurable": true, "tags": true, "metadata": true, "error": true, "runOrchestrator": true, "compensationStatus": true}
				keep["currentNodeId"] = strings.HasPrefix(text(doc["status"]), "waiting-")
				for name := range doc {
					if !keep[name] {
						delete(doc, name)
					}
				}
			})),
		grant("snapshot-optional-members", "runs.md", "Snapshot", "A snapshot holds optional members.",
			snapshot(func(doc object) {
				doc["variables"], doc["channels"] = object{"x": nil}, object{}
				doc["startedAt"] = "2026-01-01T01:00:00.123456+01:00"
			})),
	}
}

func identityVariants() []Variant {
	return []Variant{
		grant("body-tenant-ignored", "runs.md", "Create", "The tenantId of a create goes unread: the tenant is that of the credential.",
			tamper.Requests(tamper.CreateRun, func(r *http.Request) {
				if body, ok := tamper.BodyJSON(r); ok && body["tenantId"] != nil {
					delete(body, "tenantId")
					tamper.SetBodyJSON(r, body)
				}
			})),
		made("ids-shortest", "identity.md", "5. Identifier grammars", "Ids have sixteen characters, all of them digits.",
			ids(func(n uint64) string { return pad(n, 16, "0") })),
		made("ids-longest", "identity.md", "5. Identifier grammars", "Ids have 128 characters.",
			ids(func(n uint64) string { return "Z" + pad(n, 127, "z") })),
		made("ids-punctuation", "identity.md", "5. Identifier grammars", "Ids hold every character beside letters and digits that the host may mint.",
			ids(func(n uint64) string { return "._-" + pad(n, 17, "-") + "._-" })),
		made("tenants-punctuation", "identity.md", "5. Identifier grammars", "Tenants are named with dots, dashes and underscores.",
			tenantNames(func(t string) string { return "T." + t + "_.-1" })),
		made("tenants-shortest", "identity.md", "5. Identifier grammars", "Tenants have names of one character.",
			tenantNames(func(t string) string { return t[len(t)-1:] })),
		made("tenants-longest", "identity.md", "5. Identifier grammars", "Tenants have names of 128 characters.",
			tenantNames(func(t string) string { return strings.Repeat("t", 127) + t[len(t)-1:] })),
		grant("subject-lane-named-otherwise", "identity.md", "1.1 Shape", "The owner of a run names a workspace.",
			tamper.Chain(snapshot(inWorkspace), tamper.Events(func(e map[string]any) bool {
				if p, ok := e["payload"].(object); ok && e["type"] == "run.started" {
					inWorkspace(p)
				}
				return true
			}))).unsent(),
		grant("unknown-key-unverified", "identity.md", "6. Identity error codes", "Every 401 says that the identity could not be verified.", coded(401, "identity_unverified")),
		grant("unknown-key-unauthenticated", "identity.md", "6. Identity error codes", "Every 401 says that the caller is not authenticated.", coded(401, "unauthenticated")),
		grant("unknown-key-revoked", "identity.md", "6. Identity error codes", "Every 401 says that the credential was revoked.", coded(401, "credential_revoked")),
		grant("challenge-absent", "identity.md", "2.5 Protected-resource metadata and challenges", "A 401 has no challenge.",
			tamper.Answers(tamper.Any, func(_ *http.Request, a *tamper.Answer) { a.Header.Del("WWW-Authenticate") })),
		grant("error-details", "errors.md", "The envelope", "Errors carry details of the host's own.",
			onError(func(doc object) {
				details, ok := doc["details"].(object)
				if doc["error"] == "payload_unprojectable" {
					return // its details are closed
				}
				if !ok {
					details = object{}
					doc["details"] = details
				}
				details["correlationId"], details["hint"], details["path"] = "c-1", "see the manual", []any{"a", 1}
			})),
		grant("error-messages-unicode", "errors.md", "The envelope", "Messages of errors are in another language.",
			onError(func(doc object) { doc["message"] = "Das geht so nicht: \u201eü\u201c \U0001F980\nzweite Zeile" })),
		grant("error-retry-after-date", "errors.md", "Retry timing", "Refusals say with a date when to try again.",
			tamper.Answers(tamper.Any, func(_ *http.Request, a *tamper.Answer) {
				if a.Status >= 400 {
					a.Header.Set("Retry-After", "Fri, 31 Dec 2100 23:59:59 GMT")
				}
			})),
		grant("replay-marked-in-full", "idempotency.md", "Layer 1: Idempotency-Key", "A replayed create carries headers the first answer did not have.",
			tamper.Answers(tamper.CreateRun, func(_ *http.Request, a *tamper.Answer) {
				if a.Header.Get("OpenWOP-Idempotent-Replay") != "" {
					a.Header.Set("Age", "1")
				}
			})),
	}
}

func inWorkspace(doc object) {
	if owner, ok := doc["owner"].(object); ok {
		owner["workspace"] = "main.workspace_1"
	}
}

// onError edits error envelopes, except where the details have a shape of
// their own.
func onError(edit func(doc object)) tamper.Middleware {
	return tamper.Answers(tamper.Any, func(_ *http.Request, a *tamper.Answer) {
		if doc, ok := a.JSON(); ok && a.Status >= 400 {
			edit(doc)
			a.SetJSON(doc)
		}
	})
}

// coded gives the answers of one status another code of that status.
func coded(status int, code string) tamper.Middleware {
	return tamper.JSON(tamper.Any, status, func(_ *http.Request, doc map[string]any) {
		if doc["error"] != "interrupt_token_invalid" { // the one code of its own that a token is refused with
			doc["error"] = code
		}
	})
}

// cancelAwaited answers an accepted cancel once the run is cancelled.
func cancelAwaited() tamper.Middleware {
	return tamper.Instead(tamper.CancelRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := tamper.Record(next, r)
		for a.Status == http.StatusOK && r.Context().Err() == nil {
			doc, _ := tamper.Ask(next, r, http.MethodGet, "/runs/"+tamper.RunSegment(r), nil).JSON()
			if doc["status"] == "cancelled" {
				a.SetJSON(object{"runId": doc["runId"], "status": "cancelled"})
				break
			}
			tamper.Pause(r.Context(), 5*time.Millisecond)
		}
		a.Send(w)
	})
}
