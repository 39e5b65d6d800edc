package requirements

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fixture is a small set of tables without a defect.
func fixture() sources {
	return sources{
		registry: []byte(`[{"id":"openwop.requirement.0170.new","level":"MUST","document":"runs.md","section":"Cancel",
			"witness":"witnessable-unaided","statement":"A host does it.","scenario":"v2-run-cancel","family":""},
			{"id":"openwop.requirement.runs.other","level":"SHOULD","document":"runs.md","section":"List",
			"witness":"witnessable-gated","statement":"A host does the other.","scenario":"v2-run-list","family":"runList"}]`),
		aliases: []byte(`[{"from":"openwop.requirement.0170.oldest","to":"openwop.requirement.0170.old","since":"1.1.0","why":"It was split."},
			{"from":"openwop.requirement.0170.old","to":"openwop.requirement.0170.new","since":"1.2.0","why":"It was joined again."}]`),
		lock: []byte("openwop.requirement.0170.new\nopenwop.requirement.0170.old\nopenwop.requirement.0170.oldest\nopenwop.requirement.runs.other\n"),
		obligations: []byte(obligationColumns + "\n" +
			"runs#cancel.1\truns.md\tCancel\tMAY\t\tpermission\tIt is free to.\n" +
			"runs#cancel.2\truns.md\tCancel\tMUST\t0170.new\t\t\n" +
			"runs#cancel.3\truns.md\tCancel\tMUST NOT\t\t\t\n"),
		beyond:   []byte("requirement\twhy\nruns.other\tNo sentence says so.\n"),
		upstream: []byte("openwop.requirement.0170.new\nopenwop.requirement.0171.else\n"),
	}
}

func TestFixtureReads(t *testing.T) {
	t.Parallel()
	tab, err := read(fixture())
	require.NoError(t, err)
	assert.Len(t, tab.requirements, 2)
	assert.Equal(t, &Reason{Kind: "permission", Text: "It is free to."}, tab.obligations[0].Reason)
	assert.Equal(t, []ID{"openwop.requirement.0170.new"}, tab.obligations[1].Requirements)
	assert.Nil(t, tab.obligations[2].Reason)
	assert.Empty(t, tab.obligations[2].Requirements)
	for _, name := range []string{"0170.oldest", "openwop.requirement.0170.old", "0170.new"} {
		id, ok := tab.resolve(name)
		assert.True(t, ok)
		assert.Equal(t, ID("openwop.requirement.0170.new"), id)
	}
}

