package harness

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"wopcert/bundle/jcs"
)

// WellKnown is the path of the discovery document (capabilities.md §1).
const WellKnown = "/.well-known/openwop"

// Host is the host under test as its discovery document describes it.
type Host struct {
	Base      *url.URL
	Discovery *Discovery
}

// Discovery is the captured discovery document, byte for byte.
type Discovery struct {
	URL        string
	Status     int
	Header     http.Header
	Raw        []byte
	Document   map[string]any
	CapturedAt time.Time
}

// DiscoveryError says why a host cannot be measured at all.
type DiscoveryError struct {
	URL  string
	Why  string
	Hint string
	Err  error
}

func (e *DiscoveryError) Error() string {
	s := fmt.Sprintf("discovery at %s: %s", e.URL, e.Why)
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

func (e *DiscoveryError) Unwrap() error { return e.Err }

// discover reads the major 2 representation of the discovery document.
func (r *run) discover(ctx context.Context) (*Discovery, error) {
	ctx, cancel := context.WithTimeout(ctx, headerTimeout)
	defer cancel()
	req, _, err := r.client.build(ctx, Request{Path: WellKnown, As: Anonymous})
	if err != nil {
		return nil, &DiscoveryError{URL: WellKnown, Why: err.Error(), Err: err}
	}
	fail := func(why, hint string, err error) (*Discovery, error) {
		return nil, &DiscoveryError{URL: req.URL.String(), Why: why, Hint: hint, Err: err}
	}
	started := time.Now()
	res, err := r.client.do(r.client.plain, req)
	if err != nil {
		return fail(transportReason(err), transportHint(err), err)
	}
	defer res.Body.Close()
	body, truncated, err := readBounded(res.Body, MaxBody)
	d := &Discovery{URL: req.URL.String(), Status: res.StatusCode, Header: res.Header, Raw: body, CapturedAt: started}
	r.capture.discovery(req, d, err)
	switch {
	case err != nil:
		return fail(transportReason(err), "the body never ended within the time allowed", err)
	case truncated:
		return fail(fmt.Sprintf("the document is larger than %d bytes", MaxBody), "", nil)
	case res.StatusCode == http.StatusNotAcceptable:
		return fail("the host does not speak major 2", "it speaks "+spoken(body), nil)
	case res.StatusCode >= 300 && res.StatusCode < 400:
		return fail(fmt.Sprintf("status %d redirects to %s", res.StatusCode, res.Header.Get("Location")),
			"give the address the host itself answers at", nil)
	case res.StatusCode == http.StatusBadRequest && req.URL.Scheme == "http" && strings.Contains(string(body), "HTTPS"):
		return fail("status 400", "it asks for HTTPS there; give the address as https://", nil)
	case res.StatusCode != http.StatusOK:
		return fail(fmt.Sprintf("status %d", res.StatusCode), "an OpenWOP host answers 200 at "+WellKnown, nil)
	}
	return d, d.parse(fail)
}

func (d *Discovery) parse(fail func(string, string, error) (*Discovery, error)) error {
	v, err := jcs.Decode(d.Raw)
	if err != nil {
		kind := "the document is not JSON"
		var je *jcs.Error
		if errors.As(err, &je) && je.Kind != jcs.KindSyntax {
			kind = "the document is JSON but not I-JSON"
		}
		ct, _, _ := mime.ParseMediaType(d.Header.Get("Content-Type"))
		hint := "served as " + orNone(ct)
		if ct == "text/html" {
			hint += ": a web page, or a login in front of the host; give the base address of its API"
		}
		_, e := fail(fmt.Sprintf("%s: %v", kind, err), hint, err)
		return e
	}
	doc, ok := v.(map[string]any)
	if !ok {
		_, e := fail("the document is not a JSON object", "", nil)
		return e
	}
	d.Document = doc
	if !d.ListsMajor("2") {
		_, e := fail("the host speaks no 2.x version", "it speaks "+spoken(d.Raw), nil)
		return e
	}
	return nil
}

func orNone(s string) string {
	if s == "" {
		return "no Content-Type"
	}
	return s
}

// spoken names the versions a document or refusal lists.
func spoken(body []byte) string {
	v, _ := jcs.Decode(body)
	versions := stringsOf(Get(v, "protocolVersions"))
	if len(versions) == 0 {
		versions = stringsOf(Get(v, "details", "protocolVersions"))
	}
	if one, ok := Get(v, "protocolVersion").(string); ok && len(versions) == 0 {
		versions = []string{one}
	}
	if len(versions) == 0 {
		return "no version it names"
	}
	return strings.Join(versions, ", ")
}

func transportHint(err error) string {
	text := err.Error()
	switch {
	case strings.Contains(text, "tls:") || strings.Contains(text, "x509:"):
		return "the certificate must verify against this machine's trust roots; SSL_CERT_FILE can name another root"
	case strings.Contains(text, "connection refused"):
		return "nothing listens there"
	case strings.Contains(text, "no such host"):
		return "the name does not resolve; check its spelling and this machine's resolver"
	case strings.Contains(text, "server gave HTTP response to HTTPS client"), strings.Contains(text, "first record does not look like a TLS handshake"):
		return "plain HTTP is spoken there; give the address as http://"
	}
	return ""
}

func stringsOf(v any) []string {
	list, _ := v.([]any)
	var out []string
	for _, e := range list {
		if s, ok := e.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// Advertises reports whether a family's record is present, which is the claim
// (capabilities.md §2).
func (d *Discovery) Advertises(family string) bool {
	_, ok := d.Document[family].(map[string]any)
	return ok
}

// Facet returns a member of a family's record.
func (d *Discovery) Facet(family string, path ...string) (any, bool) {
	record, ok := d.Document[family].(map[string]any)
	if !ok {
		return nil, false
	}
	v := Get(record, path...)
	return v, v != nil
}

// Versions returns protocolVersions as advertised.
func (d *Discovery) Versions() []string { return stringsOf(d.Document["protocolVersions"]) }

// Preferred returns preferredVersion as advertised.
func (d *Discovery) Preferred() string {
	s, _ := d.Document["preferredVersion"].(string)
	return s
}

// ListsMajor reports whether protocolVersions holds a version of a major.
func (d *Discovery) ListsMajor(major string) bool {
	for _, v := range d.Versions() {
		if m, _, _ := strings.Cut(v, "."); m == major {
			return true
		}
	}
	return false
}

// Fixtures returns the conformance workflows the host says it holds.
func (d *Discovery) Fixtures() []string { return stringsOf(d.Document["fixtures"]) }
