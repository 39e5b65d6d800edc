package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle"
	"wopcert/internal/testnet"
	referencehost "wopcert/reference-host"
)

// result is what one command line did.
type result struct {
	code     int
	out, err string
}

func command(t *testing.T, args ...string) result {
	t.Helper()
	return commandIn(t, t.Context(), "", args...)
}

func commandIn(t *testing.T, ctx context.Context, stdin string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(ctx, args, streams{in: strings.NewReader(stdin), out: &out, err: &errs})
	return result{code, out.String(), errs.String()}
}

func decode[V any](t *testing.T, text string) V {
	t.Helper()
	var v V
	d := json.NewDecoder(strings.NewReader(text))
	require.NoError(t, d.Decode(&v), "%s", text)
	_, err := d.Token()
	require.ErrorIs(t, err, io.EOF, "only the answer goes to standard output")
	return v
}

// startHost runs the reference host for a test and returns its keys by name.
func startHost(t *testing.T, change func(*referencehost.Config)) (*referencehost.Server, map[string]string) {
	t.Helper()
	config, err := referencehost.DefaultConfig()
	require.NoError(t, err)
	if change != nil {
		change(&config)
	}
	server, err := referencehost.Listen(context.Background(), "127.0.0.1:0", config)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Close()) })
	keys := map[string]string{}
	for _, k := range config.Keys {
		keys[k.Name] = k.Key
	}
	return server, keys
}

// A wrong command line ends with 2, says what was wrong, and answers nothing.
func TestCommandLineErrors(t *testing.T) {
	t.Parallel()
	taken := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(taken, "bundle.json"), []byte("{}"), 0o600))
	rsa := filepath.Join(t.TempDir(), "rsa.pem")
	require.NoError(t, os.WriteFile(rsa, []byte("-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n"), 0o600))
	config := filepath.Join(t.TempDir(), "wopcert.yaml")
	require.NoError(t, os.WriteFile(config, []byte("api_key: secret\n"), 0o600))
	fresh := func() string { return filepath.Join(t.TempDir(), "out") }
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "needs a command"},
		{[]string{"nope"}, "unknown command"},
		{[]string{"help", "nope"}, "no command"},
		{[]string{"--nope"}, "unknown flag"},
		{[]string{"certify"}, "no host to certify"},
		{[]string{"certify", "extra"}, "unknown command"},
		{[]string{"certify", "--host", "ftp://x"}, "want http"},
		{[]string{"certify", "--host", "http://user:secret-word@x"}, "holds a credential"},
		{[]string{"certify", "--host", "http://x", "--reference-host"}, "exclude each other"},
		{[]string{"certify", "--reference-host", "--out", taken}, "already holds files"},
		{[]string{"certify", "--reference-host", "--out", filepath.Join(rsa, "below-a-file")}, "cannot be"},
		{[]string{"certify", "--reference-host", "--out", fresh(), "--scenario", "v2-nothing-*"}, "no scenario matches"},
		{[]string{"certify", "--reference-host", "--out", fresh(), "--scenario", "[", "--scenario", "v2-era-key"}, "bad scenario pattern"},
		{[]string{"certify", "--reference-host", "--out", fresh(), "--requirement", "0170.nope"}, "no requirement"},
		{[]string{"certify", "--reference-host", "--out", fresh(), "--profile", "openwop-core"}, "no profile"},
		{[]string{"certify", "--reference-host", "--out", fresh(), "--opt-out", "telepathy"}, "no capability family"},
		{[]string{"certify", "--reference-host", "--out", fresh(), "--signing-key", rsa}, "RSA"},
		{[]string{"certify", "--reference-host", "--out", fresh(), "--key-id", "k"}, "no signing key"},
		{[]string{"certify", "--reference-host", "--out", fresh(), "--host-build", "abc"}, "KIND:ID"},
		{[]string{"certify", "--reference-host", "--out", fresh(), "--parallel", "-1"}, "must be positive"},
		{[]string{"certify", "--reference-host", "--out", fresh(), "--parallel", "0"}, "must be positive"},
		{[]string{"certify", "--reference-host", "--out", ""}, "names no directory"},
		{[]string{"certify", "--reference-host", "--out", fresh(), "--opt-out", "auth"}, "cannot be opted out of"},
		{[]string{"certify", "--reference-host", "--out", fresh(), "--timeout", "soon"}, "invalid argument"},
		{[]string{"certify", "--reference-host", "--out", fresh(), "--format", "xml"}, "want text or json"},
		{[]string{"certify", "--reference-host", "--out", fresh(), "--api-key-env", "wop_test_secretsecret"}, "not set"},
		{[]string{"certify", "--reference-host", "--out", fresh(), "--config", config}, "api_key not found"},
		{[]string{"certify", "--reference-host", "--out", fresh(), "--config", "no-such.yaml"}, "cannot be read"},
		{[]string{"verify"}, "accepts 1 arg"},
		{[]string{"verify", "x", "--require", "openwop-core"}, "no profile"},
		{[]string{"host", "--fault", "nope"}, "no fault"},
		{[]string{"host", "--variant", "nope"}, "no variant"},
		{[]string{"host", "--addr", "not-an-address"}, "not-an-address"},
		{[]string{"list"}, "accepts 1 arg"},
		{[]string{"list", "nothing"}, "invalid argument"},
		{[]string{"explain", "nope"}, "no requirement or scenario"},
		{[]string{"faults", "nope"}, "no fault"},
		{[]string{"variants", "nope"}, "no variant"},
		{[]string{"keygen"}, "--out is needed"},
		{[]string{"keygen", "--out", rsa}, "already exists"},
		{[]string{"fixtures"}, "needs a command"},
		{[]string{"fixtures", "export"}, "accepts 1 arg"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			t.Parallel()
			r := command(t, c.args...)
			assert.Equal(t, exitUsage, r.code, r.err)
			assert.Contains(t, r.err, "wopcert: error: ")
			assert.Contains(t, r.err, c.want)
			assert.Empty(t, r.out)
			assert.NotContains(t, r.err, "secret")
		})
	}
}

