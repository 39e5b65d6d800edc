package scenarios

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle"
	"wopcert/corpus"
	"wopcert/harness"
	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
)

type families = map[string]map[string]any

func switched(f families) func(*referencehost.Config) {
	return func(c *referencehost.Config) { c.Families = f }
}

func wrapped(parts ...tamper.Middleware) func(*referencehost.Config) {
	return func(c *referencehost.Config) { c.Wrap = parts }
}

func discoveryWith(edit func(doc object)) tamper.Middleware {
	return tamper.JSON(tamper.Discovery, http.StatusOK, func(_ *http.Request, doc map[string]any) { edit(doc) })
}

func both(parts ...func(*referencehost.Config)) func(*referencehost.Config) {
	return func(c *referencehost.Config) {
		var wrap []func(http.Handler) http.Handler
		for _, p := range parts {
			p(c)
			wrap, c.Wrap = append(wrap, c.Wrap...), nil
		}
		c.Wrap = wrap
	}
}

// hooks is a front that registers webhooks; the fields are what is wrong.
type hooks struct {
	mu   sync.Mutex
	held map[string]bool
	n    int
	bare bool
	lax  func(url string) bool
}

func (h *hooks) serve(w http.ResponseWriter, r *http.Request, _ http.Handler) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.Header().Set("OpenWOP-Version", corpus.ProtocolVersion)
	say := func(status int, doc object) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write(tamper.Encode(doc))
	}
	if r.Method == http.MethodPost {
		body, _ := tamper.BodyJSON(r)
		url := text(body, "url")
		if !strings.HasPrefix(url, "https://wopcert.example/") && !h.lax(url) {
			say(400, object{"error": "webhook_url_rejected", "message": "no"})
			return
		}
		id := "tenant-a/hook-" + newOpaque()
		if h.bare {
			id = "wh_" + newOpaque()[:8]
		}
		h.held[id] = true
		say(201, object{"webhookId": id})
		return
	}
	segment := strings.TrimPrefix(r.URL.EscapedPath(), "/webhooks/")
	id := unprojectID(strings.ReplaceAll(segment, "%2F", "/"))
	switch {
	case h.held[id]:
		delete(h.held, id)
		w.WriteHeader(http.StatusNoContent)
	case !strings.HasPrefix(id, "tenant-a/"):
		say(403, object{"error": "id_tenant_mismatch", "message": "no"})
	default:
		say(404, object{"error": "not_found", "message": "no"})
	}
}

func webhooks(change func(*hooks)) func(*referencehost.Config) {
	h := &hooks{held: map[string]bool{}, lax: func(string) bool { return false }}
	change(h)
	return both(switched(families{"webhooks": {"signatureAlgorithms": []any{"v1"}}}),
		wrapped(tamper.Instead(tamper.Or(tamper.Op(http.MethodPost, "/webhooks"), tamper.Op(http.MethodDelete, "/webhooks/{}")), h.serve)))
}

// seamFront mounts one seam.
func seamFront(path string, status int, body string) tamper.Middleware {
	return tamper.Instead(tamper.Op("", path), func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	})
}

// dualFront serves major 1 under /v1 and lists it.
func dualFront(served func(path string) bool) tamper.Middleware {
	return tamper.Chain(
		discoveryWith(func(doc object) {
			doc["protocolVersions"] = []any{"1.9", corpus.ProtocolVersion}
			doc["preferredVersion"], doc["protocolVersion"] = "1.9", "1.9"
		}),
		func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				path, old := strings.CutPrefix(r.URL.EscapedPath(), "/v1")
				switch v := r.Header.Get("OpenWOP-Version"); {
				case !old && v == "1":
					r.Header.Set("OpenWOP-Version", "2")
				case !old && !served(path):
					path = "/nothing"
				case old && v != "" && v != "1":
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(http.StatusBadRequest)
					_, _ = w.Write([]byte(`{"error":"protocol_version_mismatch","message":"no"}`))
					return
				case old:
					r.Header.Set("OpenWOP-Version", "2")
				}
				if old || path == "/nothing" {
					tamper.SetPath(r, path)
				}
				if !old || r.Method != http.MethodPost {
					next.ServeHTTP(w, r)
					return
				}
				a := tamper.Record(next, r)
				a.Header.Set("OpenWOP-Version", "1.9")
				if doc, ok := a.JSON(); ok {
					_, bare, _ := strings.Cut(text(doc, "runId"), "/")
					doc["runId"] = bare
					a.SetJSON(doc)
				}
				a.Send(w)
			})
		})
}

