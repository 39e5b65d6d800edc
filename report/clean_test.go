package report

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"

	"wopcert/bundle"
)

func TestCleanLeavesNothingThatMovesTheCursor(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "a\tb\nc é — §", Clean("a\tb\nc é — §"))
	assert.Equal(t, `\u001b[2J\u001b[HSOUND\u000d\u009b\u202e\u0007`, Clean("\x1b[2J\x1b[HSOUND\r\u009b\u202e\a"))
	assert.Equal(t, `\ufffd`, Clean("\xff"))
}

// A rejected bundle cannot paint over its rejection.
func TestVerificationOfAPaintedBundle(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	Verification(&out, "b.json", &bundle.Report{
		BundleVersion: "3", Host: &bundle.Host{Name: "\x1b[2J\x1b[HSOUND  good.json"}, Suite: &bundle.Suite{},
		Rejections: []bundle.Rejection{{Kind: bundle.KindTotals, Detail: "x\x1b[1A"}},
	})
	assert.NotContains(t, out.String(), "\x1b")
	c := Certification{Verdict: Failed, Host: HostFacts{Name: "\x1b[2J"}}
	out.Reset()
	c.Text(&out)
	assert.NotContains(t, out.String(), "\x1b")
}
