package scenarios

import (
	"net/http"
	"slices"
	"strings"

	"wopcert/corpus"
	"wopcert/harness"
	"wopcert/requirements"
)

// corsPreflight: headers.md, "Cross-origin preflight".
func corsPreflight() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-cors-preflight",
		Title:    "A page that is granted its origin is granted every header it needs",
		Document: "headers.md",
		Section:  "Cross-origin preflight",
		Tests: []harness.Test{{
			Name:      "preflights of the operations of a run",
			Public:    true,
			Witnesses: []requirements.ID{requirements.HeadersCorsPreflight},
			Run: func(t *harness.T) {
				granted := 0
				for _, id := range []string{"createRun", "getRun", "listRuns", "cancelRun", "streamRunEvents", "pauseRun"} {
					op, ok := t.Corpus().Operation(id)
					if !ok || op.Gate == "runList" && !t.Host().Discovery.Advertises(op.Gate) {
						continue
					}
					if r := preflight(t, op); grants(r) {
						granted++
						t.Expect(requirements.HeadersCorsPreflight, admits(op, r))
					}
				}
				if granted == 0 {
					t.Inapplicable(requirements.HeadersCorsPreflight, "the host grants no preflight to the origin %s", pageOrigin)
				}
			},
		}},
	}
}

// pageOrigin is where the page lives that asks across origins.
const pageOrigin = "https://wopcert.example"

// neededHeaders are those a page has to be able to send to an operation.
func neededHeaders(op corpus.Operation) []string {
	var out []string
	for _, name := range op.RequestHeaders {
		out = append(out, strings.ToLower(name))
	}
	if op.Authenticated {
		out = append(out, "authorization")
	}
	if op.RequestBody {
		out = append(out, "content-type")
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// preflight asks as a browser does: without a credential, and with the names
// in lower case and sorted.
func preflight(t *harness.T, op corpus.Operation) *harness.Response {
	path := strings.ReplaceAll(op.Path, "{runId}", projectID("wopcert/"+newOpaque()))
	return t.Do(harness.Request{Method: http.MethodOptions, Path: path, As: harness.Anonymous, Version: harness.NoVersion,
		Header: headerOf("Origin", pageOrigin, "Access-Control-Request-Method", op.Method,
			"Access-Control-Request-Headers", strings.Join(neededHeaders(op), ","))})
}

// grants reports whether a response says that the origin may come in.
func grants(r *harness.Response) bool {
	return r.Err == nil && slices.ContainsFunc(r.Header.Values("Access-Control-Allow-Origin"), func(v string) bool {
		v = strings.TrimSpace(v)
		return v == "*" || v == pageOrigin
	})
}

// admits checks that a granted preflight covers an operation's method and its
// headers. A response that is no success admits nothing; with credentials an asterisk is a name like any other (the Fetch
// standard), and it never stands for Authorization.
func admits(op corpus.Operation, r *harness.Response) harness.Check {
	methods, headers := tokens(r, "Access-Control-Allow-Methods"), tokens(r, "Access-Control-Allow-Headers")
	wild := strings.TrimSpace(r.Header.Get("Access-Control-Allow-Credentials")) != "true"
	expected := "2xx that admits " + op.Method + " and " + strings.Join(neededHeaders(op), ", ")
	var missing []string
	if !slices.Contains(methods, op.Method) && !(wild && slices.Contains(methods, "*")) {
		missing = append(missing, op.Method)
	}
	for _, name := range neededHeaders(op) {
		named := slices.ContainsFunc(headers, func(h string) bool { return strings.EqualFold(h, name) })
		if !named && !(wild && name != "authorization" && slices.Contains(headers, "*")) {
			missing = append(missing, name)
		}
	}
	return harness.That(r.Status >= 200 && r.Status <= 299 && len(missing) == 0, expected,
		"%s answered %d that does not admit %q", r.Request, r.Status, missing).At(r)
}

// tokens are the members of a header that is a list, over all its lines.
func tokens(r *harness.Response, name string) []string {
	var out []string
	for _, token := range strings.Split(strings.Join(r.Header.Values(name), ","), ",") {
		if token = strings.TrimSpace(token); token != "" {
			out = append(out, token)
		}
	}
	return out
}
