package bundle

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Comparison is what differs between two bundles, what matters first. It says nothing of a row that is the same.
type Comparison struct {
	A        Side            `json:"a"`
	B        Side            `json:"b"`
	Profiles []ProfileChange `json:"profiles"`
	// Rows are the requirement rows that differ. Summary rows of scenarios follow from them and are left out.
	Rows      []RowChange `json:"rows"`
	Discovery []PathDiff  `json:"discovery"`
	// DiscoveryMore counts the differences beyond those listed.
	DiscoveryMore int `json:"discoveryMore,omitempty"`
	// Same counts the rows that both have with one result.
	Same  int      `json:"same"`
	Notes []string `json:"notes"`
}

// Side is one of the two bundles, as far as a comparison needs it.
type Side struct {
	Suite       Suite       `json:"suite"`
	Host        Host        `json:"host"`
	GeneratedAt string      `json:"generatedAt"`
	URL         string      `json:"url"`
	Totals      Totals      `json:"totals"`
	Sound       bool        `json:"sound"`
	Attribution Attribution `json:"attribution"`
	Rejections  []Rejection `json:"rejections"`
}

// ProfileChange is a profile that one bundle certifies and the other does not, or only one claims. An empty text says
// that the bundle does not claim it.
type ProfileChange struct {
	ID string `json:"id"`
	A  string `json:"a"` // "certified", "not certified", ""
	B  string `json:"b"`
}

// Change says what has become of a row from A to B.
type Change string

// The changes, the one that matters most first.
const (
	Regressed Change = "regressed" // executed-pass became executed-fail
	Lost      Change = "lost"      // was observed, and is blocked or skipped, or not there although B's suite has it
	Withdrawn Change = "withdrawn" // was observed, and does not bind the host any more
	Failing   Change = "failing"   // new in B, and failed
	Fixed     Change = "fixed"     // executed-fail became executed-pass
	Gained    Change = "gained"    // was not observed, and is executed-pass
	Changed   Change = "changed"   // another result, of no better and no worse kind
	OnlyInA   Change = "only-in-a" // B's suite lacks the requirement
	OnlyInB   Change = "only-in-b" // A's suite lacks the requirement
)

func changes() []Change {
	return []Change{Regressed, Lost, Failing, Withdrawn, Fixed, Gained, Changed, OnlyInA, OnlyInB}
}

// Worse reports whether the change is one to the worse.
func (c Change) Worse() bool { return c == Regressed || c == Lost || c == Failing || c == Withdrawn }

// RowChange is a requirement row that differs. An empty result says that the bundle has no such row.
type RowChange struct {
	ID      string      `json:"id"`
	Change  Change      `json:"change"`
	A       Disposition `json:"a"`
	B       Disposition `json:"b"`
	DetailA string      `json:"detailA,omitempty"`
	DetailB string      `json:"detailB,omitempty"`
}

