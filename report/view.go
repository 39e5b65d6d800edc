package report

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"wopcert/bundle"
	"wopcert/harness"
)

// What the page shows of one exchange; the whole of it is in the capture.
const (
	maxShownBody      = 32 << 10
	maxShownExchanges = 40
	maxShownFrames    = 400
	maxShownPanels    = 200
)

// page is what the template of the HTML report is filled from. All text is cleaned.
type page struct {
	Source, Title, Suite, Generated string
	Verdict, VerdictClass, Answer   string
	Host                            HostFacts
	Profiles                        []Profile
	Totals                          []share
	Requirements, Summaries         int // rows of requirements, and rows that sum up a scenario
	Duration                        string
	Rejections                      []string
	Attribution, AttributionReason  string
	Notes, Problems                 []string
	Alone                           bool
	Documents, Families             []matrixRow
	Dispositions                    []choice
	Levels                          []string
	Timeline                        *timeline
	Rows                            []rowView
}

// share is one disposition's part of a bar.
type share struct {
	Result, Class, Label string
	Count                int
	Percent              float64
}

// choice is one box of the filter.
type choice struct {
	Value, Label string
	Count        int
}

// matrixRow is one document or family in the coverage matrix.
type matrixRow struct {
	Name  string
	Cells []share
	Total int
}

// rowView is one row of the report.
type rowView struct {
	Row
	Anchor, Class, Label, Family, Search string
	Panels                               []panel
	Problem                              string
}

// panel is one failure with what crossed the wire.
type panel struct {
	harness.Failure
	Exchanges []exchangeView
	More      int
	Missing   string
}

type exchangeView struct {
	Number            int
	Flagged, Inbound  bool
	Method, URL       string
	Status            string
	Millis            string
	Error             string
	Request, Response messageView
	Stream            *streamView
}

type messageView struct {
	Headers []string
	Body    string
	Note    string
}

type streamView struct {
	Frames   []frameView
	End      string // the right end of the time axis
	More     int
	Tail     string
	ClosedBy string
	Closed   string
}

type frameView struct {
	At      string
	Percent float64
	Kind    string
	Raw     string
}

// dispositions are the results in the order they are shown, with their words.
func dispositions() []share {
	return []share{
		{Result: string(bundle.ExecutedFail), Class: "fail", Label: "failed"},
		{Result: string(bundle.Blocked), Class: "blocked", Label: "blocked"},
		{Result: string(bundle.ExecutedPass), Class: "pass", Label: "passed"},
		{Result: string(bundle.Inapplicable), Class: "na", Label: "inapplicable"},
		{Result: string(bundle.Skipped), Class: "skip", Label: "skipped"},
	}
}

func classOf(result bundle.Disposition) (class, label string) {
	for _, d := range dispositions() {
		if d.Result == string(result) {
			return d.Class, d.Label
		}
	}
	return "na", Clean(string(result))
}

