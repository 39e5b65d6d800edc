package report

import (
	"fmt"
	"io"
	"strings"

	"wopcert/bundle"
	"wopcert/harness"
)

// How much of a run a step summary shows; the page has all of it.
const (
	maxListedFailures = 25
	maxListedReasons  = 15
)

// Markdown writes a summary of one screen or two, as the step summary of a build.
func (e *Evidence) Markdown(w io.Writer) error {
	c := e.Results.Certification
	var b strings.Builder
	if e.Rejected() {
		b.WriteString("## :x: The bundle is rejected\n\n")
		for _, r := range e.Bundle.Rejections {
			fmt.Fprintf(&b, "- **%s** %s\n", escape(string(r.Kind)), escape(r.Detail))
		}
	} else {
		fmt.Fprintf(&b, "## %s %s: %s\n\n", icon(c.Verdict), verdictWords(c.Verdict), escape(strings.TrimSpace(c.Host.Name+" "+c.Host.Version+" "+c.Host.URL)))
	}
	for _, p := range c.Profiles {
		if p.Certified {
			fmt.Fprintf(&b, "- :white_check_mark: `%s` certified\n", code(p.ID))
			continue
		}
		fmt.Fprintf(&b, "- :warning: `%s` not certified\n", code(p.ID))
		for _, why := range p.Why {
			fmt.Fprintf(&b, "  - %s\n", escape(why))
		}
	}
	t := c.Totals
	fmt.Fprintf(&b, "\n| passed | failed | blocked | inapplicable | skipped |\n| ---: | ---: | ---: | ---: | ---: |\n| %d | %d | %d | %d | %d |\n",
		t.ExecutedPass, t.ExecutedFail, t.Blocked, t.Inapplicable, t.Skipped)
	if summaries := e.summaries(); summaries > 0 {
		fmt.Fprintf(&b, "\nThese are the rows of %d requirements, and %d that sum up scenarios.\n", len(e.Results.Rows)-summaries, summaries)
	}
	e.markdownFailures(&b)
	e.markdownBlocked(&b)
	for _, note := range c.Notes {
		fmt.Fprintf(&b, "\n> %s\n", escape(note))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (e *Evidence) markdownFailures(b *strings.Builder) {
	shown, all := 0, 0
	for _, row := range e.Rows() {
		if row.Result != bundle.ExecutedFail || row.Summary {
			continue
		}
		if all++; all > maxListedFailures {
			continue
		}
		if shown++; shown == 1 {
			b.WriteString("\n### Failed\n")
		}
		fmt.Fprintf(b, "\n<details><summary><code>%s</code> %s</summary>\n\n", html(row.Short), html(strings.TrimSpace(row.Rule.Level+" "+row.Rule.Document+" § "+row.Rule.Section)))
		if row.Rule.Statement != "" {
			fmt.Fprintf(b, "%s\n\n", escape(row.Rule.Statement))
		}
		if len(row.Failures) == 0 {
			fence(b, Clean(row.Detail))
		}
		for _, f := range row.Failures {
			fence(b, failureLines(f))
		}
		b.WriteString("</details>\n")
	}
	if all > shown {
		fmt.Fprintf(b, "\nand %d more\n", all-shown)
	}
}

func (e *Evidence) markdownBlocked(b *strings.Builder) {
	var order []string
	count := map[string]int{}
	for _, row := range e.Rows() {
		if row.Result == bundle.Blocked && !row.Summary {
			if count[row.Detail]++; count[row.Detail] == 1 {
				order = append(order, row.Detail)
			}
		}
	}
	if len(order) == 0 {
		return
	}
	b.WriteString("\n### Blocked: the suite could not observe these\n\n")
	for i, reason := range order {
		if i == maxListedReasons {
			fmt.Fprintf(b, "- and %d more reasons\n", len(order)-i)
			return
		}
		fmt.Fprintf(b, "- %d rows: %s\n", count[reason], escape(reason))
	}
}

// Annotations writes one workflow command per failure, which GitHub shows beside the build: an error, or a notice
// when the failure is on the list of those expected.
func (e *Evidence) Annotations(w io.Writer) error {
	var b strings.Builder
	command := func(kind, title, text string) {
		fmt.Fprintf(&b, "::%s title=%s::%s\n", kind, property(title), data(text))
	}
	if e.Rejected() {
		for _, r := range e.Bundle.Rejections {
			command("error", "bundle rejected", Clean(string(r.Kind)+": "+r.Detail))
		}
	}
	until := map[string]string{}
	if x := e.Results.Expectations; x != nil {
		for _, f := range x.Expected {
			until[f.Requirement] = f.Until
		}
	}
	for _, row := range e.Rows() {
		switch {
		case row.Summary:
		case row.Result == bundle.ExecutedFail:
			kind, listed := "error", ""
			if day := until[row.ID]; day != "" {
				kind, listed = "notice", "a failure listed until "+Clean(day)+": "
			}
			for _, f := range orDetail(row) {
				command(kind, Clean(row.Short), fmt.Sprintf("%sexpected %s; observed %s (%s)", listed, Clean(f.Expected), Clean(f.Observed), Clean(f.Test)))
			}
		case row.Result == bundle.Blocked:
			command("warning", Clean(row.Short), "blocked: "+Clean(row.Detail))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func orDetail(row Row) []harness.Failure {
	if len(row.Failures) > 0 {
		return row.Failures
	}
	return []harness.Failure{{Expected: "the requirement to hold", Observed: row.Detail, Test: row.Scenario}}
}

func icon(v Verdict) string {
	switch verdictClass(v) {
	case "pass":
		return ":white_check_mark:"
	case "fail":
		return ":x:"
	}
	return ":warning:"
}

// escape makes text stand for itself in Markdown, on one line.
func escape(text string) string {
	text = strings.Join(strings.Fields(Clean(text)), " ")
	return strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;", "|", `\|`, "#", `\#`, "~", `\~`, "@", "&#64;").Replace(text)
}

func html(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(Clean(text))
}

func code(text string) string { return strings.ReplaceAll(Clean(text), "`", "'") }

// fence writes text as a code block that no line of it can end.
func fence(b *strings.Builder, text string) {
	bar := "```"
	for strings.Contains(text, bar) {
		bar += "`"
	}
	fmt.Fprintf(b, "%s\n%s\n%s\n\n", bar, strings.TrimRight(text, "\n"), bar)
}

// property and data escape what a workflow command is made of.
func property(text string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C").Replace(text)
}

func data(text string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(text)
}