// Hosts that cannot be measured end with 3 and leave no evidence behind.
func TestCertifyUnmeasurableHosts(t *testing.T) {
	t.Parallel()
	fixed := func(status int, contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"no discovery":  {fixed(404, "text/plain", ""), "status 404"},
		"HTML":          {fixed(200, "text/html", "<!doctype html>"), "not JSON"},
		"duplicate":     {fixed(200, "application/json", `{"protocolVersions":["2.0"],"protocolVersions":["2.0"]}`), "not I-JSON"},
		"array":         {fixed(200, "application/json", `[]`), "not a JSON object"},
		"major 1 only":  {fixed(200, "application/json", `{"protocolVersion":"1.11"}`), "it speaks 1.11"},
		"406":           {fixed(406, "application/json", `{"error":"protocol_version_unsupported","message":"x","details":{"protocolVersions":["1.10"]}}`), "it speaks 1.10"},
		"redirect loop": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }, "redirects"},
		"101":           {func(w http.ResponseWriter, _ *http.Request) { switchProtocols(w) }, "left HTTP"},
		"too large":     {fixed(200, "application/json", `{"x":"`+strings.Repeat("a", 9<<20)+`"}`), "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := httptest.NewServer(c.handler)
			defer host.Close()
			out := filepath.Join(t.TempDir(), "evidence")
			r := command(t, "certify", "--host", host.URL, "--out", out)
			assert.Equal(t, exitUnknown, r.code, r.err)
			assert.Contains(t, r.err, c.want)
			assert.Empty(t, r.out)
			entries, err := os.ReadDir(filepath.Dir(out))
			require.NoError(t, err)
			assert.Empty(t, entries, "nothing is left behind")
		})
	}
	t.Run("certificate", func(t *testing.T) {
		t.Parallel()
		host := httptest.NewTLSServer(fixed(200, "application/json", "{}"))
		defer host.Close()
		r := command(t, "certify", "--host", host.URL, "--out", filepath.Join(t.TempDir(), "evidence"))
		assert.Equal(t, exitUnknown, r.code)
		assert.Contains(t, r.err, "trust roots")
	})
}

// switchProtocols answers 101 and keeps the connection for itself.
func switchProtocols(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
	_, _ = io.Copy(io.Discard, conn)
	_ = conn.Close()
}