// view makes the page.
func (e *Evidence) view() *page {
	c := e.Results.Certification
	p := &page{
		Source: Clean(e.Source), Suite: Clean(e.Results.Suite), Alone: e.Alone,
		Verdict: verdictWords(c.Verdict), VerdictClass: verdictClass(c.Verdict),
		Host:  HostFacts{URL: Clean(c.Host.URL), Name: Clean(c.Host.Name), Version: Clean(c.Host.Version), Build: Clean(c.Host.Build)},
		Notes: cleanAll(c.Notes), Attribution: Clean(c.Attribution), Problems: cleanAll(e.Problems),
	}
	p.Title = strings.TrimSpace(p.Verdict + " · " + cmp.Or(p.Host.Name, p.Host.URL, p.Source))
	if !e.GeneratedAt.IsZero() {
		p.Generated = e.GeneratedAt.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	if c.DurationMs > 0 {
		p.Duration = (time.Duration(c.DurationMs) * time.Millisecond).Round(10 * time.Millisecond).String()
	}
	for _, profile := range c.Profiles {
		p.Profiles = append(p.Profiles, Profile{ID: Clean(profile.ID), Certified: profile.Certified, WitnessCount: profile.WitnessCount, Why: cleanAll(profile.Why)})
	}
	if e.Bundle != nil {
		p.AttributionReason = Clean(e.Bundle.AttributionReason)
		for _, r := range e.Bundle.Rejections {
			p.Rejections = append(p.Rejections, Clean(string(r.Kind)+": "+r.Detail))
		}
	}
	if e.Rejected() {
		p.Verdict, p.VerdictClass, p.Title = "Rejected", "fail", "Rejected · "+p.Source
	}
	p.fill(e)
	p.Timeline = newTimeline(e.Results.Tests, e.Results.Rows)
	return p
}

func verdictWords(v Verdict) string {
	return map[Verdict]string{
		Certified: "Certified", Passed: "Passed", NotCertified: "Not certified", Failed: "Failed",
		Incomplete: "Incomplete", SuiteFault: "Suite fault",
	}[v]
}

func verdictClass(v Verdict) string {
	switch v {
	case Certified, Passed:
		return "pass"
	case Failed, SuiteFault:
		return "fail"
	}
	return "blocked"
}

func cleanAll(texts []string) []string {
	out := make([]string, 0, len(texts))
	for _, text := range texts {
		out = append(out, Clean(text))
	}
	return out
}

// fill makes the rows, and what is counted from them.
func (p *page) fill(e *Evidence) {
	counts := map[string]int{}
	documents, families := newMatrix(), newMatrix()
	levels := map[string]bool{}
	panels := 0
	for i, row := range e.Rows() {
		view := e.rowView(i, row, &panels)
		p.Rows = append(p.Rows, view)
		if row.Summary {
			p.Summaries++
			continue
		}
		p.Requirements++
		counts[string(row.Result)]++
		documents.add(cmp.Or(row.Rule.Document, "other rows"), string(row.Result))
		if view.Family != "" {
			families.add(view.Family, string(row.Result))
		}
		if row.Rule.Level != "" {
			levels[row.Rule.Level] = true
		}
	}
	// Failures first, then what could not be observed; the rest stays in the order of the documents.
	slices.SortStableFunc(p.Rows, func(a, b rowView) int { return cmp.Compare(rank(a), rank(b)) })
	for _, d := range dispositions() {
		p.Dispositions = append(p.Dispositions, choice{Value: d.Class, Label: d.Label, Count: counts[d.Result]})
	}
	p.Totals = shares(counts)
	p.Documents, p.Families = documents.rows(), families.rows()
	for _, level := range []string{"MUST", "MUST NOT", "REQUIRED", "SHOULD", "SHOULD NOT", "RECOMMENDED", "MAY"} {
		if levels[level] {
			p.Levels = append(p.Levels, level)
		}
	}
}

func rank(r rowView) int {
	switch {
	case r.Class == "fail":
		return 0
	case r.Class == "blocked":
		return 1
	case r.Partial():
		return 2
	}
	return 3
}

func shares(counts map[string]int) []share {
	total := 0
	for _, n := range counts {
		total += n
	}
	out := dispositions()
	for i := range out {
		out[i].Count = counts[out[i].Result]
		if total > 0 {
			out[i].Percent = 100 * float64(out[i].Count) / float64(total)
		}
	}
	return out
}

type matrix struct {
	order  []string
	counts map[string]map[string]int
}

func newMatrix() *matrix { return &matrix{counts: map[string]map[string]int{}} }

func (m *matrix) add(name, result string) {
	if m.counts[name] == nil {
		m.counts[name] = map[string]int{}
		m.order = append(m.order, name)
	}
	m.counts[name][result]++
}

func (m *matrix) rows() []matrixRow {
	slices.Sort(m.order)
	rows := make([]matrixRow, 0, len(m.order))
	for _, name := range m.order {
		row := matrixRow{Name: name, Cells: shares(m.counts[name])}
		for _, cell := range row.Cells {
			row.Total += cell.Count
		}
		rows = append(rows, row)
	}
	return rows
}

// rowView shows one row. Only rows that failed carry what crossed the wire, and only so many of them.
func (e *Evidence) rowView(i int, row Row, panels *int) rowView {
	row.ID, row.Short, row.Scenario, row.Detail = Clean(row.ID), Clean(row.Short), Clean(row.Scenario), Clean(row.Detail)
	view := rowView{Row: row, Anchor: fmt.Sprintf("row-%d", i+1), Family: row.Rule.Family}
	view.Class, view.Label = classOf(row.Result)
	view.Search = strings.ToLower(strings.Join([]string{row.ID, row.Scenario, row.Rule.Statement, row.Detail, row.Rule.Document, row.Rule.Section, view.Family}, " "))
	if len(row.Failures) == 0 {
		return view
	}
	tapes, err := e.Tapes(row.Failures[0].Scenario)
	if err != nil {
		view.Problem = Clean(err.Error())
	}
	for _, failure := range row.Failures {
		*panels++
		if *panels > maxShownPanels {
			view.Problem = fmt.Sprintf("only the first %d failures are shown with their exchanges; the capture holds the rest", maxShownPanels)
			tapes = nil
		}
		view.Panels = append(view.Panels, e.panel(failure, tapes))
	}
	return view
}

func (e *Evidence) panel(failure harness.Failure, tapes []harness.TestTape) panel {
	p := panel{Failure: failure}
	p.Test, p.Expected, p.Observed, p.Reproduce = Clean(p.Test), Clean(p.Expected), Clean(p.Observed), Clean(p.Reproduce)
	for _, tape := range tapes {
		if tape.Test != failure.Test || tape.Scenario != failure.Scenario {
			continue
		}
		first := 0
		if n := len(tape.Exchanges); n > maxShownExchanges {
			// The one the check looked at is among them, with what led to it.
			first = min(max(failure.Exchange-maxShownExchanges*3/4, 0), n-maxShownExchanges)
			p.More = n - maxShownExchanges
		}
		for _, exchange := range tape.Exchanges[first:min(first+maxShownExchanges, len(tape.Exchanges))] {
			p.Exchanges = append(p.Exchanges, viewExchange(exchange, exchange.Number == failure.Exchange && !exchange.Inbound))
		}
		return p
	}
	if !e.Alone {
		p.Missing = "The capture of this test is not there."
	}
	return p
}

func viewExchange(x harness.Exchange, flagged bool) exchangeView {
	v := exchangeView{
		Number: x.Number, Flagged: flagged, Inbound: x.Inbound, Method: Clean(x.Method), URL: Clean(x.URL), Error: Clean(x.Error),
		Status: "no answer", Millis: fmt.Sprintf("%.1f ms", x.Millis), Request: viewMessage(x.Request), Response: viewMessage(x.Response),
	}
	if x.Status != 0 {
		v.Status = fmt.Sprint(x.Status)
	}
	if x.Stream != nil {
		v.Stream = viewStream(x.Stream)
	}
	return v
}

func viewMessage(m harness.Message) messageView {
	v := messageView{Headers: cleanAll(m.Headers)}
	body := m.Body
	switch {
	case body == "":
	case m.Encoding == "base64":
		v.Note = "not UTF-8; shown in base64"
	default:
		var indented bytes.Buffer
		if json.Indent(&indented, []byte(body), "", "  ") == nil {
			body = indented.String()
		}
	}
	v.Body = Clean(clip(body, maxShownBody, &v.Note))
	if m.Truncated {
		v.Note = strings.TrimPrefix(v.Note+"; cut when it was captured", "; ")
	}
	return v
}

func clip(text string, limit int, note *string) string {
	if len(text) <= limit {
		return text
	}
	*note = strings.TrimPrefix(fmt.Sprintf("%s; %d more bytes are in the capture", *note, len(text)-limit), "; ")
	return strings.ToValidUTF8(text[:limit], "")
}

func viewStream(s *harness.StreamTape) *streamView {
	v := &streamView{Tail: Clean(s.Tail), ClosedBy: Clean(string(s.ClosedBy)), Closed: fmt.Sprintf("%.1f ms", s.ClosedMs)}
	end := s.ClosedMs
	for _, frame := range s.Frames {
		end = max(end, frame.AtMs)
	}
	v.End = fmt.Sprintf("%.1f ms", end)
	for i, frame := range s.Frames {
		if i == maxShownFrames {
			v.More = len(s.Frames) - i
			break
		}
		raw := frameText(frame)
		note := ""
		f := frameView{At: fmt.Sprintf("%.1f ms", frame.AtMs), Kind: frameKind(raw), Raw: Clean(clip(raw, maxShownBody, &note))}
		if end > 0 {
			f.Percent = 100 * frame.AtMs / end
		}
		v.Frames = append(v.Frames, f)
	}
	return v
}

// frameText is what stood in a frame, as far as it is text.
func frameText(frame harness.FrameTape) string {
	if frame.Encoding == "base64" {
		if decoded, err := base64.StdEncoding.DecodeString(frame.Raw); err == nil {
			return strings.ToValidUTF8(string(decoded), "�")
		}
	}
	return frame.Raw
}

// frameKind is the event name of a frame, or what it is instead.
func frameKind(raw string) string {
	kind := "data"
	for line := range strings.Lines(strings.ReplaceAll(raw, "\r", "\n")) {
		line = strings.TrimRight(line, "\n")
		if name, ok := strings.CutPrefix(line, "event:"); ok {
			return Clean(strings.TrimSpace(name))
		}
		if strings.HasPrefix(line, ":") && kind == "data" && !strings.Contains(raw, "data") {
			kind = "comment"
		}
	}
	return kind
}
