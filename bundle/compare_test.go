package bundle_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle"
	"wopcert/bundle/bundletest"
)

// rowsOf builds a bundle with these rows, of a suite of this name.
func rowsOf(suite string, results map[string]bundle.Disposition) []byte {
	b := bundletest.Small()
	b.Suite.Name = suite
	b.Rows = nil
	for id, result := range results {
		if result == bundle.ExecutedPass {
			b.Rows = append(b.Rows, bundletest.Pass(id, "v2-x"))
		} else {
			b.Rows = append(b.Rows, bundletest.NonPass(id, "v2-x", result, "because"))
		}
	}
	return bundletest.TreeOf(bundletest.Signed(b, bundletest.Key("host"))).Bytes()
}

func TestCompareOrdersWhatMatters(t *testing.T) {
	t.Parallel()
	pass, fail, na, blocked := bundle.ExecutedPass, bundle.ExecutedFail, bundle.Inapplicable, bundle.Blocked
	const p = "openwop.requirement."
	a := rowsOf("wopcert", map[string]bundle.Disposition{
		p + "same": pass, p + "regressed": pass, p + "lost": pass, p + "gone": pass, p + "withdrawn": pass, p + "fixed": fail,
		p + "gained": na, p + "changed": na, p + "old-name": pass, p + "failing": blocked, "openwop.scenario.v2-x": fail,
	})
	b := rowsOf("wopcert", map[string]bundle.Disposition{
		p + "same": pass, p + "regressed": fail, p + "lost": blocked, p + "withdrawn": na, p + "fixed": pass,
		p + "gained": pass, p + "changed": blocked, p + "new-name": pass, p + "failing": fail, p + "added": pass, p + "added-bad": fail,
	})
	canonical := func(id string) string {
		if id == p+"old-name" {
			return p + "new-name"
		}
		return id
	}
	c, err := bundle.Compare(a, b, bundle.Options{}, canonical)
	require.NoError(t, err)
	var got []string
	for _, row := range c.Rows {
		got = append(got, string(row.Change)+" "+row.ID[len(p):])
	}
	assert.Equal(t, []string{
		"regressed regressed", "lost gone", "lost lost", "failing added-bad", "failing failing", "withdrawn withdrawn",
		"fixed fixed", "gained gained", "changed changed", "only-in-b added",
	}, got)
	assert.Equal(t, 2, c.Same)
	assert.True(t, c.Worse())
	assert.False(t, c.Equal())

	other, err := bundle.Compare(a, rowsOf("@openwop/openwop-conformance", map[string]bundle.Disposition{p + "same": pass}), bundle.Options{}, nil)
	require.NoError(t, err)
	for _, row := range other.Rows {
		assert.Equal(t, bundle.OnlyInA, row.Change, "another suite need not have the row")
	}
	assert.False(t, other.Worse())
	assert.Contains(t, other.Notes[0], "two suites")
}

func TestCompareReadsDiscovery(t *testing.T) {
	t.Parallel()
	tree := func(change func(document bundletest.Tree)) []byte {
		b := bundletest.TreeOf(bundletest.Signed(bundletest.Small(), bundletest.Key("host")))
		change(b["discovery"].(map[string]any)["document"].(map[string]any))
		return b.Bytes()
	}
	a := tree(func(d bundletest.Tree) { d["extensions"] = map[string]any{"a/b": 1, "gone": true, "list": []any{1, 2}} })
	b := tree(func(d bundletest.Tree) { d["extensions"] = map[string]any{"a/b": 2, "new": "x", "list": []any{1, 3}} })
	c, err := bundle.Compare(a, b, bundle.Options{}, nil)
	require.NoError(t, err)
	assert.Equal(t, []bundle.PathDiff{
		{Path: "/extensions/a~1b", A: "1", B: "2"}, {Path: "/extensions/gone", A: "true"},
		{Path: "/extensions/list", A: "[1,2]", B: "[1,3]"}, {Path: "/extensions/new", B: `"x"`},
	}, c.Discovery)
	assert.False(t, c.A.Sound, "the document is not the one that was digested, and the side says so")
}

func TestCompareRefusesWhatHasNoRows(t *testing.T) {
	t.Parallel()
	whole := bundletest.TreeOf(bundletest.Signed(bundletest.Small(), bundletest.Key("host"))).Bytes()
	for _, text := range []string{"", "{}", `{"bundleVersion":"1"}`, `{"bundleVersion":"3"}`} {
		_, err := bundle.Compare(whole, []byte(text), bundle.Options{}, nil)
		var refused *bundle.NotComparableError
		require.ErrorAs(t, err, &refused, text)
		assert.Equal(t, "B", refused.Which)
		assert.NotEmpty(t, refused.Report.Rejections)
	}
}
