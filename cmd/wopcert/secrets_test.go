package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/internal/testnet"
	referencehost "wopcert/reference-host"
)

// canaryShape is what the suite's made-up credentials look like, and what no file of its own may.
var canaryShape = regexp.MustCompile(`wopcert-canary-[0-9a-f]{32}`)

// echo is a host that gives back every credential it is shown: in headers, bodies, redirections and streams, as it was
// and in the spellings of text formats, whole and divided.
type echo struct {
	next http.Handler
	mu   sync.Mutex
	seen []string
	turn int

	before []string // seen in earlier runs
}

func (e *echo) note(r *http.Request) (secret string, turn int) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	r.Body = io.NopCloser(bytes.NewReader(body))
	e.mu.Lock()
	defer e.mu.Unlock()
	found := canaryShape.FindAllString(fmt.Sprint(r.URL, r.Header, string(body)), -1)
	if _, key, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok {
		found = append(found, key)
	}
	for _, s := range found {
		// The made-up key that no host knows is nobody's secret.
		if !slices.Contains(e.seen, s) && !strings.HasPrefix(s, "wopcert-unknown-") {
			e.seen = append(e.seen, s)
		}
	}
	e.turn++
	if len(e.seen) == 0 {
		return "", e.turn
	}
	return e.seen[e.turn%len(e.seen)], e.turn
}

// forget ends a run: the canaries of one are nothing to the next.
func (e *echo) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.before, e.seen = append(e.before, e.seen...), nil
}

func (e *echo) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Concat(e.before, e.seen)
}

// spellings are the ways a text format can write a secret.
func spellings(s string) []string {
	half := len(s) / 2
	escaped, percent := "", ""
	for _, c := range []byte(s) {
		escaped += fmt.Sprintf(`\u%04x`, c)
		percent += fmt.Sprintf("%%%02X", c)
	}
	return []string{
		s, "Bearer " + s, base64.StdEncoding.EncodeToString([]byte(s)), base64.URLEncoding.EncodeToString([]byte("Bearer " + s + "!")), percent, url.QueryEscape(s),
		escaped, `\u0077` + s[1:], hex.EncodeToString([]byte(s)), strings.ToUpper(s), s[:half] + `","` + s[half:],
	}
}

func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secret, turn := e.note(r)
	if secret == "" {
		e.next.ServeHTTP(w, r)
		return
	}
	form := spellings(secret)[turn%len(spellings(secret))]
	w.Header().Set("X-Echo", strings.ReplaceAll(form, "\n", " "))
	w.Header().Set("Link", fmt.Sprintf("<http://127.0.0.1/?key=%s&again=%s>; rel=next", secret, url.QueryEscape(secret)))
	w.Header().Set(secret, "the name is the secret")
	if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		e.next.ServeHTTP(&echoStream{ResponseWriter: w, secret: secret}, r)
		return
	}
	answer := httptest.NewRecorder()
	e.next.ServeHTTP(answer, r)
	for name, values := range answer.Header() {
		if name != "Content-Length" {
			w.Header()[name] = values
		}
	}
	body := answer.Body.Bytes()
	if at := bytes.LastIndexByte(body, '}'); at > 1 && strings.Contains(answer.Header().Get("Content-Type"), "json") {
		body = slices.Concat(body[:at], []byte(`,"echo":["`+form+`"],"message":"`+secret+`"`), body[at:])
	}
	if turn%17 == 0 {
		w.Header().Set("Location", "http://127.0.0.1/"+secret)
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(body)
}

// echoStream puts a secret into frames, divided over lines, fields, frames and comments, before the first of the host's.
type echoStream struct {
	http.ResponseWriter
	secret string
	begun  bool
}

func (s *echoStream) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *echoStream) Write(p []byte) (int, error) {
	if !s.begun && strings.Contains(s.Header().Get("Content-Type"), "event-stream") {
		half := len(s.secret) / 2
		a, b := s.secret[:half], s.secret[half:]
		_, _ = fmt.Fprintf(s.ResponseWriter, ": %s\n\ndata: %s\ndata: %s\n\ndata: %s\n\ndata: %s\n\n: %s\n\n: %s\n\nevent: %s\ndata: %s\n\nid: %s\ndata: {}\n\n",
			s.secret, a, b, a, b, a, b, s.secret, base64.StdEncoding.EncodeToString([]byte(s.secret)), url.QueryEscape(s.secret))
	}
	s.begun = true
	return s.ResponseWriter.Write(p)
}

// escapesOfText are single characters as JSON and URLs may write them.
var escapesOfText = regexp.MustCompile(`\\+u00[0-7][0-9A-Fa-f]|%[0-7][0-9A-Fa-f]`)

// readings are what a reader, or a program, makes of a written text.
func readings(text string) []string {
	plain := html.UnescapeString(text)
	plain = escapesOfText.ReplaceAllStringFunc(plain, func(e string) string {
		n, _ := strconv.ParseUint(e[len(e)-2:], 16, 8)
		return string(rune(n))
	})
	joined := regexp.MustCompile(`(?:\\[nr]|[\r\n])+(?:data|event|id)?:? ?|[\s",\[\]{}]+`).ReplaceAllString(plain, "")
	return []string{strings.ToLower(text), strings.ToLower(plain), strings.ToLower(joined)}
}

