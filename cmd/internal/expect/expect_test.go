package expect

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle"
	"wopcert/report"
	"wopcert/requirements"
)

func list(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "expected.yaml")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"- requirement: nope\n  reason: r\n  until: 2030-01-01\n":                      "no requirement",
		"- requirement: 0170.run-cancel\n  until: 2030-01-01\n":                        "no reason",
		"- requirement: 0170.run-cancel\n  reason: ' '\n  until: 2030-01-01\n":         "no reason",
		"- requirement: 0170.run-cancel\n  reason: r\n":                                "YYYY-MM-DD",
		"- requirement: 0170.run-cancel\n  reason: r\n  until: soon\n":                 "YYYY-MM-DD",
		"- requirement: 0170.run-cancel\n  reason: r\n  until: 2030-01-01\n  why: x\n": ": line 4: field why not found",
		"requirement: 0170.run-cancel\n":                                               ": line 1: not a list of entries",
		"- 7\n":                                                                        ": line 1: not a list of entries",
		"{{{":                                                                          "did not find expected",
		"[]\n---\n[]\n":                                                                "more than one document",
		"- requirement: 0170.run-cancel\n  reason: r\n  until: 2030-01-01\n- requirement: openwop.requirement.0170.run-cancel\n  reason: r\n  until: 2030-01-01\n": "listed twice",
	} {
		_, err := Read(list(t, text))
		var refused *Error
		require.ErrorAs(t, err, &refused, text)
		assert.Contains(t, refused.Text, want)
	}
	_, err := Read(filepath.Join(t.TempDir(), "none"))
	require.Error(t, err)
	empty, err := Read(list(t, "# nothing is expected to fail\n"))
	require.NoError(t, err)
	assert.Empty(t, empty)
}

func TestJudge(t *testing.T) {
	t.Parallel()
	expected, err := Read(list(t, `
- {requirement: 0170.run-cancel, reason: being mended, until: 2026-03-04}
- {requirement: events.sequence, reason: being mended, until: 2026-03-04}
- {requirement: runs.snapshot-valid, reason: being mended, until: 2026-03-04}
- {requirement: 0194.terminal-once, reason: being mended, until: 2026-03-04}
- {requirement: runs.list-page-ceiling, reason: being mended, until: 2026-03-03}
- {requirement: 0213.last-event-id-malformed, reason: not in this run, until: 2026-03-04}
`))
	require.NoError(t, err)
	rows := []bundle.Row{
		{ID: string(requirements.R0170RunCancel), Result: bundle.ExecutedFail},
		{ID: string(requirements.EventsSequence), Result: bundle.ExecutedPass},
		{ID: string(requirements.RunsSnapshotValid), Result: bundle.Inapplicable},
		{ID: string(requirements.R0194TerminalOnce), Result: bundle.Blocked},
		{ID: string(requirements.RunsListPageCeiling), Result: bundle.ExecutedFail},
		{ID: string(requirements.EventsBatchFrames), Result: bundle.ExecutedFail},
		{ID: "openwop.scenario.v2-run-cancel", Result: bundle.ExecutedFail},
	}
	got := Judge(expected, rows, time.Date(2026, 3, 4, 23, 59, 59, 0, time.UTC))
	assert.Equal(t, &report.Expectations{
		Expected:   []report.ExpectedFailure{{Requirement: string(requirements.R0170RunCancel), Reason: "being mended", Until: "2026-03-04"}},
		Stale:      []string{string(requirements.EventsSequence), string(requirements.RunsSnapshotValid)},
		Expired:    []string{string(requirements.RunsListPageCeiling)},
		Unexpected: []string{string(requirements.EventsBatchFrames)},
	}, got)
	assert.False(t, got.Hold())
	assert.True(t, Judge(expected[:1], rows[:1], time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC)).Hold())
	assert.False(t, Judge(expected[:1], rows[:1], time.Date(2026, 3, 5, 0, 0, 0, 0, time.UTC)).Hold())
}
