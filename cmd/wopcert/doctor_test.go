package main

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/cmd/internal/doctor"
	"wopcert/fixtures"
	"wopcert/harness"
	referencehost "wopcert/reference-host"
)

// What the doctor says would be blocked is what a run finds blocked, row for row.
func TestDoctorForetellsARun(t *testing.T) {
	server, keys := startHost(t, func(c *referencehost.Config) {
		c.Fixtures = slices.DeleteFunc(c.Fixtures, func(w fixtures.Workflow) bool { return w.ID == "conformance-interrupt-quorum" })
	})
	t.Setenv("DOCTOR_PRIMARY", keys[referencehost.KeyTenantA])
	args := []string{"--host", server.URL(), "--api-key-env", "DOCTOR_PRIMARY", "--scenario", "v2-run-*", "--scenario", "v2-interrupt-*", "--scenario", "v2-webhook-*", "--format", "json"}
	r := command(t, append([]string{"doctor"}, args...)...)
	require.Equal(t, exitNo, r.code, r.err)
	answer := decode[doctor.Report](t, r.out)
	assert.Equal(t, doctor.Lacking, answer.Verdict)
	found := map[string]doctor.State{}
	for _, c := range answer.Checks {
		found[c.Name+" "+c.Found] = c.State
	}
	assert.Equal(t, doctor.OK, found["key primary tenant: accepted"], r.out)
	assert.Equal(t, doctor.Missing, found["key other tenant: not given"], r.out)
	assert.Equal(t, doctor.Missing, found["fixture the host does not list conformance-interrupt-quorum"], r.out)

	run := command(t, append([]string{"certify", "--out", filepath.Join(t.TempDir(), "evidence")}, args...)...)
	saw := decode[struct{ Blocked []map[string]string }](t, run.out)
	assert.Equal(t, len(saw.Blocked), answer.Rows.Blocked)
	assert.NotZero(t, answer.Rows.Observable)
}

// A key that the host refuses is named, whatever else holds, and never shown.
func TestDoctorOnKeys(t *testing.T) {
	server, keys := startHost(t, nil)
	t.Setenv("DOCTOR_GOOD", keys[referencehost.KeyTenantA])
	t.Setenv("DOCTOR_BAD", "wrong-key-0123456789")
	r := command(t, "doctor", "--host", server.URL(), "--api-key-env", "DOCTOR_GOOD", "--read-only-key-env", "DOCTOR_BAD", "--scenario", "v2-capabilities-*")
	assert.Equal(t, exitNo, r.code, r.err)
	assert.Contains(t, r.out, "read-only key: refused with 401")
	assert.NotContains(t, r.out+r.err, "wrong-key-0123456789")

	r = command(t, "doctor", "--host", server.URL(), "--api-key-env", "DOCTOR_GOOD", "--scenario", "v2-capabilities-*")
	assert.Equal(t, exitYes, r.code, r.out+r.err)
	assert.True(t, strings.HasPrefix(r.out, "READY"), r.out)
}

// Hosts that cannot be reached, or are none: 3, with what was tried and what to do.
func TestDoctorOnHostsThatAreNone(t *testing.T) {
	t.Parallel()
	serve := func(h http.HandlerFunc) string {
		s := httptest.NewServer(h)
		t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
		return s.URL
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	fixed := func(contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			_, _ = io.WriteString(w, body)
		}
	}
	for name, c := range map[string]struct {
		url  string
		want []string
	}{
		"refused":      {"http://" + closed.Addr().String(), []string{"failed   connection", "connection refused", "start the host"}},
		"no such name": {"http://no-such-host.invalid", []string{"failed   name", "check its spelling"}},
		"certificate":  {secure.URL, []string{"ok       connection", "failed   tls", "trust roots"}},
		"https on http": {strings.Replace(serve(fixed("text/plain", "")), "http:", "https:", 1),
			[]string{"failed   tls", "give the address as http://"}},
		"http on https": {strings.Replace(secure.URL, "https:", "http:", 1), []string{"failed   discovery", "give the address as https://"}},
		"a web page":    {serve(fixed("text/html", "<!doctype html>")), []string{"failed   discovery", "not JSON", "a web page, or a login"}},
		"not JSON":      {serve(fixed("text/plain", "hello")), []string{"failed   discovery", "not JSON"}},
		"version 1":     {serve(fixed("application/json", `{"protocolVersion":"1.10"}`)), []string{"it speaks 1.10"}},
		"too much":      {serve(fixed("application/json", `"`+strings.Repeat("a", harness.MaxBody)+`"`)), []string{"larger than"}},
		"hangs up": {serve(func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_ = conn.Close()
			}
		}), []string{"failed   discovery", harness.WellKnown}},
		"101": {serve(func(w http.ResponseWriter, _ *http.Request) { switchProtocols(w) }), []string{"failed   discovery", "left HTTP"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := command(t, "doctor", "--host", c.url)
			assert.Equal(t, exitUnknown, r.code, r.out+r.err)
			assert.True(t, strings.HasPrefix(r.out, "UNREACHABLE"), r.out)
			for _, want := range c.want {
				assert.Contains(t, r.out, want)
			}
		})
	}
	assert.Equal(t, exitUsage, command(t, "doctor").code)
	assert.Equal(t, exitUsage, command(t, "doctor", "--host", "ftp://x").code)
	assert.Equal(t, exitUsage, command(t, "doctor", "--reference-host").code)
}

// A host whose members are not what they should be, whose clock is off, and who repeats what it is told.
func TestDoctorOnAHostileHost(t *testing.T) {
	const key = "the-key-of-a-hostile-host"
	t.Setenv("DOCTOR_HOSTILE", key)
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == harness.WellKnown {
			w.Header().Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
			_, _ = io.WriteString(w, `{"protocolVersions":["2.0",7,"\u001b[31m"],"preferredVersion":1,"implementation":"x","fixtures":{"a":1},"signingKeys":9,"conformance":[],"webhooks":[],"auth":null}`)
			return
		}
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":"`+r.Header.Get("Authorization")+`"}`)
	}))
	defer host.Close()
	r := command(t, "doctor", "--host", host.URL, "--api-key-env", "DOCTOR_HOSTILE")
	assert.Equal(t, exitNo, r.code, r.err)
	assert.Contains(t, r.out, "behind this machine's")
	assert.Contains(t, r.out, "primary tenant: refused with 401")
	assert.Contains(t, r.out, "the host does not list conformance-noop")
	assert.NotContains(t, r.out, key)
	assert.NotContains(t, r.out, "\x1b")

	run := command(t, "certify", "--host", host.URL, "--api-key-env", "DOCTOR_HOSTILE", "--out", filepath.Join(t.TempDir(), "evidence"))
	assert.Equal(t, exitUnknown, run.code)
	assert.NotContains(t, run.err, key, "the refusal that certify shows is the host's own text")
}