// TestNothingWrittenHoldsASecret runs every command that writes or prints about a host that echoes what it is shown, and
// reads every byte of what came of it.
func TestNothingWrittenHoldsASecret(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	root, certFile, certKey := certificate(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	receiver := listener.Addr().String()
	require.NoError(t, listener.Close())
	mirror := &echo{}
	host, keys := startHost(t, func(c *referencehost.Config) {
		c.Seams = true
		require.NoError(t, testnet.Lead(c, testnet.Place{Addr: receiver, Root: root.Raw}))
		c.Wrap = append(c.Wrap, func(next http.Handler) http.Handler {
			mirror.next = next
			return mirror
		})
	})
	for name, key := range map[string]string{envAPIKey: referencehost.KeyTenantA, envOtherTenantKey: referencehost.KeyTenantB, envReadOnlyKey: referencehost.KeyReadOnly,
		envProductionKey: referencehost.KeyProduction, envApproverKey: referencehost.KeyApprover1, envSecondApproverKey: referencehost.KeyApprover2, envOverrideKey: referencehost.KeyApprover3} {
		t.Setenv(name, keys[key])
	}
	said := map[string]string{}
	try := func(codes []int, args ...string) result {
		mirror.forget()
		r := command(t, args...)
		assert.Contains(t, codes, r.code, "%s\n%s", args, r.err)
		said[strings.Join(args, " ")] = r.out + r.err
		return r
	}
	failed := []int{exitNo}
	certify := func(out string, more ...string) []string {
		return append([]string{"certify", "--host", host.URL(), "--out", at(out), "--timeout", "5s", "--receiver-listen", receiver, "--receiver-url", testnet.Config().URL,
			"--receiver-cert", certFile, "--receiver-key", certKey, "--receiver-trusted"}, more...)
	}
	chosen := []string{"--scenario", "v2-stream-[ms]*", "--scenario", "v2-run-c*", "--scenario", "v2-error-*", "--scenario", "v2-onward-*", "--scenario", "v2-webhook-delivery-s*", "--scenario", "v2-interrupt-tokens"}
	short := []string{"--scenario", "v2-run-cancel", "--scenario", "v2-stream-sse-projection"}
	try(failed, certify("text", chosen...)...)
	require.NotEmpty(t, canaryShape.FindString(strings.Join(mirror.all(), " ")), "the canaries crossed the wire")
	try(failed, certify("json", append(short, "--format", "json")...)...)
	list := at("expected.yaml")
	require.NoError(t, os.WriteFile(list, []byte("- requirement: 0170.run-cancel\n  reason: a test\n  until: 2999-01-01\n"), 0o600))
	try(failed, certify("judged", append(short, "--expected-failures", list)...)...)
	try(failed, certify("part1", append(short, "--shard", "1/2")...)...)
	try(failed, certify("part2", append(short, "--shard", "2/2")...)...)
	try(failed, "merge", at("part1"), at("part2"), "--out", at("whole"))
	try([]int{exitYes}, "report", at("text"), "--out", at("again"))
	try([]int{exitYes}, "report", at("text"), "--annotations")
	try([]int{exitYes}, "report", at("text"), "--out", at("listed"), "--format", "json")
	try([]int{exitYes}, "report", at("text/bundle.json"), "--out", at("alone"))
	try([]int{exitYes, exitNo}, "diff", at("text"), at("json"), "--html", at("diff.html"))
	try([]int{exitYes, exitNo}, "diff", at("json"), at("text"), "--format", "json")
	try(failed, "verify", at("text/bundle.json"))
	try(failed, "verify", at("text/bundle.json"), "--format", "json")
	try([]int{exitYes, exitNo}, "doctor", "--host", host.URL())
	mirror.forget()
	ctx, stop := context.WithCancel(t.Context())
	out, errs, done := newWritten(), newWritten(), make(chan int, 1)
	go func() {
		done <- run(ctx, certify("watched", append(short, "--watch")...), streams{in: strings.NewReader(""), out: out, err: errs})
	}()
	errs.await(t, "waiting for "+host.URL())
	stop()
	<-done
	said["watch"] = out.String() + errs.String()

	secrets := mirror.all()
	for _, key := range keys {
		if !slices.Contains(secrets, key) {
			secrets = append(secrets, key)
		}
	}
	files := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		said[path] = readFile(t, path)
		return nil
	}))
	assert.Greater(t, files, 100)
	for _, ending := range []string{"report.html", "junit.xml", "results.sarif", "summary.md", "results.json", "bundle.json", "v2-stream-modes.har", "diff.html"} {
		assert.True(t, slices.ContainsFunc(slices.Collect(keysOf(said)), func(name string) bool { return strings.HasSuffix(name, ending) }), ending)
	}
	assert.Contains(t, said[at("text/har/v2-stream-modes.har")], "[redacted:", "what is hidden is marked")
	for name, text := range said {
		disclosed(t, name, text, secrets)
	}
}

func keysOf(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// disclosed fails the test when a text holds a secret in any reading or encoding.
func disclosed(t *testing.T, name, text string, secrets []string) {
	t.Helper()
	all := readings(text)
	for _, s := range secrets {
		forms := []string{strings.ToLower(s), hex.EncodeToString([]byte(s))}
		for _, form := range forms {
			for _, reading := range all {
				if i := strings.Index(reading, form); i >= 0 {
					t.Errorf("%s holds %q: …%s…", name, form, reading[max(0, i-80):min(len(reading), i+len(form)+20)])
				}
			}
		}
		for before := range 3 {
			whole := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + s))
			inner := whole[(before*8+5)/6 : (before+len(s))*8/6]
			for _, form := range []string{inner, strings.NewReplacer("+", "-", "/", "_").Replace(inner)} {
				if strings.Contains(text, form) {
					t.Errorf("%s holds the base64 %q", name, form)
				}
			}
		}
	}
	if found := canaryShape.FindString(text); found != "" {
		t.Errorf("%s holds the canary %q", name, found)
	}
}
