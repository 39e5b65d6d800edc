// Package report renders results for people and for programs, all from one
// model, so that no two outputs can disagree.
package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"wopcert/bundle"
	"wopcert/harness"
)

// Verdict is the answer of a certification in one word.
type Verdict string

// The verdicts.
const (
	Certified    Verdict = "certified"     // every profile asked for is certified
	Passed       Verdict = "passed"        // a part of the suite was selected and all of it passed; nothing is certified
	NotCertified Verdict = "not-certified" // nothing failed, but a profile asked for is not certified
	Failed       Verdict = "failed"        // at least one requirement failed
	Incomplete   Verdict = "incomplete"    // nothing failed, but rows are blocked or nothing was observed
	SuiteFault   Verdict = "suite-fault"   // the suite itself is defective; nothing is certified
)

// Certification is the result of one run.
type Certification struct {
	Verdict     Verdict           `json:"verdict"`
	Profiles    []Profile         `json:"profiles"`
	Totals      bundle.Totals     `json:"totals"`
	Out         string            `json:"out"`
	DurationMs  int64             `json:"durationMs"`
	Failures    []harness.Failure `json:"failures"`
	Blocked     []Reason          `json:"blocked"`
	Partial     []Reason          `json:"partial"`
	Notes       []string          `json:"notes"`
	Host        HostFacts         `json:"host"`
	Attribution string            `json:"attribution"`
	Interrupted bool              `json:"interrupted"`
	LongestMs   int64             `json:"longestTestMs"`
	SuiteFaults []string          `json:"suiteFaults,omitempty"`
}

// HostFacts names the host that was measured.
type HostFacts struct {
	URL     string `json:"url"`
	Name    string `json:"name"`
	Version string `json:"version"`
	Build   string `json:"build"`
}

// Profile is one profile the host's discovery document claims, or one the
// operator asked for.
type Profile struct {
	ID           string   `json:"id"`
	Certified    bool     `json:"certified"`
	WitnessCount int      `json:"witnessCount"`
	Why          []string `json:"why"` // reasons it is not certified
}

// Reason is a row and why it is what it is.
type Reason struct {
	Requirement string `json:"requirement"`
	Scenario    string `json:"scenario"`
	Reason      string `json:"reason"`
}

// Text writes the certification for a person.
func (c *Certification) Text(w io.Writer) {
	w = cleaner{w}
	fmt.Fprintf(w, "%s  %s", strings.ToUpper(string(c.Verdict)), c.Host.URL)
	if c.Host.Name != "" {
		fmt.Fprintf(w, "  %s %s", c.Host.Name, c.Host.Version)
	}
	fmt.Fprintln(w)
	for _, p := range c.Profiles {
		if p.Certified {
			fmt.Fprintf(w, "  certified      %s (%d floor scenarios witnessed)\n", p.ID, p.WitnessCount)
			continue
		}
		fmt.Fprintf(w, "  not certified  %s\n", p.ID)
		for _, why := range p.Why {
			fmt.Fprintf(w, "                 %s\n", why)
		}
	}
	t := c.Totals
	fmt.Fprintf(w, "  rows: %d passed, %d failed, %d blocked, %d inapplicable, %d skipped in %s\n",
		t.ExecutedPass, t.ExecutedFail, t.Blocked, t.Inapplicable, t.Skipped,
		(time.Duration(c.DurationMs) * time.Millisecond).Round(10*time.Millisecond))
	c.failures(w)
	reasons(w, "blocked: the suite could not observe these", c.Blocked)
	reasons(w, "partial: recommendations not followed, or legs that do not bind this host", c.Partial)
	for _, f := range c.SuiteFaults {
		fmt.Fprintf(w, "\nsuite fault: %s\n", f)
	}
	for _, n := range c.Notes {
		fmt.Fprintf(w, "\nnote: %s", n)
	}
	if len(c.Notes) > 0 {
		fmt.Fprintln(w)
	}
	if c.Out != "" {
		attribution := c.Attribution
		if attribution == "" {
			attribution = "no bundle"
		}
		fmt.Fprintf(w, "\nevidence: %s (%s)\n", c.Out, attribution)
	}
}

func (c *Certification) failures(w io.Writer) {
	for _, f := range c.Failures {
		fmt.Fprintf(w, "\nFAILED %s  [%s]\n", f.Requirement, f.Test)
		fmt.Fprintf(w, "  expected   %s\n  observed   %s\n", f.Expected, f.Observed)
		if f.Exchange > 0 {
			fmt.Fprintf(w, "  exchange   number %d of this test's capture\n", f.Exchange)
		}
		fmt.Fprintf(w, "  reproduce  %s\n", f.Reproduce)
	}
}

// reasons lists rows under their reason, since one missing key accounts for
// many rows.
func reasons(w io.Writer, title string, rows []Reason) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", title)
	var order []string
	byReason := map[string][]string{}
	for _, r := range rows {
		if len(byReason[r.Reason]) == 0 {
			order = append(order, r.Reason)
		}
		byReason[r.Reason] = append(byReason[r.Reason], strings.TrimPrefix(r.Requirement, "openwop.requirement."))
	}
	for _, reason := range order {
		fmt.Fprintf(w, "  %s\n", reason)
		for _, id := range byReason[reason] {
			fmt.Fprintf(w, "    %s\n", id)
		}
	}
}
