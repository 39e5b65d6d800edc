package referencehost

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"wopcert/corpus"
	"wopcert/reference-host/internal/era"
	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/token"
)

// request is one request on its way to an operation.
type request struct {
	*http.Request
	principal *principal // nil on an operation without authentication
	operation *corpus.Operation
	// id is the first decoded path parameter, "" where the path has none; a runId is bound to the caller's tenant.
	// second is the second one, as it was decoded.
	id, second string
	// body is the request body of a mutating operation.
	body []byte
	// record is the idempotency record the request holds, nil for none.
	record *eventlog.RecordKey
	// token is what the token of the path says, on an operation whose credential it is.
	token *token.Claims
}

// bodyTimeout bounds how long a client may take to send a body.
const bodyTimeout = 30 * time.Second

// route ties an operation of the contract to the code that serves it. Exactly one of answer and stream is set.
type route struct {
	operation corpus.Operation
	// path is where the host serves the operation, "" for where the contract has it.
	path     string
	segments []segment
	answer   func(*request) (*answer, error)
	stream   func(http.ResponseWriter, *request) error
}

// segment is one segment of a path template: literal text, or a parameter that verb follows, as in {runId}:pause.
type segment struct {
	parameter     bool
	literal, verb string
}

func parsePath(path string) (segments []segment) {
	for text := range strings.SplitSeq(path, "/") {
		name, verb, _ := strings.Cut(text, "}")
		if strings.HasPrefix(name, "{") {
			segments = append(segments, segment{parameter: true, verb: verb})
		} else {
			segments = append(segments, segment{literal: text})
		}
	}
	return segments
}

// verb is what follows the parameter in the last segment, "" for a path without one.
func (rt *route) verb() string { return rt.segments[len(rt.segments)-1].verb }

// routes are the operations this host serves. Method, path, scope and gate are the contract's.
func (h *Host) routes(contract *corpus.Corpus) ([]route, error) {
	table := map[string]route{
		"getCapabilities": {answer: h.getCapabilities},
		"getWorkflow":     {answer: h.getWorkflow},
		"createRun":       {answer: h.createRun},
		"getRun":          {answer: h.getRun},
		"listRuns":        {answer: h.listRuns},
		"cancelRun":       {answer: h.cancelRun},
		"pollRunEvents":   {answer: h.pollRunEvents},
		"streamRunEvents": {stream: h.streamRunEvents},
	}
	for _, part := range []map[string]route{h.replayRoutes(), h.controlRoutes(), h.contentRoutes(), h.interruptRoutes(), h.webhookRoutes()} {
		maps.Copy(table, part)
	}
	routes := make([]route, 0, len(table))
	for id, entry := range table {
		operation, ok := contract.Operation(id)
		if !ok {
			return nil, fmt.Errorf("the contract has no operation %s", id)
		}
		operation.Path = cmp.Or(entry.path, operation.Path)
		entry.operation, entry.segments = operation, parsePath(operation.Path)
		if operation.Mutating {
			entry.answer = h.idempotent(entry.answer)
		}
		routes = append(routes, entry)
	}
	seams, err := h.seams(contract)
	if err != nil {
		return nil, err
	}
	routes = append(routes, seams...)
	slices.SortFunc(routes, func(a, b route) int { return strings.Compare(a.operation.ID, b.operation.ID) })
	return routes, nil
}

// match finds the routes of a path, whatever their method, and the decoded path parameters. The path is taken as it
// was sent: nothing is cleaned, nothing redirected. No id ends in a verb, so a path that does is not also one without.
func (h *Host) match(u *url.URL) (matched []*route, parameters [2]string) {
	path := u.EscapedPath()
	verb := false
	for i := range h.table {
		rt := &h.table[i]
		values, ok := rt.matches(path)
		if !ok || verb && rt.verb() == "" {
			continue
		}
		if rt.verb() != "" && !verb {
			verb, matched = true, matched[:0]
		}
		matched, parameters = append(matched, rt), values
	}
	return matched, parameters
}

func (rt *route) matches(path string) (parameters [2]string, ok bool) {
	found := 0
	for i, want := range rt.segments {
		text, rest, more := strings.Cut(path, "/")
		if last := i == len(rt.segments)-1; more == last {
			return parameters, false
		}
		path = rest
		if text == want.literal && !want.parameter {
			continue
		}
		if !want.parameter && !strings.Contains(text, "%") {
			return parameters, false
		}
		decoded, err := url.PathUnescape(text)
		if err != nil {
			return parameters, false
		}
		if !want.parameter {
			if decoded != want.literal {
				return parameters, false
			}
			continue
		}
		value, cut := strings.CutSuffix(decoded, want.verb)
		if !cut || value == "" || found == len(parameters) {
			return parameters, false
		}
		parameters[found] = value
		found++
	}
	return parameters, true
}

// ServeHTTP is the host's own handler: version, path, credential, scope, operation, in this order.
func (h *Host) serve(w http.ResponseWriter, r *http.Request) {
	if h.config.DurabilityHook && r.URL.Path == durabilityPath {
		h.serveDurability(w, r)
		return
	}
	w.Header().Set("OpenWOP-Version", corpus.ProtocolVersion)
	head := r.Method == http.MethodHead
	defer func() {
		if cause := recover(); cause != nil {
			if cause == http.ErrAbortHandler {
				panic(cause)
			}
			h.logger.Error("a request panicked", "method", r.Method, "panic", cause)
			h.codes.failure().answer().write(w, head)
		}
	}()
	matched, parameters := h.match(r.URL)
	if origin := r.Header.Get("Origin"); origin != "" {
		h.grantOrigin(w.Header(), origin)
	}
	if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" && len(matched) > 0 {
		h.preflight(w, matched)
		return
	}
	response, err := h.dispatch(w, r, matched, parameters)
	if err != nil {
		response = h.refusalOf(r, err).answer()
	}
	if response != nil {
		response.write(w, head)
	}
}

