package scenarios

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"slices"
	"strings"

	"wopcert/harness"
	"wopcert/requirements"
)

// responseEncoding covers compressed snapshots (runs.md, "Caching and
// encoding").
func responseEncoding() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-response-encoding",
		Title:    "A compressed snapshot says so and holds the bytes of the plain one",
		Document: "runs.md", Section: "Caching and encoding",
		Tests: []harness.Test{
			{
				Name:      "gzip, and br and zstd where they are advertised",
				Witnesses: []requirements.ID{requirements.RunsCompressedEncoding},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       compressedSnapshots,
			},
		},
	}
}

func encoded(t *harness.T, runID, accept string) *harness.Response {
	return t.Do(harness.Request{Path: runPath(runID, ""), Header: headerOf("Accept-Encoding", accept)})
}

// coding is the content coding of a response, "" for none.
func coding(r *harness.Response) string {
	c := strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Encoding")))
	if c == "identity" {
		return ""
	}
	return strings.TrimPrefix(c, "x-")
}

// gunzip decodes at most harness.MaxBody bytes; ok is false for what is no gzip.
func gunzip(b []byte) (plain []byte, ok bool) {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, false
	}
	plain, err = io.ReadAll(io.LimitReader(r, harness.MaxBody))
	return plain, err == nil
}

func compressedSnapshots(t *harness.T) {
	id, _ := settledEnding(t)
	first, gzipped, second := encoded(t, id, "identity"), encoded(t, id, "gzip"), encoded(t, id, "identity")
	for _, r := range []*harness.Response{first, second} {
		if !names(r, id).OK || coding(r) != "" {
			t.Abort("no plain snapshot to compare with: %s with Content-Encoding %q", answered(r), coding(r))
		}
	}
	if !bytes.Equal(first.Body, second.Body) {
		t.Abort("no snapshot to compare with: two reads of a finished run differ in their bytes")
	}
	if !gzipped.Is(http.StatusOK).OK {
		t.Abort("no snapshot with Accept-Encoding: gzip: %s", answered(gzipped))
	}
	compresses := coding(gzipped) != ""
	switch plain, isGzip := gunzip(gzipped.Body); {
	case coding(gzipped) == "gzip":
		t.Expect(requirements.RunsCompressedEncoding, harness.That(isGzip && bytes.Equal(plain, first.Body),
			"a gzip body that decodes to the bytes of the plain snapshot", "%d bytes that decode to %d other ones", len(gzipped.Body), len(plain)).At(gzipped))
		t.Expect(requirements.RunsCompressedEncoding, variesByEncoding(gzipped))
	case compresses:
		t.Expect(requirements.RunsCompressedEncoding, harness.That(false, "gzip, or no coding, when only gzip is accepted",
			"Content-Encoding %q", coding(gzipped)).At(gzipped))
	case isGzip:
		compresses = true
		t.Expect(requirements.RunsCompressedEncoding, harness.That(false, "Content-Encoding: gzip on a gzip body", "no Content-Encoding").At(gzipped))
	}
	others := encoded(t, id, "br, zstd")
	if !others.Is(http.StatusOK).OK {
		t.Abort("no snapshot with Accept-Encoding: br, zstd: %s", answered(others))
	}
	if c := coding(others); c == "br" || c == "zstd" {
		compresses = true
		t.Expect(requirements.RunsCompressedEncoding, harness.That(slices.Contains(advertisedCodings(t), c),
			"br or zstd only where contentEncodings of a rest-transport extension lists it", "Content-Encoding %s, listed are %v", c, advertisedCodings(t)).At(others))
		t.Expect(requirements.RunsCompressedEncoding, variesByEncoding(others))
	}
	if !compresses {
		t.Inapplicable(requirements.RunsCompressedEncoding, "the host does not compress snapshots")
	}
}

// variesByEncoding checks that a cache would keep compressed and plain apart.
func variesByEncoding(r *harness.Response) harness.Check {
	ok := false
	for _, token := range strings.Split(strings.Join(r.Header.Values("Vary"), ","), ",") {
		token = strings.TrimSpace(token)
		ok = ok || token == "*" || strings.EqualFold(token, "Accept-Encoding")
	}
	return harness.That(ok, "Vary: Accept-Encoding on a compressed response", "Vary: %s", strings.Join(r.Header.Values("Vary"), ", ")).At(r)
}

// advertisedCodings are the content codings listed by any organisation's
// rest-transport extension.
func advertisedCodings(t *harness.T) []string {
	var out []string
	extensions, _ := t.Host().Discovery.Document["extensions"].(object)
	for name, extension := range extensions {
		if strings.HasSuffix(name, ".rest-transport") {
			list, _ := stringList(harness.Get(extension, "contentEncodings"))
			out = append(out, list...)
		}
	}
	return out
}