// TestDefects breaks one thing in the tables at a time.
func TestDefects(t *testing.T) {
	t.Parallel()
	registry := func(s *sources) *[]byte { return &s.registry }
	aliases := func(s *sources) *[]byte { return &s.aliases }
	lock := func(s *sources) *[]byte { return &s.lock }
	obligations := func(s *sources) *[]byte { return &s.obligations }
	beyond := func(s *sources) *[]byte { return &s.beyond }
	upstream := func(s *sources) *[]byte { return &s.upstream }
	cases := []struct {
		name     string
		table    func(*sources) *[]byte
		old, new string
		want     string
	}{
		{"unknown member", registry, `"family":""`, `"family":"","owner":"x"`, "unknown field"},
		{"two values", registry, `"family":"runList"}]`, `"family":"runList"}] []`, "more after the first JSON value"},
		{"missing member", registry, `"section":"Cancel",`, ``, "section"},
		{"id out of grammar", registry, "0170.new", "0170.New", "does not match"},
		{"id without area", registry, "0170.new", "", "does not match"},
		{"id twice", registry, "runs.other", "0170.new", "in an earlier row"},
		{"level", registry, `"MUST"`, `"must"`, `level "must"`},
		{"document", registry, `runs.md`, `run.md`, `document "run.md"`},
		{"witness", registry, "witnessable-unaided", "unwitnessable", "witness class"},
		{"no full stop", registry, "does it.", "does it", "full stop"},
		{"scenario", registry, "v2-run-cancel", "run-cancel", "scenario"},
		{"family", registry, "runList", "run.list", "family"},
		{"family of an unaided one", registry, "witnessable-gated", "witnessable-unaided", "gates"},
		{"alias unknown member", aliases, `"since"`, `"when":"","since"`, "unknown field"},
		{"alias without why", aliases, "It was split.", "", "why is empty"},
		{"alias without since", aliases, `"1.1.0"`, `""`, "since is empty"},
		{"alias out of grammar", aliases, `"from":"openwop.requirement.0170.oldest"`, `"from":"0170.oldest"`, "have to match"},
		{"alias points nowhere", aliases, `"to":"openwop.requirement.0170.new"`, `"to":"openwop.requirement.0170.gone"`, "does not hold"},
		{"alias loop", aliases, `"to":"openwop.requirement.0170.new"`, `"to":"openwop.requirement.0170.oldest"`, "loop"},
		{"alias of itself", aliases, `"to":"openwop.requirement.0170.new"`, `"to":"openwop.requirement.0170.old"`, "loop"},
		{"alias of a registered id", aliases, `"from":"openwop.requirement.0170.oldest"`, `"from":"openwop.requirement.runs.other"`, "still in registry.json"},
		{"alias twice", aliases, `"from":"openwop.requirement.0170.oldest"`, `"from":"openwop.requirement.0170.old"`, "earlier row already"},
		{"alias of an unpublished id", lock, "openwop.requirement.0170.oldest\n", "", "never published"},
		{"renamed without alias", aliases, `{"from":"openwop.requirement.0170.oldest","to":"openwop.requirement.0170.old","since":"1.1.0","why":"It was split."},`, "", "add a row to aliases.json"},
		{"id not in the lock", lock, "openwop.requirement.runs.other\n", "", "not in ids.lock"},
		{"lock out of order", lock, "openwop.requirement.0170.new\nopenwop.requirement.0170.old\n", "openwop.requirement.0170.old\nopenwop.requirement.0170.new\n", "out of order"},
		{"lock with a foreign line", lock, "openwop.requirement.0170.oldest\n", "# a comment\n", "does not match"},
		{"lock not ended", lock, "runs.other\n", "runs.other", "not ended"},
		{"obligation heading", obligations, "id\tdocument", "document\tid", "heading"},
		{"obligation columns", obligations, "\tCancel\tMUST\t", "\tCancel MUST\t", "columns"},
		{"obligation twice", obligations, "runs#cancel.3", "runs#cancel.2", "in an earlier row"},
		{"obligation id", obligations, "runs#cancel.3", "runs-cancel-3", "does not match"},
		{"obligation of another document", obligations, "runs#cancel.3", "events#cancel.3", "document's name"},
		{"obligation level", obligations, "MUST NOT", "NEVER", "level"},
		{"obligation of an unknown requirement", obligations, "0170.new", "0170.newer", "does not hold"},
		{"obligation of an alias", obligations, "0170.new", "0170.old", "does not hold"},
		{"obligation with both", obligations, "0170.new\t\t", "0170.new\tsuite\tIt is here.", "exclude each other"},
		{"requirement twice in one", obligations, "0170.new", "0170.new 0170.new", "listed twice"},
		{"reason without text", obligations, "It is free to.", "", "reason is empty"},
		{"reason without kind", obligations, "permission", "", "kind of reason"},
		{"reason of unknown kind", obligations, "permission", "later", "kind of reason"},
		{"permission of a MUST", obligations, "\tMUST NOT\t\t\t", "\tMUST NOT\t\tpermission\tIt is free to.", "no permission"},
		{"padded cell", obligations, "It is free to.", "It is free to. ", "padded"},
		{"requirement nobody refers to", beyond, "runs.other\tNo sentence says so.\n", "", "no obligation refers to"},
		{"beyond an unknown requirement", beyond, "runs.other", "runs.another", "does not hold"},
		{"beyond a referred one", beyond, "runs.other\tNo", "0170.new\tNo sentence says so.\nruns.other\tNo", "remove its row"},
		{"beyond twice", beyond, "runs.other\tNo", "runs.other\tNo sentence says so.\nruns.other\tNo", "there twice"},
		{"beyond without why", beyond, "No sentence says so.", "", "why is empty"},
		{"upstream twice", upstream, "0171.else", "0170.new", "there twice"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			src := fixture()
			table := c.table(&src)
			require.Contains(t, string(*table), c.old)
			*table = bytes.Replace(*table, []byte(c.old), []byte(c.new), 1)
			_, err := read(src)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestEmptyTablesAreRefused(t *testing.T) {
	t.Parallel()
	_, err := read(sources{})
	for _, name := range []string{"registry.json", "aliases.json", "ids.lock", "obligations.tsv", "beyond.tsv", "upstream-ids.txt"} {
		assert.ErrorContains(t, err, name)
	}
}
