package report

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"wopcert/bundle"
	"wopcert/harness"
	"wopcert/requirements"
)

// How a terminal shows what runs. Lines that are rewritten do not wrap: on a narrow terminal one line has to stay one.
const (
	noWrap = "\x1b[?7l"
	wrap   = "\x1b[?7h"

	redrawEvery = 200 * time.Millisecond
	shownTests  = 5
	lineWidth   = 100
)

// Terminal reports whether w is a terminal that a person looks at.
func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb" && os.Getenv("CI") == ""
}

// Colour reports whether what is written to w may be coloured: only on a terminal, and never with NO_COLOR
// (no-color.org).
func Colour(w io.Writer) bool { return Terminal(w) && os.Getenv("NO_COLOR") == "" }

// Progress writes what happens while a run goes on. Close it when the run is over.
type Progress struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	paint    painter
	began    time.Time
	now      func() time.Time

	scenarios, tests    int // in all
	done, finished, bad int
	running             []runningTest // in the order they started
	drawn               int           // lines on the screen that are rewritten
	stop                chan struct{}
	stopped             sync.WaitGroup
}

type runningTest struct {
	scenario, test string
	since          time.Time
}

var _ harness.Progress = (*Progress)(nil)

// NewProgress begins to show a run of so many scenarios with so many tests: on a terminal, what has failed, and below
// it some lines that are rewritten and say what is running and for how long; elsewhere, a line per scenario.
func NewProgress(w io.Writer, scenarios, tests int) *Progress {
	p := &Progress{
		w: w, terminal: Terminal(w), paint: painter(Colour(w)), scenarios: scenarios, tests: tests, now: time.Now, stop: make(chan struct{}),
	}
	p.began = p.now()
	if p.terminal {
		p.stopped.Go(p.tick)
	}
	return p
}

// tick redraws, since time passes without anything happening.
func (p *Progress) tick() {
	ticker := time.NewTicker(redrawEvery)
	defer ticker.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-ticker.C:
			p.mu.Lock()
			p.draw()
			p.mu.Unlock()
		}
	}
}

// Close takes away what is rewritten. It may be called once.
func (p *Progress) Close() {
	close(p.stop)
	p.stopped.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
}

// Discovered says which host answered.
func (p *Progress) Discovered(h *harness.Host) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name, _ := harness.Get(h.Discovery.Document, "implementation", "name").(string)
	p.line(Clean(fmt.Sprintf("discovered %s (%s), versions %s", h.Base, cut(name, lineWidth), cut(strings.Join(h.Discovery.Versions(), ", "), lineWidth))))
}

// Started notes a test that runs from now on.
func (p *Progress) Started(scenario, test string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = append(p.running, runningTest{scenario, test, p.now()})
}

// Finished shows what a test found wrong as soon as it has.
func (p *Progress) Finished(scenario, test string, found []harness.Observed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finished++
	p.running = slices.DeleteFunc(p.running, func(r runningTest) bool { return r.scenario == scenario && r.test == test })
	said := map[requirements.ID]bool{}
	for _, o := range found {
		if !o.Failed() || said[o.Requirement] {
			continue
		}
		said[o.Requirement] = true
		p.line(fmt.Sprintf("%s %s  [%s]\n       %s", p.paint.fail("FAILED"), short(string(o.Requirement)), Clean(test), cut(Clean(o.Reason), 3*lineWidth)))
	}
}

// ScenarioDone counts, and names each scenario where there is no screen to look at.
func (p *Progress) ScenarioDone(row bundle.Row) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	bad := row.Result == bundle.ExecutedFail || row.Result == bundle.Blocked
	if bad {
		p.bad++
	}
	switch {
	case !p.terminal:
		p.line(fmt.Sprintf("[%d/%d] %-13s %s", p.done, p.scenarios, row.Result, row.Scenario))
	case row.Result == bundle.Blocked:
		p.line(fmt.Sprintf("%s %s: %s", p.paint.warn("BLOCKED"), row.Scenario, cut(Clean(row.Detail), 2*lineWidth)))
	}
}

// line writes above what is rewritten.
func (p *Progress) line(text string) {
	p.erase()
	fmt.Fprintln(p.w, text)
}

func (p *Progress) erase() {
	if p.drawn > 0 {
		fmt.Fprintf(p.w, "\r\x1b[%dA\x1b[J", p.drawn)
		p.drawn = 0
	}
}

// draw shows how far the run is, and the tests that have been running longest.
func (p *Progress) draw() {
	p.erase()
	now := p.now()
	waiting := max(p.tests-p.finished-len(p.running), 0)
	lines := []string{fmt.Sprintf("%d of %d scenarios, %d not passed · %d tests running, %d waiting · %s",
		p.done, p.scenarios, p.bad, len(p.running), waiting, now.Sub(p.began).Round(100*time.Millisecond))}
	longest := slices.Clone(p.running)
	slices.SortStableFunc(longest, func(a, b runningTest) int { return cmp.Compare(a.since.UnixNano(), b.since.UnixNano()) })
	for i, r := range longest {
		if i == shownTests {
			break
		}
		text := fmt.Sprintf("  %6s  %s: %s", now.Sub(r.since).Round(100*time.Millisecond), r.scenario, Clean(r.test))
		lines = append(lines, p.paint.dim(cut(text, lineWidth)))
	}
	fmt.Fprint(p.w, noWrap+strings.Join(lines, "\n")+"\n"+wrap)
	p.drawn = len(lines)
}

// cut shortens a text to so many characters.
func cut(text string, limit int) string {
	runes := []rune(text)
	if len(runes) <= limit {
		return text
	}
	return string(runes[:limit-1]) + "…"
}

// painter colours text, or leaves it alone.
type painter bool

func (p painter) with(code, text string) string {
	if !p {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (p painter) fail(text string) string { return p.with("31;1", text) }
func (p painter) pass(text string) string { return p.with("32;1", text) }
func (p painter) warn(text string) string { return p.with("33;1", text) }
func (p painter) dim(text string) string  { return p.with("2", text) }
