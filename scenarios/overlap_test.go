package scenarios

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle"
	"wopcert/harness"
)

// dualHost serves the discovery document of two majors, and nothing else. It
// is as small as such a host can be: what it does wrong is in the fields.
type dualHost struct {
	versions, preferred string
	defaultMajor        string            // major served without the header
	documents           map[string]string // by the major asked for
	names               map[string]string // OpenWOP-Version by the major served
}

func overlapping() dualHost {
	h := dualHost{versions: `["1.11","2.3"]`, preferred: "1.11", defaultMajor: "1", names: map[string]string{"1": "1.11", "2": "2.3"}}
	h.documents = map[string]string{
		"1": `{"protocolVersion":"1.11","protocolVersions":["1.11","2.3"],"preferredVersion":"1.11",` +
			`"supportedEnvelopes":[],"schemaVersions":{},"limits":{"clarificationRounds":1,"schemaRounds":1,"envelopesPerTurn":1}}`,
		"2": `{"protocolVersion":"1.11","protocolVersions":["1.11","2.3"],"preferredVersion":"1.11"}`,
	}
	return h
}

func (h dualHost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asked, _, _ := strings.Cut(r.Header.Get("OpenWOP-Version"), ".")
	if asked == "" {
		asked = h.defaultMajor
	}
	document, ok := h.documents[asked]
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("OpenWOP-Version", h.names["2"])
	switch {
	case !ok:
		w.WriteHeader(http.StatusNotAcceptable)
		_, _ = w.Write([]byte(`{"error":"protocol_version_unsupported","message":"no","details":{"protocolVersions":` + h.versions + `}}`))
	case r.URL.Path != harness.WellKnown:
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"error":"not_found","message":"nothing else is here"}`))
	default:
		w.Header().Set("OpenWOP-Version", h.names[asked])
		_, _ = w.Write([]byte(strings.ReplaceAll(document, `"preferredVersion":"1.11"`, `"preferredVersion":"`+h.preferred+`"`)))
	}
}

// TestOverlap measures negotiation on a host that speaks both majors: rows
// pass, and each mistake such a host can make fails the row it breaks.
func TestOverlap(t *testing.T) {
	t.Parallel()
	const (
		headerless = "0172.preferred-version-default.headerless"
		overlap    = "0172.preferred-version-default.overlap"
		member     = "0172.preferred-version-default.member"
		honored    = "0172.version-header-honored"
		unlisted   = "0172.dual-stack-negotiation.unlisted-major"
		names      = "0172.dual-stack-negotiation.response-header"
		mismatch   = "0172.dual-stack-negotiation.v1-path-mismatch"
		crossRead  = "0172.dual-stack-negotiation.cross-major-read"
		one        = "0176.well-known-one-resource.v2-representation"
	)
	cases := map[string]struct {
		change func(*dualHost)
		fails  []string
	}{
		"as it should be":                     {func(*dualHost) {}, nil},
		"prefers 2":                           {func(h *dualHost) { h.preferred, h.defaultMajor = "2.3", "2" }, []string{overlap}},
		"prefers what it does not list":       {func(h *dualHost) { h.preferred = "1.12" }, []string{member}},
		"defaults to 2":                       {func(h *dualHost) { h.defaultMajor = "2" }, []string{headerless}},
		"serves the root to everybody":        {func(h *dualHost) { h.documents["1"] = h.documents["2"] }, []string{headerless}},
		"serves the old document under 2":     {func(h *dualHost) { h.documents["2"] = h.documents["1"] }, []string{headerless, honored, one}},
		"names 2 on everything":               {func(h *dualHost) { h.names["1"] = "2.3" }, []string{headerless, names}},
		"names 1 on everything":               {func(h *dualHost) { h.names["2"] = "1.11" }, []string{honored, names}},
		"names a minor it does not list":      {func(h *dualHost) { h.names["2"] = "2.4" }, []string{names}},
		"serves a major it does not list":     {func(h *dualHost) { h.documents["9"] = h.documents["2"]; h.names["9"] = "2.3" }, []string{honored, unlisted}},
		"echoes half the list":                {func(h *dualHost) { h.versions = `["2.3"]` }, []string{unlisted}},
		"echoes the list in another order":    {func(h *dualHost) { h.versions = `["2.3","1.11"]` }, nil},
		"echoes the list with a version more": {func(h *dualHost) { h.versions = `["1.11","2.3","3.0"]` }, []string{unlisted}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := overlapping()
			tc.change(&host)
			server := httptest.NewServer(host)
			defer server.Close()
			results, err := harness.Run(t.Context(), harness.Options{BaseURL: server.URL, Corpus: contract(t),
				Credentials: harness.Credentials{Primary: "any"},
				Scenarios:   []harness.Scenario{preferredVersionDefault(), versionHeaderHonored(), dualStackNegotiation(), wellKnownOneResource()}})
			require.NoError(t, err)
			assert.Empty(t, results.SuiteFaults)
			var failed []string
			for _, row := range results.Rows {
				id, isRequirement := strings.CutPrefix(row.ID, "openwop.requirement.")
				switch {
				case !isRequirement:
				case row.Result == bundle.ExecutedFail:
					failed = append(failed, id)
				case id == names, id == mismatch, id == crossRead: // their runs need a fixture
					assert.Equal(t, bundle.Blocked, row.Result)
				default:
					assert.Equal(t, bundle.ExecutedPass, row.Result, "%s: %s", id, row.Detail)
				}
			}
			assert.ElementsMatch(t, tc.fails, failed)
		})
	}
}
