package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"wopcert/bundle"
	"wopcert/requirements"
)

//go:embed assets/diff.html.tmpl
var diffText string

// heading is what a change is called above its rows.
func heading(change bundle.Change) string {
	return map[bundle.Change]string{
		bundle.Regressed: "passed in A, fails in B",
		bundle.Lost:      "observed in A, no longer observed in B",
		bundle.Failing:   "fails in B, and did not in A",
		bundle.Withdrawn: "passed in A, does not bind the host of B",
		bundle.Fixed:     "failed in A, passes in B",
		bundle.Gained:    "passes in B, and was not observed in A",
		bundle.Changed:   "another result, no better and no worse",
		bundle.OnlyInA:   "requirements that only the suite of A has",
		bundle.OnlyInB:   "requirements that only the suite of B has",
	}[change]
}

// Comparison writes what differs between two bundles, for a person.
func Comparison(w io.Writer, nameA, nameB string, c *bundle.Comparison) {
	w = cleaner{w}
	side(w, "A", nameA, c.A)
	side(w, "B", nameB, c.B)
	for _, note := range c.Notes {
		fmt.Fprintf(w, "   %s\n", note)
	}
	if c.Equal() {
		fmt.Fprintf(w, "\nno difference in %d rows, in the profiles and in discovery\n", c.Same)
		return
	}
	if len(c.Profiles) > 0 {
		fmt.Fprintln(w, "\nprofiles")
		for _, p := range c.Profiles {
			fmt.Fprintf(w, "  %-32s %s -> %s\n", p.ID, orNotClaimed(p.A), orNotClaimed(p.B))
		}
	}
	var last bundle.Change
	for _, row := range c.Rows {
		if row.Change != last {
			fmt.Fprintf(w, "\n%s (%d)\n", heading(row.Change), count(c.Rows, row.Change))
			last = row.Change
		}
		fmt.Fprintf(w, "  %s  %s\n", short(row.ID), arrow(row))
		if detail := why(row); detail != "" {
			fmt.Fprintf(w, "    %s\n", detail)
		}
	}
	if len(c.Discovery) > 0 {
		fmt.Fprintf(w, "\ndiscovery (%d)\n", len(c.Discovery)+c.DiscoveryMore)
		for _, d := range c.Discovery {
			fmt.Fprintf(w, "  %s  %s -> %s\n", d.Path, orNone([]string{d.A}), orNone([]string{d.B}))
		}
		if c.DiscoveryMore > 0 {
			fmt.Fprintf(w, "  and %d more\n", c.DiscoveryMore)
		}
	}
	fmt.Fprintf(w, "\n%d rows have one result in both\n", c.Same)
}

func side(w io.Writer, letter, name string, s bundle.Side) {
	sound := "sound, " + string(s.Attribution)
	if !s.Sound {
		sound = "REJECTED: " + s.Rejections[0].Detail
	}
	fmt.Fprintf(w, "%s  %s\n   %s %s (%s:%s), by %s %s on contract %s, %s\n", letter, name, s.Host.Name, s.Host.Version,
		s.Host.Build.Kind, s.Host.Build.ID, s.Suite.Name, s.Suite.Version, s.Suite.SpecArtifactsVersion, sound)
}

func count(rows []bundle.RowChange, change bundle.Change) (n int) {
	for _, row := range rows {
		if row.Change == change {
			n++
		}
	}
	return n
}

func short(id string) string { return strings.TrimPrefix(id, requirements.Prefix) }

func arrow(row bundle.RowChange) string {
	switch {
	case row.B == "":
		return string(row.A)
	case row.A == "":
		return string(row.B)
	}
	return string(row.A) + " -> " + string(row.B)
}

// why is the detail that explains the change: B's, or A's where only A has any.
func why(row bundle.RowChange) string {
	detail := row.DetailB
	if detail == "" && row.Change != bundle.Fixed && row.Change != bundle.Gained {
		detail = row.DetailA
	}
	line, _, _ := strings.Cut(detail, "\n")
	if len(line) > 300 {
		line = strings.ToValidUTF8(line[:300], "") + "…"
	}
	return line
}

func orNotClaimed(state string) string {
	if state == "" {
		return "not claimed"
	}
	return state
}

// ComparisonHTML writes the comparison as one page that needs nothing else.
func ComparisonHTML(w io.Writer, nameA, nameB string, c *bundle.Comparison) error {
	t, err := template.New("diff").Funcs(template.FuncMap{
		"clean": Clean, "short": short, "claimed": orNotClaimed, "why": func(r bundle.RowChange) string { return Clean(why(r)) },
		"class":     func(d bundle.Disposition) string { class, _ := classOf(d); return class },
		"label":     func(d bundle.Disposition) string { _, label := classOf(d); return label },
		"statement": statement,
	}).Parse(diffText)
	if err != nil {
		return err
	}
	type group struct {
		Heading string
		Worse   bool
		Rows    []bundle.RowChange
	}
	var groups []group
	for i, row := range c.Rows {
		if i == 0 || row.Change != c.Rows[i-1].Change {
			groups = append(groups, group{heading(row.Change), row.Change.Worse(), nil})
		}
		last := &groups[len(groups)-1]
		last.Rows = append(last.Rows, row)
	}
	return t.Execute(w, map[string]any{
		"C": c, "Sides": []map[string]any{{"Letter": "A", "Name": nameA, "Side": c.A}, {"Letter": "B", "Name": nameB, "Side": c.B}},
		"Groups": groups, "Worse": c.Worse(), "Equal": c.Equal(),
		"Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'unsafe-inline'", "Style": template.CSS(pageStyle),
	})
}

func statement(id string) string {
	if known, ok := requirements.Resolve(id); ok {
		r, _ := requirements.Get(known)
		return r.Statement
	}
	return ""
}
