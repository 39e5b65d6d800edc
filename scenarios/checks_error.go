package scenarios

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"wopcert/corpus"
	"wopcert/harness"
)

// vendorCode is the form of an error code outside the registry (errors.md,
// "The registry"); its first segment is an org.
var vendorCode = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*\.[a-z][a-z0-9_]*$`)

// permittedCode reports whether a host may answer with an error code.
func permittedCode(c *corpus.Corpus, code string) bool {
	if _, ok := c.Error(code); ok {
		return true
	}
	org, _, _ := strings.Cut(code, ".")
	return vendorCode.MatchString(code) && slices.Contains(c.Orgs(), org) && !slices.Contains(c.ReservedOrgs(), org)
}

// retryMembers are the details members that errors.md, "Retry timing", forbids.
func retryMembers() []string { return []string{"retryAfter", "retryAfterMs", "retryAfterSeconds"} }

// envelope checks the body of an error response. The retry members have a row
// of their own and are taken out first.
func envelope(c *corpus.Corpus, h heard) harness.Check {
	const expected = "a closed {error, message, details?} with a code the host may use"
	body, ok := h.response.JSON().(object)
	if !ok {
		return harness.That(false, expected, "%s answered %s with a body that is no JSON object", h.what, answered(h.response)).At(h.response)
	}
	if code := text(body, "error"); !permittedCode(c, code) {
		return harness.That(false, expected, "%s answered %d with error %s", h.what, h.response.Status, show(body["error"])).At(h.response)
	}
	if details, ok := body["details"].(object); ok {
		if id, has := details["correlationId"]; has && text(details, "correlationId") == "" {
			return harness.That(false, expected, "%s answered %s with details.correlationId %s", h.what, answered(h.response), show(id)).At(h.response)
		}
		body, details = maps.Clone(body), maps.Clone(details)
		for _, name := range retryMembers() {
			delete(details, name)
		}
		body["details"] = details
	}
	why := violation(c.ValidateValue("error-envelope", body))
	return harness.That(why == "", expected, "%s answered %s: %s", h.what, answered(h.response), cut(why)).At(h.response)
}

// registeredStatus checks the status of an error response against its code;
// ok is false when the response has no registered code to judge by.
func registeredStatus(c *corpus.Corpus, h heard) (check harness.Check, ok bool) {
	code, known := c.Error(h.response.Text("error"))
	if !known {
		return harness.Check{}, false
	}
	return harness.That(h.response.Status == code.HTTPStatus, fmt.Sprintf("status %d with %s", code.HTTPStatus, code.Code),
		"%s answered %s", h.what, answered(h.response)).At(h.response), true
}

// noRetryDetails checks that retry timing is not in the body.
func noRetryDetails(h heard) harness.Check {
	details, _ := h.response.Get("details").(object)
	var found []string
	for _, name := range retryMembers() {
		if _, has := details[name]; has {
			found = append(found, "details."+name+" from "+h.what)
		}
	}
	return none("retry timing in details", found).At(h.response)
}

// refusedWith checks that a response is a refusal of a status with any code
// registered for that status.
func refusedWith(c *corpus.Corpus, what string, r *harness.Response, status int) harness.Check {
	expected := fmt.Sprintf("%d with a code registered for it", status)
	code, ok := c.Error(r.Text("error"))
	if r.Err != nil || r.Status != status || !ok || code.HTTPStatus != status {
		return harness.That(false, expected, "%s was answered %s", what, answered(r)).At(r)
	}
	why := violation(c.ValidateValue("error-envelope", r.JSON()))
	return harness.That(why == "", expected, "%s was answered %s: %s", what, answered(r), cut(why)).At(r)
}

// isEnvelope reports whether a body is an error's, whatever its status is.
func isEnvelope(r *harness.Response) bool { return r.Text("error") != "" && r.Text("message") != "" }

// refusalsOfOperations asks the operations that the host has for what they have
// to refuse, one each. What answers 404 for an operation that a host need not
// have may be no part of it.
func refusalsOfOperations(t *harness.T, finished string) []heard {
	absent := absentRun(finished)
	get := func(path string) harness.Request { return harness.Request{Path: path} }
	post := func(path string, body any) harness.Request {
		return harness.Request{Method: http.MethodPost, Path: path, Body: body}
	}
	type ask struct {
		operation, what string
		request         harness.Request
	}
	var asks []ask
	for _, a := range []ask{
		{"streamRunEvents", "of no run", get(runPath(absent, "/events"))},
		{"cancelRun", "of no run", post(runPath(absent, "/cancel"), object{})},
		{"pauseRun", "on a finished run", post(runPath(finished, ":pause"), object{})},
		{"resumeRun", "on a finished run", post(runPath(finished, ":resume"), object{})},
		{"forkRun", "from behind the log", post(runPath(finished, ":fork"), object{"mode": "replay", "fromSeq": 1 << 30})},
		{"diffRun", "against a run of another tenant", harness.Request{Path: runPath(finished, ":diff"), Query: url.Values{"against": {"no-such-tenant/" + newOpaque()}}}},
		{"bulkCancelRuns", "of no runs", post("/runs:bulk-cancel", object{"runIds": []string{}})},
		{"listRuns", "with a cursor of nobody's", harness.Request{Path: "/runs", Query: url.Values{"cursor": {"wopcert"}}}},
		{"getRunAncestry", "of no run", get(runPath(absent, "/ancestry"))},
		{"createAnnotation", "without a signal", post(runPath(finished, "/annotations"), object{})},
		{"listAnnotations", "of no run", get(runPath(absent, "/annotations"))},
		{"getArtifact", "of no artifact", get(runPath(finished, "/artifacts/"+newOpaque()))},
		{"getEvalSummary", "of no eval run", get(runPath(finished, "/eval-summary"))},
		{"getRunCompensation", "of no run", get(runPath(absent, "/compensation"))},
		{"getRunEffects", "of no run", get(runPath(absent, "/effects"))},
		{"resolveInterruptByRun", "of no interrupt", post(runPath(finished, "/interrupts/none"), object{"resumeValue": true})},
	} {
		if op, ok := t.Corpus().Operation(a.operation); ok && (op.Gate == "" || gateOpen(t.Host().Discovery, op.Gate)) {
			asks = append(asks, a)
		}
	}
	answers := atOnce(len(asks), func(i int) *harness.Response { return t.Do(asks[i].request) })
	var out []heard
	for i, a := range asks {
		if a.operation != "diffRun" || answers[i].Status != http.StatusNotFound {
			out = append(out, heard{a.operation + " " + a.what, answers[i]})
		}
	}
	return out
}

// refusals provokes error responses of many statuses around a finished run,
// and returns those that are. The test ends when the host serves no runs, or
// refuses next to nothing: what such a host says about refusals is no evidence.
func refusals(t *harness.T) []heard {
	id, _ := settledEnding(t)
	snapshot(t, id)
	asked := append(refusalsOfOperations(t, id), []heard{
		{"getRun of no run", get(t, tenantSegment(id)+"/"+newOpaque())},
		{"getRun in another tenant", get(t, "no-such-tenant/"+newOpaque())},
		{"getWorkflow of no workflow", getWorkflow(t, "conformance-not-seeded-"+newOpaque())},
		{"createRun without workflowId", create(t, object{})},
		{"createRun of no workflow", create(t, object{"workflowId": "conformance-not-seeded-" + newOpaque()})},
		{"createRun with an unknown member", create(t, with(endingBody(t), "no-such-member", true))},
		{"createRun with a short Idempotency-Key", create(t, endingBody(t), "Idempotency-Key", "short")},
		{"cancelRun on a finished run", cancel(t, id, object{})},
		{"a stream in an unknown mode", t.Do(harness.Request{Path: runPath(id, "/events"), Query: url.Values{"streamMode": {"none"}}})},
		{"a poll with a cursor that is no number", t.Do(harness.Request{Path: runPath(id, "/events/poll"),
			Query: url.Values{"afterSequence": {"none"}, "timeout": {"1"}}})},
		{"getRun without a credential", t.Do(harness.Request{Path: runPath(id, ""), As: harness.Anonymous})},
		{"getRun with an unknown credential", t.Do(harness.Request{Path: runPath(id, ""), As: harness.Unknown})},
		{"getRun under an unlisted major", t.Do(harness.Request{Path: runPath(id, ""), Version: unlistedMajor(t.Host().Discovery)})},
	}...)
	if t.Has(harness.ReadOnly) {
		asked = append(asked, heard{"createRun with a read-only key", createAs(t, harness.ReadOnly, endingBody(t))})
	}
	var refused []heard
	for _, h := range asked {
		if h.response.Err == nil && (h.response.Status >= 400 || isEnvelope(h.response)) {
			refused = append(refused, h)
		}
	}
	if len(refused) < 3 {
		t.Abort("the host refused %d of %d requests it has to refuse, too few to judge its error responses by", len(refused), len(asked))
	}
	return refused
}
