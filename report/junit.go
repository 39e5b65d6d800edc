package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"

	"wopcert/bundle"
	"wopcert/harness"
)

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Skipped  int          `xml:"skipped,attr"`
	Time     string       `xml:"time,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name      string      `xml:"name,attr"`
	Tests     int         `xml:"tests,attr"`
	Failures  int         `xml:"failures,attr"`
	Errors    int         `xml:"errors,attr"`
	Skipped   int         `xml:"skipped,attr"`
	Time      string      `xml:"time,attr"`
	Timestamp string      `xml:"timestamp,attr,omitempty"`
	Cases     []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name      string        `xml:"name,attr"`
	ClassName string        `xml:"classname,attr"`
	Time      string        `xml:"time,attr"`
	Failure   *junitOutcome `xml:"failure,omitempty"`
	Error     *junitOutcome `xml:"error,omitempty"`
	Skipped   *junitSkipped `xml:"skipped,omitempty"`
	Output    string        `xml:"system-out,omitempty"`
}

type junitOutcome struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

type junitSkipped struct {
	Message string `xml:"message,attr"`
}

// JUnit writes one test suite per scenario and one test case per requirement. What failed is a failure, what was
// blocked an error, what does not bind the host, or was opted out of, is skipped. The time of a scenario's tests
// stands on the suite; its cases share it evenly, since requirements are not timed one by one.
func (e *Evidence) JUnit(w io.Writer) error {
	suites := junitSuites{Name: "wopcert " + Clean(e.Results.Host.URL)}
	index := map[string]int{}
	for _, row := range e.Rows() {
		if row.Summary {
			continue
		}
		i, known := index[row.Scenario]
		if !known {
			i = len(suites.Suites)
			index[row.Scenario] = i
			suites.Suites = append(suites.Suites, e.junitSuite(Clean(row.Scenario), row.Scenario))
		}
		suites.Suites[i].add(row)
	}
	var whole time.Duration
	for i := range suites.Suites {
		s := &suites.Suites[i]
		suites.Tests += s.Tests
		suites.Failures += s.Failures
		suites.Errors += s.Errors
		suites.Skipped += s.Skipped
		elapsed, _ := time.ParseDuration(s.Time + "s")
		whole += elapsed
		for n := range s.Cases {
			s.Cases[n].Time = seconds(elapsed / time.Duration(len(s.Cases)))
		}
	}
	suites.Time = seconds(whole)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(suites); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func (e *Evidence) junitSuite(name, scenario string) junitSuite {
	var elapsed time.Duration
	var began time.Time
	for _, t := range e.Results.Tests {
		if t.Scenario == scenario && t.Ran {
			elapsed += t.Elapsed
			if began.IsZero() || t.Started.Before(began) {
				began = t.Started
			}
		}
	}
	s := junitSuite{Name: name, Time: seconds(elapsed)}
	if !began.IsZero() {
		s.Timestamp = began.UTC().Format("2006-01-02T15:04:05")
	}
	return s
}

func (s *junitSuite) add(row Row) {
	c := junitCase{Name: Clean(row.Short), ClassName: Clean(row.Scenario)}
	detail := Clean(row.Detail)
	s.Tests++
	switch row.Result {
	case bundle.ExecutedPass:
		c.Output = detail
	case bundle.ExecutedFail:
		s.Failures++
		c.Failure = &junitOutcome{Message: firstLine(detail), Type: row.Rule.Level, Text: failureText(row, detail)}
	case bundle.Inapplicable, bundle.Skipped:
		s.Skipped++
		c.Skipped = &junitSkipped{Message: detail}
	default:
		s.Errors++
		c.Error = &junitOutcome{Message: firstLine(detail), Type: Clean(string(row.Result)), Text: detail}
	}
	s.Cases = append(s.Cases, c)
}

// failureText says for a person what did not hold.
func failureText(row Row, detail string) string {
	var b strings.Builder
	if row.Rule.ID != "" {
		fmt.Fprintf(&b, "%s\n(%s, %s, %s)\n", row.Rule.Statement, row.Rule.Level, row.Rule.Document, row.Rule.Section)
	}
	if len(row.Failures) == 0 {
		b.WriteString(detail)
	}
	for _, f := range row.Failures {
		b.WriteString("\n" + failureLines(f))
	}
	return b.String()
}

func failureLines(f harness.Failure) string {
	text := fmt.Sprintf("test       %s\nexpected   %s\nobserved   %s\n", Clean(f.Test), Clean(f.Expected), Clean(f.Observed))
	if f.Exchange > 0 {
		text += fmt.Sprintf("exchange   number %d of this test's capture\n", f.Exchange)
	}
	return text + fmt.Sprintf("reproduce  %s\n", Clean(f.Reproduce))
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