// dispatch returns the response, or nil when the operation has written one itself.
func (h *Host) dispatch(w http.ResponseWriter, r *http.Request, matched []*route, parameters [2]string) (*answer, error) {
	if err := h.negotiate(r); err != nil {
		return nil, err
	}
	selected := selectRoute(matched, r.Method)
	if selected == nil {
		refusal := h.codes.missing("resource")
		if len(matched) > 0 {
			refusal.with("Allow", allowed(matched))
		}
		return nil, refusal
	}
	call := &request{Request: r, operation: &selected.operation, id: parameters[0], second: parameters[1]}
	if selected.operation.Authenticated {
		if err := h.checkClient(r); err != nil {
			return nil, err
		}
		if err := h.admit(call); err != nil {
			return nil, err
		}
	} else if takesToken(selected.operation.Path) {
		if err := h.admitToken(call); err != nil {
			return nil, err
		}
	}
	if selected.operation.RequestBody {
		// The kernel keeps this deadline; a connection that has none, as in a test, has nothing to wait for either.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	}
	if selected.stream != nil {
		return nil, h.serveStream(selected, w, call)
	}
	return selected.answer(call)
}

// serveStream cuts the connection when a stream panics: it has begun, so no envelope can follow.
func (h *Host) serveStream(selected *route, w http.ResponseWriter, call *request) error {
	defer func() {
		if cause := recover(); cause != nil {
			h.logger.Error("a stream panicked", "panic", cause)
			panic(http.ErrAbortHandler)
		}
	}()
	return selected.stream(w, call)
}

// admit establishes who calls and whether the caller may call this at all.
func (h *Host) admit(call *request) (err error) {
	if call.principal, err = h.authenticate(call.Request); err != nil {
		return err
	}
	gate := call.operation.Gate
	if gate != "" && !h.advertises(gate) || h.config.NoDiff && call.operation.ID == "diffRun" {
		return h.codes.missing("resource") // runs.md §Surface
	}
	if err := h.authorize(call.principal, call.operation.Scope); err != nil {
		return err
	}
	if strings.Contains(call.operation.Path, "{runId}") {
		call.id, err = h.runID(call.id, call.principal)
	}
	return err
}

// admitToken is admit for the operations that a token is the credential of.
func (h *Host) admitToken(call *request) error {
	if gate := call.operation.Gate; gate != "" && !h.advertises(gate) {
		return h.codes.missing("resource")
	}
	if err := h.checkClient(call.Request); err != nil {
		return err
	}
	return h.openToken(call)
}

// selectRoute picks the route of the method. HEAD is GET without the body, except on a stream, which has no end.
func selectRoute(matched []*route, method string) *route {
	for _, rt := range matched {
		if rt.operation.Method == method || method == http.MethodHead && rt.operation.Method == http.MethodGet && rt.stream == nil {
			return rt
		}
	}
	return nil
}

func allowed(matched []*route) string {
	var methods []string
	for _, rt := range matched {
		methods = append(methods, rt.operation.Method)
	}
	slices.Sort(methods)
	return strings.Join(slices.Compact(methods), ", ")
}

// refusalOf turns any error into an envelope. What is not a refusal is the host's own failure and is logged.
func (h *Host) refusalOf(r *http.Request, err error) *refusal {
	if refusal, ok := err.(*refusal); ok {
		return refusal
	}
	var unmapped *era.UnmappedError
	if errors.As(err, &unmapped) {
		return h.codes.unmappedType(unmapped.Type, unmapped.Sequence)
	}
	var malformed *era.MalformedError
	if errors.As(err, &malformed) && len(malformed.Keys) > 0 {
		return h.codes.unseatable(malformed)
	}
	if r.Context().Err() == nil { // else the client has gone, and there is nobody to answer
		h.logger.Error("a request failed", "method", r.Method, "error", err)
	}
	return h.codes.failure()
}

// grantOrigin lets a page of the origin read the response.
func (h *Host) grantOrigin(header http.Header, origin string) {
	if !slices.Contains(h.config.AllowedOrigins, "*") && !slices.Contains(h.config.AllowedOrigins, origin) {
		return
	}
	header.Set("Access-Control-Allow-Origin", origin)
	header.Add("Vary", "Origin")
	header.Set("Access-Control-Expose-Headers", h.exposedHeaders)
}

// preflight admits, for a granted origin, every method of the path and every header any operation declares
// (headers.md §Cross-origin preflight).
func (h *Host) preflight(w http.ResponseWriter, matched []*route) {
	header := w.Header()
	if header.Get("Access-Control-Allow-Origin") != "" {
		header.Set("Access-Control-Allow-Methods", allowed(matched))
		header.Set("Access-Control-Allow-Headers", h.requestHeaders)
		header.Set("Access-Control-Max-Age", "600")
	}
	w.WriteHeader(http.StatusNoContent)
}

// headerLists gathers the headers of every operation for cross-origin grants.
func headerLists(contract *corpus.Corpus) (requests, responses string) {
	ask, tell := []string{"Authorization", "Content-Type"}, []string{"Retry-After", "WWW-Authenticate"}
	for _, operation := range contract.Operations() {
		ask = append(ask, operation.RequestHeaders...)
		tell = append(tell, operation.ResponseHeaders...)
	}
	join := func(names []string) string {
		slices.Sort(names)
		return strings.Join(slices.Compact(names), ", ")
	}
	return join(ask), join(tell)
}