// The first command of the README, and the bundle it writes as a stranger
// reads it.
func TestCertifyReferenceHostAndVerify(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "evidence")
	r := command(t, "certify", "--reference-host", "--out", out, "--format", "json")
	require.Equal(t, exitYes, r.code, r.err)
	answer := decode[map[string]any](t, r.out)
	assert.Equal(t, "certified", answer["verdict"])
	assert.Equal(t, out, answer["out"])
	assert.Empty(t, answer["failures"])
	for _, member := range []string{"verdict", "profiles", "totals", "out", "durationMs", "failures"} {
		assert.Contains(t, answer, member)
	}
	for _, name := range []string{"bundle.json", "discovery.json", "results.json", "capture/discovery.json"} {
		assert.FileExists(t, filepath.Join(out, name))
	}
	bundleFile := filepath.Join(out, "bundle.json")

	r = command(t, "verify", bundleFile, "--format", "json", "--require", "openwop-discovery-core")
	require.Equal(t, exitYes, r.code, r.err)
	report := decode[bundle.Report](t, r.out)
	assert.True(t, report.Sound)
	assert.Equal(t, bundle.Attributable, report.Attribution)
	assert.Contains(t, report.CertifiedProfiles, "openwop-discovery-core")

	r = command(t, "verify", bundleFile, "--discovery", filepath.Join(out, "discovery.json"))
	assert.Equal(t, exitYes, r.code, r.out)
	r = command(t, "verify", bundleFile, "--require", "openwop-core-standard", "--require", "openwop-conformance-seams-v2")
	assert.Equal(t, exitYes, r.code, r.out)
	require.NotNil(t, report.Durability)
	assert.True(t, report.Durability.Derived, "the bundled host was killed and came back")
	r = commandIn(t, t.Context(), readFile(t, bundleFile), "verify", "-")
	assert.Equal(t, exitYes, r.code, r.out)

	again := command(t, "certify", "--reference-host", "--out", out)
	assert.Equal(t, exitUsage, again.code, "evidence is never overwritten")
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(data)
}

// A third party's host: keys from the environment, a signing key of its own,
// and nothing secret in anything written or printed.
func TestCertifyHostKeepsSecrets(t *testing.T) {
	dir := t.TempDir()
	keyFile := filepath.Join(dir, "host-key.pem")
	made := command(t, "keygen", "--out", keyFile, "--format", "json")
	require.Equal(t, exitYes, made.code, made.err)
	info, err := os.Stat(keyFile)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	key, err := bundle.LoadPrivateKey(keyFile, "release-1")
	require.NoError(t, err)

	root, certFile, certKey := certificate(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	receiverAddr := listener.Addr().String()
	require.NoError(t, listener.Close())
	host, keys := startHost(t, func(c *referencehost.Config) {
		c.SigningKeys = []referencehost.SigningKey{{KeyID: "release-1", PublicKey: key.Public()}}
		require.NoError(t, testnet.Lead(c, testnet.Place{Addr: receiverAddr, Root: root.Raw}))
	})
	t.Setenv("TEST_PRIMARY", keys[referencehost.KeyTenantA])
	t.Setenv("TEST_OTHER", keys[referencehost.KeyTenantB])
	t.Setenv("TEST_READ", keys[referencehost.KeyReadOnly])
	t.Setenv("TEST_PRODUCTION", keys[referencehost.KeyProduction])
	t.Setenv("TEST_APPROVER", keys[referencehost.KeyApprover1])
	t.Setenv("TEST_SECOND_APPROVER", keys[referencehost.KeyApprover2])
	t.Setenv("TEST_OVERRIDE", keys[referencehost.KeyApprover3])
	config := filepath.Join(dir, "wopcert.yaml")
	out := filepath.Join(dir, "evidence")
	require.NoError(t, os.WriteFile(config, []byte(strings.Join([]string{
		"host: " + host.URL(), "api_key_env: TEST_PRIMARY", "other_tenant_key_env: TEST_OTHER", "read_only_key_env: TEST_READ", "production_key_env: TEST_PRODUCTION",
		"approver_key_env: TEST_APPROVER", "second_approver_key_env: TEST_SECOND_APPROVER", "override_key_env: TEST_OVERRIDE",
		"approver_group: " + referencehost.ApproverGroup, "approver_role: " + referencehost.ApproverRole, "override_role: " + referencehost.OverrideRole,
		"receiver_listen: " + receiverAddr, "receiver_url: " + testnet.Config().URL, "receiver_cert: " + certFile, "receiver_key: " + certKey, "receiver_trusted: true",
		"signing_key: " + keyFile, "host_build: commit:abc123", "out: " + out, "parallel: 8", "timeout: 45s",
	}, "\n")), 0o600))
	r := command(t, "certify", "--config", config)
	require.Equal(t, exitYes, r.code, "%s%s", r.out, r.err)
	assert.Contains(t, r.out, "attributable", "the key's published id is found")

	report := decode[bundle.Report](t, command(t, "verify", filepath.Join(out, "bundle.json"), "--discovery", host.URL(), "--format", "json").out)
	assert.Equal(t, "url", report.AttributionSource)
	assert.Equal(t, "release-1", report.KeyID)
	assert.Equal(t, bundle.HostBuild{Kind: "commit", ID: "abc123"}, report.Host.Build)

	secrets := []string{keys[referencehost.KeyTenantA], keys[referencehost.KeyTenantB], keys[referencehost.KeyReadOnly], keys[referencehost.KeyProduction],
		keys[referencehost.KeyApprover1], keys[referencehost.KeyApprover2], keys[referencehost.KeyApprover3]}
	files := 0
	require.NoError(t, filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		text := readFile(t, path)
		for _, s := range secrets {
			assert.NotContains(t, text, s, path)
		}
		return nil
	}))
	assert.Greater(t, files, 20)
	for _, s := range secrets {
		assert.NotContains(t, r.out+r.err, s)
	}
}

