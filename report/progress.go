package report

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"wopcert/bundle"
	"wopcert/harness"
)

// NewProgress writes what happens while a run goes on: one line that rewrites
// itself on a terminal, a plain line per scenario elsewhere.
func NewProgress(w io.Writer, scenarios int) harness.Progress {
	f, ok := w.(*os.File)
	if ok {
		info, err := f.Stat()
		ok = err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb" && os.Getenv("CI") == ""
	}
	return &progress{w: w, terminal: ok, total: scenarios, running: map[string]bool{}}
}

type progress struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	total    int
	done     int
	bad      int
	running  map[string]bool
}

func (p *progress) Discovered(h *harness.Host) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name, _ := harness.Get(h.Discovery.Document, "implementation", "name").(string)
	p.line(Clean(fmt.Sprintf("discovered %s (%s), versions %s", h.Base, name, strings.Join(h.Discovery.Versions(), ", "))))
}

func (p *progress) Started(scenario, test string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running[scenario+" "+test] = true
	p.draw(scenario)
}

func (p *progress) Finished(scenario, test string, _ []harness.Observed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.running, scenario+" "+test)
	p.draw(scenario)
}

func (p *progress) ScenarioDone(row bundle.Row) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	bad := row.Result == bundle.ExecutedFail || row.Result == bundle.Blocked
	if bad {
		p.bad++
	}
	switch {
	case !p.terminal:
		p.line(fmt.Sprintf("[%d/%d] %-13s %s", p.done, p.total, row.Result, row.Scenario))
	case bad:
		p.line(fmt.Sprintf("%-13s %s", row.Result, row.Scenario))
	}
	if p.done == p.total && p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

func (p *progress) draw(scenario string) {
	if p.terminal {
		fmt.Fprintf(p.w, "\r\x1b[K[%d/%d] %d running, %d not passed: %.40s", p.done, p.total, len(p.running), p.bad, scenario)
	}
}

func (p *progress) line(text string) {
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
	fmt.Fprintln(p.w, text)
}