// TestSwitches brings the reference host into the states in which the rows
// that do not bind it do, right and wrong, and looks at every row named.
func TestSwitches(t *testing.T) {
	t.Parallel()
	all := func(string) bool { return true }
	claimed := func(at string) tamper.Middleware {
		return tamper.JSON(tamper.GetRun, http.StatusOK, func(_ *http.Request, doc map[string]any) {
			if harness.Get(doc, "tags") == nil {
				doc["extensions"] = object{"example.residency": object{at: true}}
			}
		})
	}
	constrained := tamper.Requests(tamper.CreateRun, func(r *http.Request) {
		if doc, ok := tamper.BodyJSON(r); ok {
			if _, has := doc["residency"]; !has {
				doc["tags"] = []any{"plain"}
			}
			delete(doc, "residency")
			tamper.SetBodyJSON(r, doc)
		}
	})
	conversation := rowsOf(gatedTypes(), "runs.capability-required-refused", "runs.conversation-gate-refused")
	page := func(header bool) tamper.Middleware {
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("OpenWOP-Version") != "" || !strings.HasPrefix(r.Header.Get("Accept"), "text/html") {
					next.ServeHTTP(w, r)
					return
				}
				w.Header().Set("Content-Type", "text/html")
				if header {
					w.Header().Set("OpenWOP-Version", corpus.ProtocolVersion)
				}
				_, _ = w.Write([]byte("<p>run</p>"))
			})
		}
	}
	pages := rowsOf(sharedNamePages(), "versioning.protocol-client-served", "versioning.page-unversioned")
	hook := rowsOf(boundIDKinds(), "0187.bound-id-kinds.webhook", "0187.bound-id-kinds.webhook-emitted")
	egress := rowsOf(webhookEgress(), "0171.webhook-egress-refused")
	twin := rowsOf(preferredVersionTwin(), "versioning.single-major-twin")
	ext := rowsOf(extensionKeys(), "capabilities.extension-orgs")
	seams := rowsOf(seamsAdvertised(), "conformance.seams-advertised")
	profiles := rowsOf(profilesDerivedOnly(), "0169.profiles-derived-only.derivable", "0169.profiles-derived-only.no-root-profiles")
	space := rowsOf(advertisedPathSpace(), "0172.advertised-path-space-served")
	dual := rowsOf(dualStackNegotiation(), "0172.dual-stack-negotiation.v1-path-mismatch", "0172.dual-stack-negotiation.cross-major-read")
	residency := rowsOf(dataResidency(), "runs.residency-not-claimed")
	gatedOff := rowsOf(gatedOperations(), "runs.gated-operations-absent")
	unoptioned := func(section string) tamper.Middleware {
		return tamper.Requests(tamper.CreateRun, func(r *http.Request) {
			if doc, ok := tamper.BodyJSON(r); ok {
				if options, ok := doc["configurable"].(object); ok {
					delete(options, section)
				}
				tamper.SetBodyJSON(r, doc)
			}
		})
	}
	without := func(m tamper.Match, header string) tamper.Middleware {
		return tamper.Requests(m, func(r *http.Request) { r.Header.Del(header) })
	}
	allowing := func(headers string) tamper.Middleware {
		return tamper.Answers(tamper.Op(http.MethodOptions, "/runs"), func(_ *http.Request, a *tamper.Answer) {
			a.Header.Set("Access-Control-Allow-Headers", headers)
		})
	}
	cors := rowsOf(corsPreflight(), "headers.cors-preflight")
	duration := rowsOf(runBounds(), "runs.recursion-limit-breach", "runs.run-duration-breach", "runs.loop-limit-breach")
	bounds := rowsOf(runBounds(), "runs.recursion-limit-breach", "runs.loop-limit-breach")
	bounds.scenario.Tests = slices.DeleteFunc(bounds.scenario.Tests, func(test harness.Test) bool { return test.Slow > 0 }) // it would wait for the end of patience
	ai := rowsOf(aiOptions(), "runs.provider-unlisted-refused", "runs.credential-ref-refused", "runs.mock-provider-refused")
	scoped := rowsOf(idempotencyScope(), "idempotency.mutating-operations", "idempotency.key-scoped-to-operation",
		"idempotency.key-tenant-scope", "idempotency.refusals-not-cached", "idempotency.get-ignores-key")
	cases := map[string]struct {
		change func(*referencehost.Config)
		rows   rows
		fails  []string
	}{
		"conversation off": {switched(families{"conversationPrimitive": nil}), conversation, nil},
		"conversation off, no details": {both(switched(families{"conversationPrimitive": nil}), wrapped(
			tamper.JSON(tamper.CreateRun, 422, func(_ *http.Request, doc map[string]any) { delete(doc, "details") }))), conversation,
			[]string{"runs.conversation-gate-refused"}},
		"agents off": {switched(families{"agents": nil}), rowsOf(evalUnadvertised(), "runs.eval-unadvertised-refused"), nil},
		"agents off, mode stripped": {both(switched(families{"agents": nil}), wrapped(tamper.Requests(tamper.CreateRun, func(r *http.Request) {
			if doc, ok := tamper.BodyJSON(r); ok && doc["mode"] != nil {
				delete(doc, "mode")
				delete(doc, "evalSuiteRef")
				delete(doc, "agentId")
				tamper.SetBodyJSON(r, doc)
			}
		}))), rowsOf(evalUnadvertised(), "runs.eval-unadvertised-refused"), []string{"runs.eval-unadvertised-refused"}},
		"residency off, refused": {switched(families{"dataResidency": nil}), residency, nil},
		"residency off, ignored": {both(switched(families{"dataResidency": nil}), wrapped(constrained)), residency, nil},
		"residency off, claimed": {both(switched(families{"dataResidency": nil}), wrapped(constrained, claimed("honored"))), residency,
			[]string{"runs.residency-not-claimed"}},
		"feedback and agents off": {switched(families{"feedback": nil, "agents": nil, "runList": nil}), gatedOff, nil},
		"compensation answers":    {both(switched(families{"compensation": nil}), wrapped(seamFront("/runs/{}/compensation", 200, "{}"))), gatedOff, []string{"runs.gated-operations-absent"}},
		"effects as HTML": {both(switched(families{"idempotency": nil}), wrapped(tamper.Answers(tamper.Op("GET", "/runs/{}/effects"), func(_ *http.Request, a *tamper.Answer) {
			a.Header.Set("Content-Type", "text/html")
			a.Body = []byte("<p>no</p>")
		}))), gatedOff, []string{"runs.gated-operations-absent"}},
		"webhooks on":         {webhooks(func(*hooks) {}), hook, nil},
		"webhooks, egress":    {webhooks(func(*hooks) {}), egress, nil},
		"webhook id bare":     {webhooks(func(h *hooks) { h.bare = true }), rowsOf(boundIDKinds(), "0187.bound-id-kinds.webhook-emitted"), []string{"0187.bound-id-kinds.webhook-emitted"}},
		"webhooks, loopback":  {webhooks(func(h *hooks) { h.lax = func(u string) bool { return strings.Contains(u, "127.0.0.1") } }), egress, []string{"0171.webhook-egress-refused"}},
		"twin unequal":        {wrapped(discoveryWith(func(doc object) { doc["protocolVersion"] = "2.99" })), twin, []string{"versioning.single-major-twin"}},
		"twin equal":          {wrapped(), twin, nil},
		"an extension":        {wrapped(discoveryWith(func(doc object) { doc["extensions"] = object{"example.note": object{}} })), ext, nil},
		"a vendor extension":  {wrapped(discoveryWith(func(doc object) { doc["extensions"] = object{"vendor.thing": object{}} })), ext, []string{"capabilities.extension-orgs"}},
		"an extension so-so":  {wrapped(discoveryWith(func(doc object) { doc["extensions"] = object{"note": object{}} })), ext, []string{"capabilities.extension-orgs"}},
		"a profile claimed":   {wrapped(discoveryWith(func(doc object) { doc["auth"].(object)["profiles"] = []any{} })), profiles, []string{"0169.profiles-derived-only.no-root-profiles"}},
		"a family that is on": {wrapped(discoveryWith(func(doc object) { doc["eventLog"] = true })), profiles, []string{"0169.profiles-derived-only.derivable"}},
		"a seam unadvertised": {wrapped(seamFront("/conformance/seams/workspace/files", 200, `{"files":[]}`)), seams, []string{"conformance.seams-advertised"}},
		"a seam that refuses": {wrapped(seamFront("/conformance/seams/sample/event-log/seed", 400, `{"error":"validation_error","message":"no"}`)), seams, []string{"conformance.seams-advertised"}},
		"a seam advertised": {wrapped(seamFront("/conformance/seams/workspace/files", 200, `{"files":[]}`),
			discoveryWith(func(doc object) { doc["conformance"] = object{"seamsProfile": seamsProfile} })), seams, nil},
		"pages for browsers":   {wrapped(page(false)), pages, nil},
		"pages with a version": {wrapped(page(true)), pages, []string{"versioning.page-unversioned"}},
		"a page for everybody": {wrapped(tamper.Instead(tamper.And(tamper.GetRun, func(r *http.Request) bool { return strings.HasPrefix(r.Header.Get("Accept"), "text/html") }),
			func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
				w.Header().Set("Content-Type", "text/html")
				_, _ = w.Write([]byte("<p>run</p>"))
			})), pages, []string{"versioning.protocol-client-served"}},
		"preflight with an asterisk": {wrapped(allowing("*")), cors, []string{"headers.cors-preflight"}},
		"preflight with the names":   {wrapped(allowing("authorization, Content-Type,idempotency-key, openwop-client-version,OpenWOP-Dedup,OPENWOP-FORCE-ENGINE-VERSION,openwop-version")), cors, nil},
		"preflight without dedup":    {wrapped(allowing("authorization, Content-Type,idempotency-key, openwop-client-version,OPENWOP-FORCE-ENGINE-VERSION,openwop-version")), cors, []string{"headers.cors-preflight"}},
		"bounds ignored":             {wrapped(unoptioned("run")), bounds, bounds.ids},
		"a breach unrecorded": {wrapped(tamper.Events(func(e map[string]any) bool {
			return e["type"] != "cap.breached" || harness.Get(e, "payload", "kind") != "run-duration"
		})), duration, []string{"runs.run-duration-breach"}},
		"ai options ignored":   {wrapped(unoptioned("ai")), ai, ai.ids},
		"dedup ignored":        {wrapped(without(tamper.CreateRun, "OpenWOP-Dedup")), rowsOf(runDedup(), "runs.dedup-enforced"), []string{"runs.dedup-enforced"}},
		"keys of creates only": {wrapped(without(tamper.Not(tamper.CreateRun), "Idempotency-Key")), scoped, []string{"idempotency.mutating-operations"}},
		"a race that everybody wins": {wrapped(tamper.Requests(tamper.CreateRun, func(r *http.Request) {
			if doc, ok := tamper.BodyJSON(r); ok && doc["tags"] != nil {
				r.Header.Set("Idempotency-Key", newIdempotencyKey())
			}
		})), rowsOf(idempotencyInFlight(), "0213.in-flight-one-winner"),
			[]string{"0213.in-flight-one-winner"}},
		"metadata obeyed": {wrapped(tamper.Requests(tamper.CreateRun, func(r *http.Request) {
			if doc, ok := tamper.BodyJSON(r); ok && harness.Get(doc, "metadata", "recursionLimit") != nil {
				doc["configurable"] = object{"version": 1, "run": object{"recursionLimit": 1}}
				tamper.SetBodyJSON(r, doc)
			}
		})), rowsOf(metadataInert(), "runs.metadata-inert"), []string{"runs.metadata-inert"}},
		"engine version ignored": {wrapped(without(tamper.CreateRun, "OpenWOP-Force-Engine-Version")),
			rowsOf(forceEngineVersion(), "headers.force-engine-version-honored", "runs.force-engine-version-refused"),
			[]string{"headers.force-engine-version-honored", "runs.force-engine-version-refused"}},
		"everybody writes": {func(c *referencehost.Config) { c.Keys[2].Scopes = c.Keys[0].Scopes }, rowsOf(operationScopes(), "runs.operation-scopes"),
			[]string{"runs.operation-scopes"}},
		"schema unchecked": {wrapped(tamper.Requests(tamper.CreateRun, func(r *http.Request) {
			if doc, ok := tamper.BodyJSON(r); ok && doc["workflowId"] == schemaBound {
				delete(doc, "configurable")
				tamper.SetBodyJSON(r, doc)
			}
		})), rowsOf(configurableSchema(), "runs.configurable-schema-surfaced", "runs.configurable-schema-enforced"), []string{"runs.configurable-schema-enforced"}},
		"configurable gone at the end": {wrapped(tamper.JSON(tamper.GetRun, 200, func(_ *http.Request, doc map[string]any) {
			if endedStatus(text(doc, "status")) {
				delete(doc, "configurable")
			}
		})), rowsOf(configurableConstant(), "runs.configurable-constant"), []string{"runs.configurable-constant"}},
		"both majors":                   {wrapped(dualFront(all)), dual, nil},
		"both majors, all paths":        {wrapped(dualFront(all)), space, nil},
		"both majors, runs not mounted": {wrapped(dualFront(func(path string) bool { return path != "/runs" })), space, []string{"0172.advertised-path-space-served"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, err := referencehost.DefaultConfig()
			require.NoError(t, err)
			tc.change(&config)
			results := certified(t, config, []harness.Scenario{tc.rows.scenario})
			var failed, held []string
			for _, row := range results.Rows {
				id, ok := strings.CutPrefix(row.ID, "openwop.requirement.")
				if !ok || !tc.rows.has(id) {
					continue
				}
				switch row.Result {
				case bundle.ExecutedFail:
					failed = append(failed, id)
				case bundle.ExecutedPass:
					held = append(held, id)
				default:
					t.Logf("%s %s: %s", row.Result, row.ID, row.Detail)
				}
			}
			assert.ElementsMatch(t, tc.fails, failed)
			assert.Len(t, held, len(tc.rows.ids)-len(tc.fails))
		})
	}
}

// rows are the requirements of a scenario that a case looks at.
type rows struct {
	scenario harness.Scenario
	ids      []string
}

func rowsOf(s harness.Scenario, ids ...string) rows { return rows{s, ids} }

func (r rows) has(id string) bool { return slices.Contains(r.ids, id) }
