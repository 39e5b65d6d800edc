package certify

import (
	"fmt"

	"wopcert/bundle"
	"wopcert/harness"
	"wopcert/report"
)

// results is the content of results.json: the certification and every row.
type results struct {
	*report.Certification
	Suite string               `json:"suite"`
	Rows  []bundle.Row         `json:"rows"`
	Tests []harness.TestResult `json:"tests"`
}

// write stages everything but the bundle and moves the evidence into place.
// The bundle is there already, unless the suite itself was defective.
func write(e *Evidence, r *harness.Results, c *report.Certification) error {
	if err := e.Write("discovery.json", r.Host.Discovery.Raw); err != nil {
		return err
	}
	if err := e.WriteJSON("results.json", results{c, bundle.SuiteName + " " + SuiteVersion, r.Rows, r.Tests}); err != nil {
		return err
	}
	if first := r.Capture.DiscoveryExchange(); first != nil {
		if err := e.WriteJSON("capture/discovery.json", first); err != nil {
			return err
		}
	}
	used := map[string]int{}
	for _, t := range r.Capture.Tests() {
		name := fmt.Sprintf("capture/%s/%s", t.Scenario, slug(t.Test))
		if used[name]++; used[name] > 1 {
			name = fmt.Sprintf("%s-%d", name, used[name])
		}
		if err := e.WriteJSON(name+".json", t); err != nil {
			return err
		}
	}
	return e.Commit()
}
