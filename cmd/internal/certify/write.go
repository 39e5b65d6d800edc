package certify

import (
	"fmt"
	"os"
	"path"

	"wopcert/bundle"
	"wopcert/harness"
	"wopcert/report"
)

const (
	discoveryFile = "discovery.json"
	discoveryTape = report.CaptureDir + "/discovery.json"
)

// write stages everything but the bundle and moves the evidence into place.
// The bundle is there already, unless the suite itself was defective.
func write(e *Evidence, r *harness.Results, c *report.Certification, suite string, tapes func(*Evidence) error) error {
	if err := e.Write(discoveryFile, r.Host.Discovery.Raw); err != nil {
		return err
	}
	if err := e.WriteJSON(report.ResultsFile, report.Results{Certification: c, Suite: bundle.SuiteName + " " + suite, Rows: r.Rows, Tests: r.Tests}); err != nil {
		return err
	}
	if err := tapes(e); err != nil {
		return err
	}
	if err := e.reports(); err != nil {
		return err
	}
	return e.Commit()
}

// exchanges stages what a run captured, a file for each test.
func exchanges(capture *harness.Capture) func(*Evidence) error {
	return func(e *Evidence) error {
		if first := capture.DiscoveryExchange(); first != nil {
			if err := e.WriteJSON(discoveryTape, first); err != nil {
				return err
			}
		}
		used := map[string]int{}
		for _, t := range capture.Tests() {
			name := path.Join(report.CaptureDir, t.Scenario, report.Slug(t.Test))
			if used[name]++; used[name] > 1 {
				name = fmt.Sprintf("%s-%d", name, used[name])
			}
			if err := e.WriteJSON(name+".json", t); err != nil {
				return err
			}
		}
		return nil
	}
}

// reports makes the reports of what is staged, as wopcert report would of the
// directory it becomes.
func (e *Evidence) reports() error {
	made, err := report.FromDirectory(os.DirFS(e.stage), e.final)
	if err != nil {
		return err
	}
	_, err = made.WriteAll(e.stage)
	return err
}
