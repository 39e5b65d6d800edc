package doctor

import (
	"fmt"
	"io"
	"strings"

	"wopcert/report"
)

// Text writes the answer for a person: a line for each check, and below it what to do.
func (r *Report) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s", strings.ToUpper(string(r.Verdict)), r.URL)
	if r.Host != "" {
		fmt.Fprintf(&b, "  %s", r.Host)
	}
	b.WriteString("\n\n")
	for _, c := range r.Checks {
		fmt.Fprintf(&b, "%-8s %-11s %s", c.State, c.Name, c.Found)
		switch {
		case c.Millis > 0:
			fmt.Fprintf(&b, " (%.1f ms)", c.Millis)
		case c.Rows > 0:
			fmt.Fprintf(&b, " (%s)", rows(c.Rows))
		}
		b.WriteByte('\n')
		if c.Do != "" {
			fmt.Fprintf(&b, "%21s→ %s\n", "", c.Do)
		}
	}
	if r.Rows != nil {
		fmt.Fprintf(&b, "\nof the rows, %d can be observed, %d would be blocked, %d do not bind this host, %d are opted out of; a run may find more\n",
			r.Rows.Observable, r.Rows.Blocked, r.Rows.Inapplicable, r.Rows.Skipped)
	}
	_, err := io.WriteString(w, report.Clean(b.String()))
	return err
}

func rows(n int) string {
	if n == 1 {
		return "1 row"
	}
	return fmt.Sprintf("%d rows", n)
}

// list is a list for a sentence.
func list(values []string) string {
	if len(values) == 0 {
		return "nothing"
	}
	return strings.Join(values, ", ")
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}