func TestCertifyWrongAndMissingKeys(t *testing.T) {
	host, keys := startHost(t, nil)
	t.Setenv("TEST_WRONG", "wop_test_thiskeywasneverissued")
	t.Setenv("TEST_RIGHT", keys[referencehost.KeyTenantA])
	t.Setenv(envAPIKey, "")
	t.Setenv(envOtherTenantKey, "")
	t.Setenv(envReadOnlyKey, "")
	t.Setenv(envProductionKey, "")
	t.Setenv(envApproverKey, "")
	t.Setenv(envSecondApproverKey, "")
	t.Setenv(envOverrideKey, "")
	out := func() string { return filepath.Join(t.TempDir(), "evidence") }

	r := command(t, "certify", "--host", host.URL(), "--api-key-env", "TEST_WRONG", "--out", out())
	assert.Equal(t, exitUnknown, r.code)
	assert.Contains(t, r.err, "refuses the key of the primary tenant")
	assert.NotContains(t, r.err, "neverissued")

	r = command(t, "certify", "--host", host.URL(), "--out", out())
	assert.Equal(t, exitUnknown, r.code, "without a key nothing is failed, and nothing is certified")
	assert.Contains(t, r.out, "--api-key-env")
	assert.NotContains(t, r.out, "FAILED")

	r = command(t, "certify", "--host", host.URL(), "--api-key-env", "TEST_RIGHT", "--out", out(), "--format", "json")
	assert.Equal(t, exitUnknown, r.code)
	answer := decode[map[string]any](t, r.out)
	assert.Equal(t, "incomplete", answer["verdict"])
	assert.Contains(t, r.out, "--other-tenant-key-env")
}

// A broken host ends with 1 and says which requirement, what was expected and
// what came.
func TestCertifyFailingHost(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	read, write := io.Pipe()
	done := make(chan int, 1)
	go func() {
		defer write.Close()
		done <- run(ctx, []string{"host", "--addr", "127.0.0.1:0", "--fault", "cancel-of-completed-echoes", "--variant", "links-absolute", "--format", "json"},
			streams{in: strings.NewReader(""), out: write, err: io.Discard})
	}()
	var started struct {
		URL      string            `json:"url"`
		Keys     map[string]string `json:"keys"`
		Fixtures []string          `json:"fixtures"`
	}
	require.NoError(t, json.NewDecoder(read).Decode(&started))
	assert.Contains(t, started.Fixtures, "conformance-noop")
	t.Setenv("TEST_PRIMARY", started.Keys[referencehost.KeyTenantA])
	r := command(t, "certify", "--host", started.URL, "--api-key-env", "TEST_PRIMARY", "--scenario", "v2-run-cancel",
		"--out", filepath.Join(t.TempDir(), "evidence"), "--format", "json")
	assert.Equal(t, exitNo, r.code, r.err)
	answer := decode[struct {
		Verdict  string
		Failures []map[string]any
	}](t, r.out)
	assert.Equal(t, "failed", answer.Verdict)
	require.NotEmpty(t, answer.Failures)
	f := answer.Failures[0]
	assert.Equal(t, "openwop.requirement.0170.run-cancel", f["requirement"])
	assert.Contains(t, f["expected"], "409")
	assert.Contains(t, f["observed"], "200")
	assert.Contains(t, f["reproduce"], "--scenario v2-run-cancel")
	stop()
	select {
	case code := <-done:
		assert.Equal(t, exitYes, code)
	case <-time.After(20 * time.Second):
		t.Fatal("the host did not stop")
	}
}

