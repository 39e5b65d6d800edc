package requirements

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEmbeddedTablesHold(t *testing.T) {
	t.Parallel()
	require.NoError(t, Load())
	assert.NotEmpty(t, All())
	assert.NotEmpty(t, Obligations())
	assert.Len(t, UpstreamIDs(), 274)
}

func TestGet(t *testing.T) {
	t.Parallel()
	r, ok := Get(R0170RunCancel)
	require.True(t, ok)
	assert.Equal(t, R0170RunCancel, r.ID)
	assert.Equal(t, "runs.md", r.Document)
	assert.Equal(t, "v2-run-cancel", r.Scenario)
	_, ok = Get("openwop.requirement.0170.no-such")
	assert.False(t, ok)
	_, ok = Get("0170.run-cancel")
	assert.False(t, ok, "Get takes whole ids")
}

func TestResolve(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]ID{
		"openwop.requirement.0170.run-cancel": R0170RunCancel,
		"0170.run-cancel":                     R0170RunCancel,
		"events.sequence":                     EventsSequence,
	} {
		id, ok := Resolve(name)
		assert.True(t, ok, name)
		assert.Equal(t, want, id)
	}
	for _, name := range []string{"", "run-cancel", "openwop.requirement.", "openwop.floor.v2-run-cancel", "R0170RunCancel"} {
		_, ok := Resolve(name)
		assert.False(t, ok, name)
	}
}

func TestWhatIsReturnedIsACopy(t *testing.T) {
	t.Parallel()
	All()[0].Statement = "changed"
	assert.NotEqual(t, "changed", All()[0].Statement)
	first := slices.IndexFunc(Obligations(), func(o Obligation) bool { return o.Reason != nil })
	Obligations()[first].Reason.Text = "changed"
	assert.NotEqual(t, "changed", Obligations()[first].Reason.Text)
	mapped := slices.IndexFunc(Obligations(), func(o Obligation) bool { return len(o.Requirements) > 0 })
	Obligations()[mapped].Requirements[0] = "changed"
	assert.NotEqual(t, ID("changed"), Obligations()[mapped].Requirements[0])
}

// TestSameRequirementSameID looks at every numbered id: a number names a
// proposal of the specification, so that an id under it was minted there.
func TestSameRequirementSameID(t *testing.T) {
	t.Parallel()
	for _, r := range All() {
		area, _, _ := strings.Cut(strings.TrimPrefix(string(r.ID), Prefix), ".")
		if area[0] >= '0' && area[0] <= '9' {
			assert.Contains(t, UpstreamIDs(), string(r.ID))
		} else {
			assert.Equal(t, area+".md", r.Document, "the area of %s", r.ID)
		}
	}
}

// shared returns the rows of a tab-separated file of the reference material
// beside the module, without its heading.
func shared(t *testing.T, path ...string) [][]string {
	t.Helper()
	f, err := os.Open(filepath.Join(append([]string{"..", "..", "shared"}, path...)...))
	if os.IsNotExist(err) {
		t.Skip("the reference material is not here")
	}
	require.NoError(t, err)
	defer f.Close()
	var rows [][]string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		rows = append(rows, strings.Split(lines.Text(), "\t"))
	}
	require.NoError(t, lines.Err())
	require.Greater(t, len(rows), 1)
	return rows[1:]
}

func TestUpstreamIDsAreThePublishedOnes(t *testing.T) {
	t.Parallel()
	scenarios := map[string]string{}
	for _, row := range shared(t, "upstream", "requirement-ids.tsv") {
		if strings.HasPrefix(row[0], Prefix) {
			scenarios[row[0]] = row[1]
		}
	}
	var want []string
	for id := range scenarios {
		want = append(want, id)
	}
	slices.Sort(want)
	assert.Equal(t, want, UpstreamIDs())
	for _, r := range All() {
		if scenario, ok := scenarios[string(r.ID)]; ok {
			assert.Equal(t, scenario, r.Scenario, "the scenario of %s", r.ID)
		}
	}
}

func TestObligationsAreTheListedOnes(t *testing.T) {
	t.Parallel()
	rows := shared(t, "spec", "obligations.tsv")
	var want, got []string
	for _, row := range rows {
		want = append(want, strings.Join(row[:4], " | "))
	}
	for _, o := range Obligations() {
		got = append(got, strings.Join([]string{o.ID, o.Document, o.Section, o.Level}, " | "))
	}
	assert.Equal(t, want, got)
}
