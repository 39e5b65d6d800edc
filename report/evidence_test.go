package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/joshdk/go-junit"
	"github.com/santhosh-tekuri/jsonschema/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle"
	"wopcert/harness"
	"wopcert/report"
	"wopcert/requirements"
)

// hostile is what a host may say to whoever reads about it.
const hostile = "\x1b[2J</script><img src=x onerror=alert(1)>|`**`\u202e ::error::\n%0A"

var began = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// evidence is a run with a row of each kind, and a host that says hostile things.
func evidence() (report.Results, map[string]harness.TestTape) {
	c := &report.Certification{
		Verdict: report.Failed, Out: "out", DurationMs: 2000, LongestMs: 900, Attribution: "integrity-only",
		Profiles: []report.Profile{{ID: "openwop-discovery-core", Why: []string{"a floor row failed: " + hostile}}},
		Blocked:  []report.Reason{}, Partial: []report.Reason{}, Notes: []string{"a note " + hostile},
		Host: report.HostFacts{URL: "http://127.0.0.1:1/" + hostile, Name: "host " + hostile, Version: "1", Build: "commit:abc"},
		Failures: []harness.Failure{{
			Requirement: requirements.R0170RunCancel, Scenario: "v2-run-cancel", Test: "a run is cancelled",
			Expected: "status 200", Observed: "status 500 " + hostile, Exchange: 2, Reproduce: "wopcert certify --scenario v2-run-cancel",
		}},
	}
	r := report.Results{Certification: c, Suite: "wopcert 0.1.0", Rows: []bundle.Row{
		{ID: string(requirements.RunsSnapshotValid), Scenario: "v2-snapshot", Result: bundle.ExecutedPass, Assertions: 2},
		{ID: string(requirements.R0170RunCancel), Scenario: "v2-run-cancel", Result: bundle.ExecutedFail, Assertions: 1, Detail: "expected status 200; observed " + hostile},
		{ID: string(requirements.EventsSequence), Scenario: "v2-events", Result: bundle.Blocked, Detail: "no key was given " + hostile},
		{ID: string(requirements.RunsListPageCeiling), Scenario: "v2-list", Result: bundle.Inapplicable, Detail: "the host does not advertise runList"},
		{ID: "openwop.requirement.nobody.knows", Scenario: "v2-list", Result: bundle.Skipped, Detail: "operator opt-out: runList"},
		{ID: string(requirements.R0194TerminalOnce), Scenario: "v2-events", Result: bundle.ExecutedPass, Assertions: 1, Detail: "partial-witness: not all of it"},
		{ID: "openwop.scenario.v2-run-cancel", Scenario: "v2-run-cancel", Result: bundle.ExecutedFail, Assertions: 1},
	}, Tests: []harness.TestResult{
		{Scenario: "v2-run-cancel", Test: "a run is cancelled", Started: began, Elapsed: 900 * time.Millisecond, Ran: true},
		{Scenario: "v2-events", Test: "events", Started: began.Add(time.Second), Elapsed: time.Second, Ran: true},
		{Scenario: "v2-list", Test: "pages", Started: began},
	}}
	for _, row := range r.Rows {
		c.Totals.Add(row.Result)
	}
	tapes := map[string]harness.TestTape{"capture/v2-run-cancel/a-run-is-cancelled.json": {
		Scenario: "v2-run-cancel", Test: "a run is cancelled", Exchanges: []harness.Exchange{
			{Number: 1, Started: began, Method: "GET", URL: "http://127.0.0.1:1/runs/r/events?streamMode=updates&q=%C3%BC", Status: 200, Millis: 2,
				Request:  harness.Message{Headers: []string{"Accept: text/event-stream", "Authorization: [redacted]"}},
				Response: harness.Message{Headers: []string{"Content-Type: text/event-stream"}},
				Stream: &harness.StreamTape{ClosedBy: "host", ClosedMs: 40, Tail: "data: half", Frames: []harness.FrameTape{
					{AtMs: 5, Raw: "id: 0\nevent: run.started\ndata: {\"a\":1}\n\n", LineEnds: []string{"LF"}}, {AtMs: 20, Raw: ": ping\n\n", LineEnds: []string{"LF"}},
				}}},
			{Number: 2, Started: began.Add(time.Millisecond), Method: "POST", URL: "http://127.0.0.1:1/runs/r:cancel", Status: 500, Millis: 3,
				Request:  harness.Message{Headers: []string{"Content-Type: application/json"}, Body: `{"reason":"x"}`},
				Response: harness.Message{Headers: []string{"Content-Type: text/html"}, Body: hostile}},
		},
	}}
	return r, tapes
}