// An interrupt still writes honest evidence: what was not reached is blocked.
func TestCertifyInterrupted(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]string{"before the first test": "discovered", "between tests": "[6/"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			out := filepath.Join(t.TempDir(), "evidence")
			var answer bytes.Buffer
			errs := &stopper{after: after, stop: stop}
			code := run(ctx, []string{"certify", "--reference-host", "--parallel", "1", "--out", out}, streams{in: strings.NewReader(""), out: &answer, err: errs})
			assert.Equal(t, exitUnknown, code, "%s%s", answer.String(), errs.text.String())
			assert.Contains(t, answer.String(), "interrupted", errs.text.String())
			assert.FileExists(t, filepath.Join(out, "results.json"))
			if after == "discovered" {
				assert.NoFileExists(t, filepath.Join(out, "bundle.json"), "nothing was observed, so nothing is attested")
				return
			}
			report := decode[bundle.Report](t, command(t, "verify", filepath.Join(out, "bundle.json"), "--format", "json").out)
			assert.True(t, report.Sound)
			assert.NotZero(t, report.Totals.Blocked)
			assert.Empty(t, report.CertifiedProfiles)
		})
	}
}

// stopper calls stop when a text is written to it.
type stopper struct {
	after string
	stop  func()
	text  bytes.Buffer
}

func (s *stopper) Write(p []byte) (int, error) {
	s.text.Write(p)
	if strings.Contains(string(p), s.after) {
		s.stop()
	}
	return len(p), nil
}

func TestSelections(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"requirement, short": {"--requirement", "0170.run-cancel"},
		"requirement, long":  {"--requirement", "openwop.requirement.0170.run-cancel"},
		"glob":               {"--scenario", "v2-run-ca*"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(t.TempDir(), "evidence")
			r := command(t, append([]string{"certify", "--reference-host", "--out", out, "--format", "json"}, args...)...)
			assert.Equal(t, exitYes, r.code, r.err)
			assert.Equal(t, "passed", decode[map[string]any](t, r.out)["verdict"], "a part certifies nothing")
			v := command(t, "verify", filepath.Join(out, "bundle.json"))
			assert.Equal(t, exitNo, v.code, v.out)
		})
	}
	out := filepath.Join(t.TempDir(), "evidence")
	r := command(t, "certify", "--reference-host", "--profile", "openwop-discovery-core", "--out", out, "--format", "json")
	assert.Equal(t, exitYes, r.code, r.err)
	assert.Equal(t, "certified", decode[map[string]any](t, r.out)["verdict"])
}

func TestVerifyRealBundles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("..", "..", "..", "shared", "bundles")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("the real bundles are not here")
	}
	r := command(t, "verify", filepath.Join(dir, "openwop-host-v2-reference.json"), "--format", "json")
	require.Equal(t, exitYes, r.code, r.err)
	report := decode[bundle.Report](t, r.out)
	assert.Equal(t, bundle.Attributable, report.Attribution)
	assert.ElementsMatch(t, []string{"openwop-discovery-core", "openwop-core-standard", "openwop-conformance-seams-v2"}, report.CertifiedProfiles)
	for name, version := range map[string]string{"openwop-host-sqlite.bundle-v2.json": "2", "openwop-host-in-memory.bundle-v1.json": "1"} {
		r := command(t, "verify", filepath.Join(dir, name), "--format", "json")
		assert.Equal(t, exitRejected, r.code)
		report := decode[bundle.Report](t, r.out)
		assert.Equal(t, version, report.BundleVersion)
		assert.Empty(t, report.CertifiedProfiles)
		assert.Contains(t, r.out, "never upgraded")
	}
}