// PathDiff is one difference of the discovery documents: a JSON Pointer and the values as compact JSON, "" for none.
type PathDiff struct {
	Path string `json:"path"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// NotComparableError says that a file is no bundle of version 3, so that there are no rows to compare.
type NotComparableError struct {
	Which  string // "A" or "B"
	Report *Report
}

func (e *NotComparableError) Error() string {
	return fmt.Sprintf("%s cannot be compared: %s", e.Which, e.Report.Rejections[0].Detail)
}

// maxPathDiffs bounds the listed differences of the discovery documents, and maxPathValue the text of one value.
const (
	maxPathDiffs = 200
	maxPathValue = 200
)

// Compare says what differs between two bundles of version 3. canonical gives the present id of a requirement that has
// been renamed, and the id itself for any other; nil renames nothing. Bundles that the verifier rejects are compared
// all the same when their rows can be read, and the sides say that they were rejected.
func Compare(a, b []byte, opts Options, canonical func(id string) string) (*Comparison, error) {
	c := &Comparison{Profiles: []ProfileChange{}, Rows: []RowChange{}, Discovery: []PathDiff{}, Notes: []string{}}
	if canonical == nil {
		canonical = func(id string) string { return id }
	}
	var parsedOf [2]*parsed
	var reports [2]*Report
	for i, data := range [][]byte{a, b} {
		report, p := verify(data, opts)
		if p == nil || hasSecret(report) {
			return nil, &NotComparableError{Which: string("AB"[i]), Report: report}
		}
		parsedOf[i], reports[i] = p, report
	}
	c.A, c.B = sideOf(parsedOf[0], reports[0]), sideOf(parsedOf[1], reports[1])
	c.compareProfiles(reports[0], reports[1])
	c.compareRows(&parsedOf[0].Bundle, &parsedOf[1].Bundle, canonical)
	c.compareDiscovery(parsedOf[0].document, parsedOf[1].document)
	if c.A.Suite.Name != c.B.Suite.Name {
		c.note("two suites: %s %s and %s %s", c.A.Suite.Name, c.A.Suite.Version, c.B.Suite.Name, c.B.Suite.Version)
	}
	if c.A.Suite.SpecArtifactsVersion != c.B.Suite.SpecArtifactsVersion {
		c.note("two contract versions: %s and %s", c.A.Suite.SpecArtifactsVersion, c.B.Suite.SpecArtifactsVersion)
	}
	return c, nil
}

func hasSecret(r *Report) bool {
	return slices.ContainsFunc(r.Rejections, func(j Rejection) bool { return j.Kind == KindSecret })
}

func (c *Comparison) note(format string, args ...any) {
	c.Notes = append(c.Notes, fmt.Sprintf(format, args...))
}

// Worse reports whether a profile is no longer certified, or a row has become worse.
func (c *Comparison) Worse() bool {
	return slices.ContainsFunc(c.Rows, func(r RowChange) bool { return r.Change.Worse() }) ||
		slices.ContainsFunc(c.Profiles, func(p ProfileChange) bool { return p.A == "certified" && p.B != "certified" })
}

// Equal reports whether nothing differs that a bundle is for.
func (c *Comparison) Equal() bool {
	return len(c.Rows) == 0 && len(c.Profiles) == 0 && len(c.Discovery) == 0
}

func sideOf(p *parsed, r *Report) Side {
	s := Side{
		Suite: p.Suite, Host: p.Host, GeneratedAt: p.GeneratedAt, URL: p.Discovery.URL,
		Sound: r.Sound, Attribution: r.Attribution, Rejections: r.Rejections,
	}
	for _, row := range p.Results.Requirements {
		s.Totals.Add(row.Result)
	}
	return s
}

func (c *Comparison) compareProfiles(a, b *Report) {
	states := func(r *Report) map[string]string {
		out := map[string]string{}
		for _, p := range r.Profiles {
			out[p.ID] = "not certified"
			if p.Certified {
				out[p.ID] = "certified"
			}
		}
		return out
	}
	before, after := states(a), states(b)
	for _, r := range []*Report{a, b} {
		for _, p := range r.Profiles {
			change := ProfileChange{ID: p.ID, A: before[p.ID], B: after[p.ID]}
			if change.A != change.B && !slices.Contains(c.Profiles, change) {
				c.Profiles = append(c.Profiles, change)
			}
		}
	}
}

func (c *Comparison) compareRows(a, b *Bundle, canonical func(string) string) {
	rowsA, rowsB := requirementRows(a, canonical), requirementRows(b, canonical)
	sameSuite := a.Suite.Name == b.Suite.Name
	for id, row := range rowsA {
		other, both := rowsB[id]
		if both && other.Result == row.Result {
			c.Same++
			continue
		}
		change := RowChange{ID: id, A: row.Result, B: other.Result, DetailA: row.Detail, DetailB: other.Detail}
		change.Change = change.kind(both, sameSuite)
		c.Rows = append(c.Rows, change)
	}
	for id, row := range rowsB {
		if _, both := rowsA[id]; !both {
			change := RowChange{ID: id, B: row.Result, DetailB: row.Detail, Change: OnlyInB}
			if row.Result == ExecutedFail {
				change.Change = Failing
			}
			c.Rows = append(c.Rows, change)
		}
	}
	order := changes()
	slices.SortFunc(c.Rows, func(x, y RowChange) int {
		return cmp.Or(cmp.Compare(slices.Index(order, x.Change), slices.Index(order, y.Change)), strings.Compare(x.ID, y.ID))
	})
}

// requirementRows are the rows of requirements under their present ids; sums of scenarios are none.
func requirementRows(b *Bundle, canonical func(string) string) map[string]Row {
	rows := make(map[string]Row, len(b.Results.Requirements))
	for _, row := range b.Results.Requirements {
		if !strings.HasPrefix(row.ID, "openwop.scenario.") && !strings.HasPrefix(row.ID, "openwop.floor.") {
			rows[canonical(row.ID)] = row
		}
	}
	return rows
}

func (r RowChange) kind(both, sameSuite bool) Change {
	switch {
	case !both && sameSuite && r.A == ExecutedPass:
		return Lost
	case !both:
		return OnlyInA
	case r.A == ExecutedPass && r.B == ExecutedFail:
		return Regressed
	case r.A == ExecutedPass && r.B == Inapplicable:
		return Withdrawn
	case r.A == ExecutedPass:
		return Lost
	case r.A == ExecutedFail && r.B == ExecutedPass:
		return Fixed
	case r.B == ExecutedPass:
		return Gained
	case r.B == ExecutedFail:
		return Failing
	}
	return Changed
}

// compareDiscovery walks both documents. A document that was not captured has nothing to compare.
func (c *Comparison) compareDiscovery(a, b map[string]any) {
	if a == nil || b == nil {
		c.note("a discovery document was not captured whole; the documents are not compared")
		return
	}
	walkDiff("", a, b, func(path string, x, y any, hasX, hasY bool) {
		if len(c.Discovery) == maxPathDiffs {
			c.DiscoveryMore++
			return
		}
		c.Discovery = append(c.Discovery, PathDiff{Path: path, A: compact(x, hasX), B: compact(y, hasY)})
	})
}

func walkDiff(path string, a, b any, differ func(path string, a, b any, hasA, hasB bool)) {
	objectA, okA := a.(map[string]any)
	objectB, okB := b.(map[string]any)
	if !okA || !okB {
		if !sameJSON(a, b) {
			differ(path, a, b, true, true)
		}
		return
	}
	names := make([]string, 0, len(objectA)+len(objectB))
	for name := range objectA {
		names = append(names, name)
	}
	for name := range objectB {
		if _, both := objectA[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		x, hasX := objectA[name]
		y, hasY := objectB[name]
		below := path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		if hasX && hasY {
			walkDiff(below, x, y, differ)
		} else {
			differ(below, x, y, hasX, hasY)
		}
	}
}

func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// compact is a value as JSON on one line, cut where it is long, "" for no value.
func compact(v any, has bool) string {
	if !has {
		return ""
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return clip(string(text), maxPathValue)
}