func files(t testing.TB, r report.Results, tapes map[string]harness.TestTape) fstest.MapFS {
	t.Helper()
	fsys := fstest.MapFS{"discovery.json": {Data: []byte("{}")}}
	put := func(name string, v any) {
		data, err := json.Marshal(v)
		require.NoError(t, err)
		fsys[name] = &fstest.MapFile{Data: data}
	}
	put(report.ResultsFile, r)
	for name, tape := range tapes {
		put(name, tape)
	}
	return fsys
}

func model(t testing.TB) *report.Evidence {
	t.Helper()
	r, tapes := evidence()
	e, err := report.FromDirectory(files(t, r, tapes), "evidence")
	require.NoError(t, err)
	return e
}

func render(t testing.TB, write func(w *bytes.Buffer) error) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, write(&b))
	for _, bad := range []string{"\x1b", "\u202e", "<img"} {
		assert.NotContains(t, b.String(), bad)
	}
	return b.String()
}

func TestPageShowsAFailureDownToTheBytes(t *testing.T) {
	t.Parallel()
	e := model(t)
	page := render(t, func(b *bytes.Buffer) error { return e.HTML(b) })
	r, _ := requirements.Get(requirements.R0170RunCancel)
	for _, want := range []string{
		"0170.run-cancel", r.Document, "status 500", "wopcert certify --scenario v2-run-cancel", "/runs/r:cancel", "[redacted]",
		"event: run.started", "Closed by host", "data: half", "no key was given", "not certified", "v2-run-cancel: a run is cancelled, 900ms",
	} {
		assert.Contains(t, page, want)
	}
	assert.Equal(t, 1, strings.Count(page, "<script>"), "one script, the page's own")
	assert.NotContains(t, page, "http-equiv=\"refresh\"")
	assert.NotContains(t, page, "<link")
}

func TestJUnitIsReadAsWhatItSays(t *testing.T) {
	t.Parallel()
	e := model(t)
	text := render(t, func(b *bytes.Buffer) error { return e.JUnit(b) })
	suites, err := junit.Ingest([]byte(text))
	require.NoError(t, err)
	statuses := map[string]junit.Status{}
	var whole junit.Totals
	for _, suite := range suites {
		suite.Aggregate()
		whole.Tests += suite.Totals.Tests
		for _, test := range suite.Tests {
			statuses[test.Name] = test.Status
		}
	}
	assert.Equal(t, 6, whole.Tests)
	assert.Equal(t, map[string]junit.Status{
		"runs.snapshot-valid": junit.StatusPassed, "0170.run-cancel": junit.StatusFailed, "events.sequence": junit.StatusError,
		"runs.list-page-ceiling": junit.StatusSkipped, "nobody.knows": junit.StatusSkipped, "0194.terminal-once": junit.StatusPassed,
	}, statuses)
}

