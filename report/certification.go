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
	Verdict     Verdict             `json:"verdict"`
	Profiles    []Profile           `json:"profiles"`
	Totals      bundle.Totals       `json:"totals"`
	Out         string              `json:"out"`
	DurationMs  int64               `json:"durationMs"`
	Failures    []harness.Failure   `json:"failures"`
	Blocked     []Reason            `json:"blocked"`
	Partial     []Reason            `json:"partial"`
	Notes       []string            `json:"notes"`
	Host        HostFacts           `json:"host"`
	Attribution string              `json:"attribution"`
	Relaxations []bundle.Relaxation `json:"relaxations,omitempty"` // what the host ran under, as the bundle records it
	Durability  *Durability         `json:"durability,omitempty"`  // nil when no durability is claimed for the host
	Interrupted bool                `json:"interrupted"`
	LongestMs   int64               `json:"longestTestMs"`
	SuiteFaults []string            `json:"suiteFaults,omitempty"`
	// Expectations is there when a list of expected failures was given.
	Expectations *Expectations `json:"expectations,omitempty"`
	// Shard is there when the run was a part of a divided one.
	Shard *Shard `json:"shard,omitempty"`
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

// Durability is the recovery rung the bundle claims, "" when the rows do not
// support any.
type Durability struct {
	Rung string   `json:"rung"`
	Why  []string `json:"why"` // reasons no rung is claimed
}

// Reason is a row and why it is what it is.
type Reason struct {
	Requirement string `json:"requirement"`
	Scenario    string `json:"scenario"`
	Reason      string `json:"reason"`
}

// What fits a screen; the reports hold the rest.
const (
	screenFailures = 6
	screenReasons  = 6
	screenIDs      = 4
	screenDetail   = 400
)

// Text writes the certification for a person, on about one screen: the reports hold what is left out.
func (c *Certification) Text(w io.Writer) {
	paint := painter(Colour(w))
	verdict := strings.ToUpper(string(c.Verdict))
	switch verdictClass(c.Verdict) {
	case "pass":
		verdict = paint.pass(verdict)
	case "fail":
		verdict = paint.fail(verdict)
	default:
		verdict = paint.warn(verdict)
	}
	fmt.Fprint(w, verdict) // before the cleaner, which takes colours for what they are
	w = cleaner{w}
	fmt.Fprintf(w, "  %s", c.Host.URL)
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
		for i, why := range p.Why {
			if i == screenReasons {
				fmt.Fprintf(w, "                 and %d more reasons\n", len(p.Why)-i)
				break
			}
			fmt.Fprintf(w, "                 %s\n", cut(why, screenDetail))
		}
	}
	c.circumstances(w)
	t := c.Totals
	fmt.Fprintf(w, "  rows: %d passed, %d failed, %d blocked, %d inapplicable, %d skipped in %s\n",
		t.ExecutedPass, t.ExecutedFail, t.Blocked, t.Inapplicable, t.Skipped,
		(time.Duration(c.DurationMs) * time.Millisecond).Round(10*time.Millisecond))
	c.failures(w)
	reasons(w, "blocked: the suite could not observe these", c.Blocked)
	reasons(w, "partial: recommendations not followed, or legs that do not bind this host", c.Partial)
	if c.Expectations != nil {
		c.Expectations.text(w)
	}
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
		fmt.Fprintf(w, "\nevidence: %s (%s); report.html in it shows every row\n", c.Out, attribution)
	}
}

// circumstances writes what the host ran under and how it recovers.
func (c *Certification) circumstances(w io.Writer) {
	if d := c.Durability; d != nil && d.Rung != "" {
		fmt.Fprintf(w, "  durability     %s\n", d.Rung)
	} else if d != nil {
		fmt.Fprintf(w, "  durability     no rung is claimed\n")
		for _, why := range d.Why {
			fmt.Fprintf(w, "                 %s\n", why)
		}
	}
	for _, r := range c.Relaxations {
		fmt.Fprintf(w, "  relaxed        %s (%s): %s\n", r.Obligation, r.Durability, r.Reason)
	}
}

// failures shows one failed check of each requirement.
func (c *Certification) failures(w io.Writer) {
	shown := map[string]bool{}
	for _, f := range c.Failures {
		if shown[string(f.Requirement)] {
			continue
		}
		shown[string(f.Requirement)] = true
		if len(shown) > screenFailures {
			continue
		}
		fmt.Fprintf(w, "\nFAILED %s  [%s]\n", f.Requirement, f.Test)
		fmt.Fprintf(w, "  expected   %s\n  observed   %s\n", cut(f.Expected, screenDetail), cut(f.Observed, screenDetail))
		if f.Exchange > 0 {
			fmt.Fprintf(w, "  exchange   number %d of this test's capture\n", f.Exchange)
		}
		fmt.Fprintf(w, "  reproduce  %s\n", f.Reproduce)
	}
	if more := len(shown) - screenFailures; more > 0 {
		fmt.Fprintf(w, "\nand %d more requirements that failed\n", more)
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
		byReason[r.Reason] = append(byReason[r.Reason], short(r.Requirement))
	}
	for i, reason := range order {
		if i == screenReasons {
			fmt.Fprintf(w, "  and %d more reasons\n", len(order)-i)
			return
		}
		fmt.Fprintf(w, "  %s\n", cut(reason, screenDetail))
		ids := byReason[reason]
		for i, id := range ids {
			if i == screenIDs && len(ids) > screenIDs+1 {
				fmt.Fprintf(w, "    and %d more\n", len(ids)-i)
				break
			}
			fmt.Fprintf(w, "    %s\n", id)
		}
	}
}