func TestVerifyBadInput(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 200_000)
	for name, c := range map[string]struct {
		text, kind string
	}{
		"empty":            {"", "json-syntax"},
		"truncated":        {`{"bundleVersion":"3","suite"`, "json-syntax"},
		"deep":             {deep, "json-depth"},
		"not UTF-8":        {"{\"a\":\"\xff\"}", "json-utf8"},
		"duplicate member": {`{"bundleVersion":"3","bundleVersion":"3"}`, "json-duplicate-member"},
		"another version":  {`{"bundleVersion":"9"}`, "bundle-version"},
		"no bundle":        {`{}`, "not-a-bundle"},
		"schema":           {`{"bundleVersion":"3"}`, "schema"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := commandIn(t, t.Context(), c.text, "verify", "-", "--format", "json")
			assert.Equal(t, exitRejected, r.code, r.err)
			report := decode[bundle.Report](t, r.out)
			require.NotEmpty(t, report.Rejections)
			assert.EqualValues(t, c.kind, report.Rejections[0].Kind)
		})
	}
	assert.Equal(t, exitUnknown, command(t, "verify", filepath.Join(t.TempDir(), "none.json")).code)
	assert.Equal(t, exitUnknown, command(t, "verify", t.TempDir()).code)
}

func TestLists(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"scenarios", "requirements", "profiles", "families", "faults", "variants", "fixtures", "operations", "errors", "events"} {
		r := command(t, "list", name, "--format", "json")
		require.Equal(t, exitYes, r.code, r.err)
		assert.NotEmpty(t, decode[[]map[string]any](t, r.out), name)
		text := command(t, "list", name)
		assert.Equal(t, exitYes, text.code)
		assert.Greater(t, strings.Count(text.out, "\n"), 1, name)
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	r := command(t, "explain", "0170.run-cancel", "--format", "json")
	require.Equal(t, exitYes, r.code)
	e := decode[explanation](t, r.out)
	assert.Equal(t, "v2-run-cancel", e.Scenario)
	assert.NotEmpty(t, e.Tests)
	assert.NotEmpty(t, e.Faults)
	assert.NotEmpty(t, e.Obligations)
	assert.Equal(t, exitYes, command(t, "explain", "openwop.floor.v2-run-cancel").code)
}

func TestCoverage(t *testing.T) {
	t.Parallel()
	r := command(t, "coverage", "--format", "json")
	c := decode[struct {
		Documents    []map[string]any
		Requirements struct{ Total, Witnessed, Faulted int }
		Upstream     struct{ Known, Shared int }
		Gaps         []struct{ Kind, ID string }
	}](t, r.out)
	assert.Equal(t, c.Requirements.Total, c.Requirements.Witnessed, "every requirement has a check")
	assert.Equal(t, c.Requirements.Total, c.Requirements.Faulted, "every check has a fault")
	assert.Equal(t, 274, c.Upstream.Known)
	assert.NotZero(t, c.Upstream.Shared)
	assert.NotEmpty(t, c.Documents)
	for _, g := range c.Gaps {
		assert.Equal(t, "obligation-unmapped", g.Kind, "only documents still to be built leave gaps: %s", g.ID)
	}
	want := exitYes
	if len(c.Gaps) > 0 {
		want = exitNo
	}
	assert.Equal(t, want, r.code)
}

func TestCanon(t *testing.T) {
	t.Parallel()
	r := commandIn(t, t.Context(), "{ \"b\": 1.0, \"a\": \"\\u20ac\" }\n", "canon")
	assert.Equal(t, exitYes, r.code)
	assert.Equal(t, `{"a":"€","b":1}`, r.out)
	r = commandIn(t, t.Context(), `{"a":1,"a":2}`, "canon", "-")
	assert.Equal(t, exitRejected, r.code)
	assert.Empty(t, r.out)
}

func TestFixturesExport(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "fixtures")
	r := command(t, "fixtures", "export", dir)
	require.Equal(t, exitYes, r.code, r.err)
	for _, name := range strings.Fields(r.out) {
		assert.FileExists(t, name)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "conformance-noop.json"), []byte("{}"), 0o600))
	assert.Equal(t, exitUsage, command(t, "fixtures", "export", dir).code, "another file is not overwritten")
}

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	assert.Equal(t, exitYes, command(t, "--help").code)
	assert.Equal(t, exitYes, command(t, "help", "certify").code)
	v := command(t, "--version")
	assert.Equal(t, "wopcert "+Version+"\n", v.out)
}