func TestSARIFIsValid(t *testing.T) {
	t.Parallel()
	e := model(t)
	text := render(t, func(b *bytes.Buffer) error { return e.SARIF(b) })
	require.NoError(t, schema(t, "testdata/sarif-2.1.0.schema.json").Validate(decoded(t, []byte(text))))
	var log struct {
		Runs []struct {
			Tool struct {
				Driver struct{ Rules []struct{ ID string } }
			}
			Results []struct {
				RuleID    string
				RuleIndex int
				Level     string
				Locations []struct {
					PhysicalLocation struct{ ArtifactLocation struct{ URI string } }
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(text), &log))
	results, rules := log.Runs[0].Results, log.Runs[0].Tool.Driver.Rules
	require.Len(t, results, 2)
	assert.Equal(t, "openwop.requirement.0170.run-cancel", results[0].RuleID)
	assert.Equal(t, "error", results[0].Level)
	assert.Equal(t, "capture/v2-run-cancel/a-run-is-cancelled.json", results[0].Locations[0].PhysicalLocation.ArtifactLocation.URI)
	assert.Equal(t, "note", results[1].Level)
	for _, r := range results {
		assert.Equal(t, r.RuleID, rules[r.RuleIndex].ID)
	}
}

func schema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat = true
	require.NoError(t, c.AddResource("https://wopcert.example/schemas/"+filepath.Base(name), bytes.NewReader(text)))
	compiled, err := c.Compile("https://wopcert.example/schemas/" + filepath.Base(name))
	require.NoError(t, err)
	return compiled
}

func decoded(t *testing.T, text []byte) any {
	t.Helper()
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	require.NoError(t, d.Decode(&v))
	return v
}

func TestHARIsValid(t *testing.T) {
	t.Parallel()
	e := model(t)
	require.Equal(t, []string{"v2-run-cancel"}, e.Scenarios())
	var b bytes.Buffer
	require.NoError(t, e.HAR(&b, "v2-run-cancel"))
	require.NoError(t, schema(t, "testdata/har-1.2.schema.json").Validate(decoded(t, b.Bytes())))
	for _, want := range []string{`"_resourceType":"eventsource"`, `"eventName":"run.started"`, `"eventId":"0"`, `"value":"ü"`, `"text":"{\"reason\":\"x\"}"`} {
		assert.Contains(t, b.String(), want)
	}
}

func TestResultsAreValid(t *testing.T) {
	t.Parallel()
	r, _ := evidence()
	text, err := json.Marshal(r)
	require.NoError(t, err)
	compiled := schema(t, "results.schema.json")
	require.NoError(t, compiled.Validate(decoded(t, text)))
	require.Error(t, compiled.Validate(decoded(t, []byte(`{"verdict":"certified"}`))))
}

func TestMarkdownAndAnnotations(t *testing.T) {
	t.Parallel()
	e := model(t)
	var md bytes.Buffer
	require.NoError(t, e.Markdown(&md))
	text := md.String()
	assert.NotContains(t, text, "\x1b")
	assert.Equal(t, 1, strings.Count(text, "<img"), "only within the block of code that shows what was observed")
	for _, want := range []string{":x: Failed", "| 2 | 2 | 1 | 1 | 1 |", "6 requirements, and 1 that sum up scenarios", "0170.run-cancel", "1 rows: no key was given", "expected   status 200"} {
		assert.Contains(t, text, want)
	}
	var b bytes.Buffer
	require.NoError(t, e.Annotations(&b))
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	require.Len(t, lines, 2, "one command for each row, whatever the host has said")
	assert.True(t, strings.HasPrefix(lines[0], "::error title=0170.run-cancel::expected status 200"))
	assert.True(t, strings.HasPrefix(lines[1], "::warning title=events.sequence::blocked"))
}

func TestCorruptCaptureCostsItsOwnPanel(t *testing.T) {
	t.Parallel()
	r, tapes := evidence()
	fsys := files(t, r, tapes)
	fsys["capture/v2-run-cancel/a-run-is-cancelled.json"].Data = []byte(`{"scenario": 7`)
	fsys["capture/v2-run-cancel/pipe.json"] = &fstest.MapFile{Mode: fs.ModeNamedPipe}
	fsys["bundle.json"] = &fstest.MapFile{Data: []byte("not a bundle")}
	e, err := report.FromDirectory(fsys, "evidence")
	require.NoError(t, err)
	page := render(t, func(b *bytes.Buffer) error { return e.HTML(b) })
	assert.Contains(t, page, "a-run-is-cancelled.json cannot be read")
	assert.Contains(t, page, "pipe.json is no regular file")
	assert.Contains(t, page, "The capture of this test is not there.")
	assert.Contains(t, page, "The verifier rejects this bundle")
	assert.Contains(t, page, "runs.snapshot-valid")
	var b bytes.Buffer
	require.NoError(t, e.HAR(&b, "v2-run-cancel"))
	assert.Contains(t, b.String(), "cannot be read")
}

func TestWhatIsNoEvidence(t *testing.T) {
	t.Parallel()
	for name, fsys := range map[string]fstest.MapFS{
		"empty":      {},
		"no results": {"discovery.json": {}},
		"no object":  {report.ResultsFile: {Data: []byte("[]")}},
		"no verdict": {report.ResultsFile: {Data: []byte("{}")}},
		"not JSON":   {report.ResultsFile: {Data: []byte("{")}},
	} {
		_, err := report.FromDirectory(fsys, "there")
		require.ErrorIs(t, err, report.ErrNoEvidence, name)
	}
	for _, text := range []string{"", "[]", "{}", `{"bundleVersion":3}`} {
		_, err := report.FromBundle([]byte(text), "there")
		require.ErrorIs(t, err, report.ErrNoEvidence, text)
	}
}

func TestBundlesAlone(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"bundleVersion":"1","claimedProfiles":["x"],"results":{"totals":{}}}`:        "bundle-version",
		`{"bundleVersion":"3","results":{"requirements":[]}}`:                          "The verifier rejects this bundle",
		`{"bundleVersion":"3","host":{"name":"Authorization: Bearer abcdefghijklmn"}}`: "The verifier rejects this bundle",
	} {
		e, err := report.FromBundle([]byte(text), "b.json")
		require.NoError(t, err, text)
		assert.True(t, e.Rejected())
		page := render(t, func(b *bytes.Buffer) error { return e.HTML(b) })
		assert.Contains(t, page, want)
		assert.NotContains(t, page, "abcdefghijklmn")
		assert.Contains(t, render(t, func(b *bytes.Buffer) error { return e.Markdown(b) }), "rejected")
	}
	data, err := os.ReadFile(filepath.Join("..", "..", "shared", "bundles", "openwop-host-v2-reference.json"))
	if err != nil {
		t.Skip("the published bundle is not beside the project")
	}
	e, err := report.FromBundle(data, "published")
	require.NoError(t, err)
	assert.False(t, e.Rejected())
	assert.Contains(t, render(t, func(b *bytes.Buffer) error { return e.HTML(b) }), "openwop-core-standard")
}

func TestWriteAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	names, err := model(t).WriteAll(dir)
	require.NoError(t, err)
	assert.Equal(t, []string{"report.html", "junit.xml", "results.sarif", "summary.md", "har/v2-run-cancel.har"}, names)
	for _, name := range names {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.NotZero(t, info.Size())
	}
	left, err := filepath.Glob(filepath.Join(dir, ".*"))
	require.NoError(t, err)
	assert.Empty(t, left)
	only, err := model(t).WriteAll(t.TempDir(), "junit")
	require.NoError(t, err)
	assert.Equal(t, []string{"junit.xml"}, only)
}

// TestInABrowser opens the page in a real one: its script runs under the page's own policy, and the filter filters.
func TestInABrowser(t *testing.T) {
	t.Parallel()
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed: the page was not opened")
	}
	dir := t.TempDir()
	_, err = model(t).WriteAll(dir, "html")
	require.NoError(t, err)
	for query, want := range map[string]string{"": "6 of 7 rows", "#result=fail": "1 of 7 rows", "#text=nobody": "1 of 7 rows", "#document=runs.md&result=na": "1 of 7 rows", "#text=nothing+at+all": "0 of 7 rows"} {
		command := exec.Command(browser, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir="+t.TempDir(), "--virtual-time-budget=5000",
			"--dump-dom", fmt.Sprintf("file://%s%s", filepath.Join(dir, "report.html"), query))
		out, err := command.Output()
		require.NoError(t, err)
		assert.Contains(t, string(out), want, query)
	}
	measured(t, browser, dir)
}

// measured holds the page to its width, in a wide frame and in a narrow one, and to showing what was skipped. The page's
// policy lets in no script but its own, so the copy that is measured has none.
func measured(t *testing.T, browser, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "report.html"))
	require.NoError(t, err)
	probe := `<script>addEventListener("load",()=>{const w=document.querySelector(".row.skip").getBoundingClientRect(),d=document.documentElement;` +
		`parent.postMessage("skipped shown "+(w.left>=0&&w.width>100)+", clipped "+(d.scrollWidth>d.clientWidth),"*")})</script></head>`
	page := strings.Replace(strings.Replace(string(text), `http-equiv="Content-Security-Policy"`, `name="policy"`, 1), "</head>", probe, 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "copy.html"), []byte(page), 0o600))
	for _, width := range []int{1200, 360} {
		frame := fmt.Sprintf(`<script>addEventListener("message",e=>document.title=e.data)</script><iframe src="copy.html" style="border:0;width:%dpx;height:800px"></iframe>`, width)
		name := filepath.Join(dir, "frame.html")
		require.NoError(t, os.WriteFile(name, []byte(frame), 0o600))
		command := exec.Command(browser, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir="+t.TempDir(), "--virtual-time-budget=5000", "--dump-dom", "file://"+name)
		out, err := command.Output()
		require.NoError(t, err)
		assert.Contains(t, string(out), "<title>skipped shown true, clipped false</title>", width)
	}
}

func TestSlug(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "a-cancel-is-409-not-200", report.Slug("A cancel is 409, not 200!"))
	assert.Equal(t, "", report.Slug("…"))
}
