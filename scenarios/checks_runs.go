package scenarios

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"wopcert/bundle/jcs"
	"wopcert/harness"
)

// same compares JSON values by their canonical form, so that neither member
// order nor the spelling of a number counts.
func same(what string, want, got any) harness.Check {
	a, errA := jcs.CanonicalizeValue(want)
	b, errB := jcs.CanonicalizeValue(got)
	ok := errA == nil && errB == nil && bytes.Equal(a, b)
	return harness.That(ok, what+" "+clip(a, errA), "%s %s", what, clip(b, errB))
}

func clip(b []byte, err error) string {
	if err != nil {
		return "not JSON: " + err.Error()
	}
	if len(b) > 300 {
		return strings.ToValidUTF8(string(b[:300]), "") + "…"
	}
	return string(b)
}

// names checks that a 200 answer is about this run.
func names(r *harness.Response, runID string) harness.Check {
	return harness.All(r.Is(http.StatusOK), harness.Equal("runId", any(runID), r.Get("runId"))).At(r)
}

// validSnapshot checks a getRun answer against the schema and the run.
func validSnapshot(r *harness.Response, runID, workflow string) harness.Check {
	return harness.All(
		names(r, runID),
		harness.Equal("workflowId", any(workflow), r.Get("workflowId")),
		r.Valid("run-snapshot"),
	).At(r)
}

// onOrigin resolves a link of a response as a URL reference and checks that it
// stays on the origin, scheme included, that the request was made to.
func onOrigin(r *harness.Response, name string, link any) (*url.URL, harness.Check) {
	expected := fmt.Sprintf("%s as a relative reference, or on the origin %s://%s", name, r.URL().Scheme, r.URL().Host)
	text, ok := link.(string)
	if !ok || text == "" {
		return nil, harness.That(false, expected, "%s %v", name, link).At(r)
	}
	ref, err := url.Parse(text)
	if err != nil {
		return nil, harness.That(false, expected, "%s %q: %v", name, text, err).At(r)
	}
	full := r.URL().ResolveReference(ref)
	return full, harness.That(origin(full) == origin(r.URL()), expected, "%s %q", name, text).At(r)
}

func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	}
	return strings.ToLower(u.Scheme + "://" + net.JoinHostPort(u.Hostname(), port))
}

// A strong entity tag (RFC 9110 §8.8.3).
var strongTag = regexp.MustCompile(`^"[\x21\x23-\x7e\x80-\xff]*"$`)

func hasStrongETag(r *harness.Response) harness.Check {
	tag, present := r.Header.Get("ETag"), len(r.Header.Values("ETag")) > 0
	if !present {
		return harness.That(false, "a strong ETag", "no ETag").At(r)
	}
	return harness.That(strongTag.MatchString(tag), "a strong ETag", "ETag: %s", tag).At(r)
}

// notModified checks a conditional answer: 304 without content.
func notModified(r *harness.Response) harness.Check {
	return harness.All(r.Is(http.StatusNotModified),
		harness.That(len(r.Body) == 0, "no body", "a body of %d bytes", len(r.Body))).At(r)
}
