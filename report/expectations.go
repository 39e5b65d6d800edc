package report

import (
	"fmt"
	"io"
)

// Expectations are what a list of expected failures made of a run. They decide the exit code and never the bundle.
type Expectations struct {
	// Expected are failures that are listed.
	Expected []ExpectedFailure `json:"expected"`
	// Stale are listed requirements that do not fail; their entries have to go.
	Stale []string `json:"stale"`
	// Expired are listed requirements whose last day is over.
	Expired []string `json:"expired"`
	// Unexpected are failures that are not listed.
	Unexpected []string `json:"unexpected"`
}

// ExpectedFailure is an entry of the list.
type ExpectedFailure struct {
	Requirement string `json:"requirement"`
	Reason      string `json:"reason"`
	Until       string `json:"until"`
}

// Hold reports whether the failures are those listed, and the list holds nothing else.
func (e *Expectations) Hold() bool { return len(e.Stale)+len(e.Expired)+len(e.Unexpected) == 0 }

func (e *Expectations) text(w io.Writer) {
	fmt.Fprintf(w, "\nexpected failures: %d of those listed\n", len(e.Expected))
	for _, f := range e.Expected {
		fmt.Fprintf(w, "  %s, until %s: %s\n", short(f.Requirement), f.Until, cut(f.Reason, screenDetail))
	}
	for _, group := range []struct {
		title string
		ids   []string
	}{
		{"stale: these do not fail any more; take them off the list", e.Stale},
		{"expired: the last day of these is over", e.Expired},
		{"unexpected: these fail and are not listed", e.Unexpected},
	} {
		if len(group.ids) > 0 {
			fmt.Fprintf(w, "%s\n", group.title)
		}
		for _, id := range group.ids {
			fmt.Fprintf(w, "  %s\n", short(id))
		}
	}
}
