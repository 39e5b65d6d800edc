// Package doctor says, before a long run, what the run would lack.
package doctor

import (
	"fmt"
	"strings"
	"time"

	"wopcert/harness"
	"wopcert/seams"
)

// State is what a check comes to.
type State string

// The states. Only the last two keep a run from observing what it could.
const (
	OK      State = "ok"
	Warn    State = "warn"
	Missing State = "missing" // rows would be blocked, or the run refused
	Failed  State = "failed"  // the host cannot be reached
)

// Check is one line of the answer.
type Check struct {
	Name  string `json:"check"`
	State State  `json:"state"`
	Found string `json:"found"`
	Do    string `json:"do,omitempty"`   // what to do about it
	Rows  int    `json:"rows,omitempty"` // rows that hang on it
	// Millis is how long a step on the way to the host took.
	Millis float64 `json:"ms,omitempty"`
}

// Verdict is the answer in one word.
type Verdict string

// The verdicts.
const (
	Ready       Verdict = "ready"       // nothing is missing
	Lacking     Verdict = "lacking"     // something is
	Unreachable Verdict = "unreachable" // the host cannot be measured
)

// Report is the answer.
type Report struct {
	URL     string             `json:"url"`
	Host    string             `json:"host,omitempty"` // name and version, as the host gives them
	Verdict Verdict            `json:"verdict"`
	Checks  []Check            `json:"checks"`
	Rows    *harness.RowCounts `json:"rows,omitempty"` // what the selected rows would come to
}

// Facts are what was found out about a host, and what it is held against.
type Facts struct {
	URL      string
	Findings *harness.Findings
	// Unmeasured says why the host could not be measured, nil when it was.
	Unmeasured *harness.DiscoveryError
	Contract   string   // version of the contract in use
	Signing    []string // what is wrong with the signing key
}

// maxSkew is the difference of clocks from which on dates of the host and of the
// evidence cannot be told together.
const maxSkew = 30 * time.Second

// Examine turns facts into the answer.
func Examine(f Facts) *Report {
	r := &Report{URL: f.URL, Checks: []Check{}}
	r.way(f)
	if f.Unmeasured != nil || f.Findings.Host == nil {
		r.Verdict = Unreachable
		return r
	}
	d := f.Findings.Host.Discovery
	name, _ := harness.Get(d.Document, "implementation", "name").(string)
	version, _ := harness.Get(d.Document, "implementation", "version").(string)
	if name != "" {
		r.Host = name + " " + version
	}
	r.versions(d, f.Contract)
	r.clock(f.Findings.Clock)
	r.keys(f.Findings)
	r.fixtures(f.Findings)
	r.receiver(f.Findings)
	r.means(f.Findings)
	r.claims(f.Findings)
	for _, family := range f.Findings.OptOuts {
		r.add(Check{Name: "opt-out", State: Missing, Found: "the host advertises " + family + ", so it cannot be opted out of", Do: "leave --opt-out " + family + " out: certify refuses it"})
	}
	for _, note := range f.Signing {
		r.add(Check{Name: "signing key", State: Warn, Found: note, Do: "publish it under signingKeys; wopcert keygen shows how"})
	}
	r.Rows = &f.Findings.Rows
	r.Verdict = Ready
	for _, c := range r.Checks {
		if c.State == Missing || f.Findings.Rows.Blocked > 0 {
			r.Verdict = Lacking
		}
	}
	return r
}

func (r *Report) add(c Check) { r.Checks = append(r.Checks, c) }

func (r *Report) way(f Facts) {
	for _, hop := range f.Findings.Hops {
		c := Check{Name: hop.Name, State: OK, Found: hop.Detail, Millis: float64(hop.Elapsed.Microseconds()) / 1000}
		if hop.Failed {
			c.State = Failed
			if f.Unmeasured != nil && hop.Name != "discovery" {
				c.Do = f.Unmeasured.Hint
			} else if f.Unmeasured != nil {
				c.Found, c.Do = f.Unmeasured.URL+": "+f.Unmeasured.Why, f.Unmeasured.Hint
			}
			if c.Do == "" || hop.Name == "connection" {
				c.Do = strings.TrimPrefix(c.Do+"; "+remedy(hop.Name), "; ")
			}
		}
		r.add(c)
	}
}

// remedy is what to do about a step that failed for no reason anybody knows more of.
func remedy(step string) string {
	switch step {
	case "name":
		return "check the spelling of the name, and this machine's resolver"
	case "connection":
		return "start the host, and see that the port is right and no firewall is between"
	case "tls":
		return "give https:// where TLS is spoken, and http:// where it is not"
	}
	return "give the base address of an OpenWOP v2 host; it answers at " + harness.WellKnown
}

