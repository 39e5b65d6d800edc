package main

import (
	"slices"
	"strings"
	"time"

	"wopcert/bundle"
	"wopcert/cmd/internal/expect"
	"wopcert/report"
	"wopcert/requirements"
)

// The levels of --fail-on, from the most lenient to the strictest; each
// includes those before it. None lets a run that observed nothing, was
// interrupted, or whose suite is defective end in 0.
const (
	failOnFailed          = "failed"          // a requirement failed
	failOnBlocked         = "blocked"         // or a row is blocked
	failOnUncertified     = "uncertified"     // or a profile asked for is not certified; the default
	failOnRecommendations = "recommendations" // or a recommendation is not followed
)

func failOnLevels() []string {
	return []string{failOnFailed, failOnBlocked, failOnUncertified, failOnRecommendations}
}

// judgement is what decides the exit code of a certification beside its verdict.
type judgement struct {
	failOn   string
	expected []expect.Failure
	listed   bool // a list was given, if an empty one
}

func newJudgement(failOn, list string) (judgement, error) {
	j := judgement{failOn: failOn, listed: list != ""}
	if !slices.Contains(failOnLevels(), failOn) {
		return j, usageError("give one of "+strings.Join(failOnLevels(), ", "), "--fail-on has no level %q", failOn)
	}
	var err error
	if list != "" {
		j.expected, err = expect.Read(list)
	}
	if err != nil {
		return j, usageError("an entry is {requirement: ID, reason: TEXT, until: YYYY-MM-DD}", "%v", err)
	}
	return j, nil
}

// judge puts what the list makes of the rows into the result.
func (j judgement) judge(c *report.Certification, rows []bundle.Row) {
	if j.listed {
		c.Expectations = expect.Judge(j.expected, rows, time.Now())
	}
}

// code is the exit code of a certification that was judged.
func (j judgement) code(c *report.Certification) int {
	failed := len(c.Failures) > 0
	if e := c.Expectations; e != nil {
		failed = !e.Hold()
	}
	switch {
	case c.Verdict == report.SuiteFault:
		return exitInternal
	case c.Totals.ExecutedPass == 0 && c.Totals.ExecutedFail == 0:
		return exitUnknown
	case failed:
		return exitNo
	case c.Interrupted:
		return exitUnknown
	case j.failOn == failOnFailed:
		return exitYes
	case len(c.Blocked) > 0, c.Verdict == report.Incomplete:
		return exitUnknown
	case j.failOn == failOnBlocked:
		return exitYes
	case c.Verdict == report.NotCertified:
		return exitNo // not when listed failures are all that denies the profile: the verdict is then failed
	case j.failOn == failOnUncertified:
		return exitYes
	case slices.ContainsFunc(c.Partial, unfollowed):
		return exitNo
	}
	return exitYes
}

// unfollowed reports whether a partial row is a recommendation, and not a leg that does not bind the host.
func unfollowed(row report.Reason) bool {
	r, ok := requirements.Get(requirements.ID(row.Requirement))
	return ok && (strings.HasPrefix(r.Level, "SHOULD") || r.Level == "RECOMMENDED")
}