func (r *Report) versions(d *harness.Discovery, contract string) {
	c := Check{Name: "versions", State: OK, Found: fmt.Sprintf("the host lists %s, prefers %s; the suite tests major 2, contract %s", list(d.Versions()), orNothing(d.Preferred()), contract)}
	if p := d.Preferred(); p != "" && (len(p) < 2 || p[:2] != "2.") {
		c.State, c.Do = Warn, "the suite asks for major 2 by header, whatever the host prefers"
	}
	r.add(c)
}

func (r *Report) clock(ahead *time.Duration) {
	switch {
	case ahead == nil:
		r.add(Check{Name: "clock", State: Warn, Found: "the host sends no Date, so its clock cannot be compared", Do: "see that it runs by network time"})
	default:
		which := "ahead of"
		if *ahead < 0 {
			which = "behind"
		}
		c := Check{Name: "clock", State: OK, Found: fmt.Sprintf("the host's is %s %s this machine's", ahead.Abs(), which)}
		if ahead.Abs() > maxSkew {
			c.State, c.Do = Warn, "set both by network time: signatures and deadlines are judged by them"
		}
		r.add(c)
	}
}

func (r *Report) fixtures(f *harness.Findings) {
	needed, there := 0, 0
	for _, n := range f.Needs {
		if n.Kind != harness.NeedFixture {
			continue
		}
		needed++
		if n.Lack == "" {
			there++
			continue
		}
		r.add(Check{Name: "fixture", State: Missing, Found: "the host does not list " + n.What, Rows: len(n.Rows), Do: "seed it (wopcert fixtures export DIR) and list it under fixtures"})
	}
	if needed == there {
		r.add(Check{Name: "fixtures", State: OK, Found: fmt.Sprintf("all %d that are asked for are listed", needed)})
	}
}

func (r *Report) receiver(f *harness.Findings) {
	at := -1
	for i, n := range f.Needs {
		if n.Kind == harness.NeedReach {
			at = i
		}
	}
	switch {
	case at < 0 && f.Receiver == "":
		r.add(Check{Name: "receiver", State: OK, Found: "none, and nothing asks for one"})
	case at < 0:
		r.add(Check{Name: "receiver", State: OK, Found: f.Receiver + ", which nothing asks for"})
	case f.Needs[at].Lack != "":
		r.add(lacking("receiver", f.Needs[at]))
	case f.Called:
		r.add(Check{Name: "receiver", State: OK, Found: "a delivery of the host reached " + f.Receiver, Rows: len(f.Needs[at].Rows)})
	case f.Trusted:
		r.add(Check{Name: "receiver", State: OK, Found: f.Receiver + ", not probed: the operator answers for it", Rows: len(f.Needs[at].Rows)})
	default:
		r.add(Check{Name: "receiver", State: Warn, Found: "no delivery of the host reached " + f.Receiver + " yet, and nothing shows that none can", Rows: len(f.Needs[at].Rows),
			Do: "a run will judge the host by what does not arrive; see that the host can reach the address"})
	}
}

func (r *Report) means(f *harness.Findings) {
	for _, n := range f.Needs {
		if n.Kind == harness.NeedMeans && n.Lack != "" {
			r.add(lacking("operator", n))
		}
	}
}

// lacking is a need that is not met. Its lack says first what, then what to do.
func lacking(name string, n harness.Need) Check {
	what, do, _ := strings.Cut(n.Lack, "; ")
	return Check{Name: name, State: Missing, Found: what, Do: do, Rows: len(n.Rows)}
}

// claims says what is not claimed of the host, and so does not bind it.
func (r *Report) claims(f *harness.Findings) {
	for _, n := range f.Needs {
		switch n.Kind {
		case harness.NeedSeamsProfile:
			c := Check{Name: "seams", State: OK, Found: "the host names " + seams.Profile, Rows: len(n.Rows)}
			if n.Lack != "" {
				c.State, c.Found, c.Do = Warn, n.Lack+", so its rows do not bind it", "on a host under test, mount the seams operations and name the profile"
			}
			r.add(c)
		case harness.NeedDurability:
			c := Check{Name: "recovery", State: OK, Found: "durability is claimed", Rows: len(n.Rows)}
			if n.Lack != "" {
				c.State, c.Found, c.Do = Warn, "no durability is claimed, so its rows do not bind the host", "declare the host's recovery bounds with --recovery-bounds FILE, to claim the rung"
			}
			r.add(c)
		}
	}
}
