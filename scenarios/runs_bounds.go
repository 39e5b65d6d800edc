package scenarios

import (
	"fmt"
	"time"

	"wopcert/harness"
	"wopcert/requirements"
)

// Fixture ids of the workflows that a bound is put on.
const (
	manyNodes   = "conformance-cap-breach"
	longRunning = "conformance-run-duration-breach"
)

// Slack of the times a host is held to: clocks of whole milliseconds on the
// one side, the text's ten seconds and a slow answer on the other.
const (
	early      = 50 * time.Millisecond
	late       = 10 * time.Second
	answerTime = 4 * time.Second
)

// runBounds: runs.md, "run section".
func runBounds() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-run-bounds",
		Title:    "A run that exceeds a bound records the breach and fails with its code",
		Document: "runs.md",
		Section:  "run section",
		Tests: []harness.Test{
			{
				Name:      "node executions",
				Witnesses: []requirements.ID{requirements.RunsRecursionLimitBreach},
				Gates:     []harness.Gate{harness.NeedsFixture(multiNode, manyNodes)},
				Run: func(t *harness.T) {
					body := firstListed(t, object{"workflowId": multiNode}, object{"workflowId": manyNodes})
					bounded(t, body) // it completes when nothing bounds it
					l := limited(t, body, "recursionLimit", 1)
					t.Expect(requirements.RunsRecursionLimitBreach, harness.All(
						breached(l, "node-executions", 1, 1),
						atMost(1, "node.completed", l),
						failsWith(l, "recursion_limit_exceeded"),
					).At(l.last))
					r := create(t, withRun(body, "recursionLimit", 9007199254740991))
					if t.Expect(requirements.RunsRecursionLimitBreach, admitted("the largest recursionLimit", r)) {
						t.Expect(requirements.RunsRecursionLimitBreach, completes(readLog(t, r.Text("runId"), settle)))
					}
				},
			},
			{
				Name:      "duration",
				Witnesses: []requirements.ID{requirements.RunsRunDurationBreach},
				Gates:     []harness.Gate{harness.NeedsFixture(longRunning, delay, cancellable)},
				Slow:      2 * time.Second,
				Run:       durationBreach,
			},
			{
				Name:      "orchestrator turns",
				Witnesses: []requirements.ID{requirements.RunsLoopLimitBreach},
				Gates:     []harness.Gate{harness.AdvertisesFacet("limits", "maxLoopIterations"), harness.NeedsFixture(dispatchLoop)},
				Run: func(t *harness.T) {
					body := object{"workflowId": dispatchLoop}
					if n := len(eventsOfType(bounded(t, body).events, "orchestrator.decided")); n < 2 {
						t.Abort("the supervisor of %s decided %d times when nothing bounds it, so that a bound of one turn shows nothing", dispatchLoop, n)
					}
					l := limited(t, body, "maxLoopIterations", 1)
					t.Expect(requirements.RunsLoopLimitBreach, harness.All(
						breached(l, "loop-iterations", 1, 1),
						atMost(1, "orchestrator.decided", l),
						failsWith(l, "loop_limit_exceeded"),
					).At(l.last))
				},
			},
		},
	}
}

// firstListed is the first body whose workflow the host lists.
func firstListed(t *harness.T, bodies ...object) object {
	for _, body := range bodies {
		if listed(t, body["workflowId"].(string)) {
			return body
		}
	}
	return bodies[0]
}

// withRun is a body with one member of the run section.
func withRun(body object, name string, value int64) object {
	return with(body, "configurable", object{"version": 1, "run": object{name: value}})
}

// bounded runs a workflow under no bound of the test's. The test ends when it
// does not complete.
func bounded(t *harness.T, body object) log {
	_, l := settledRun(t, body)
	if len(eventsOfType(l.events, "run.completed")) == 0 {
		t.Abort("the workflow %v does not complete when nothing bounds it: it has status %q", body["workflowId"], l.status)
	}
	return l
}

// limited runs a workflow under a bound to its end.
func limited(t *harness.T, body object, name string, value int64) log {
	id := startRun(t, withRun(body, name, value))
	return readLog(t, id, settle)
}

// breached checks that a log has one breach of a kind, with the limit and a
// higher count, and that the run failed after it.
func breached(l log, kind string, limit, least float64) harness.Check {
	var found []object
	for _, e := range eventsOfType(l.events, "cap.breached") {
		if harness.Get(e["payload"], "kind") == any(kind) {
			found = append(found, e)
		}
	}
	expected := fmt.Sprintf("one cap.breached of kind %s with limit %v, observed above %v and run.failed after it", kind, limit, least)
	if len(found) != 1 {
		return harness.That(false, expected, "%d of them, of %d cap.breached", len(found), len(eventsOfType(l.events, "cap.breached")))
	}
	payload := found[0]["payload"]
	stated, isNumber := numeric(harness.Get(payload, "limit"))
	observed, counted := numeric(harness.Get(payload, "observed"))
	after := false
	at, _ := sequenceOf(found[0])
	for _, e := range eventsOfType(l.events, "run.failed") {
		seq, ok := sequenceOf(e)
		after = after || ok && seq > at
	}
	return harness.That(isNumber && stated == limit && counted && observed > least && after, expected,
		"%s %s, run.failed after it: %t", label(found[0]), show(payload), after)
}

func atMost(n int, typ string, l log) harness.Check {
	found := len(eventsOfType(l.events, typ))
	return harness.That(found <= n, fmt.Sprintf("at most %d %s", n, typ), "%d %s", found, typ)
}

// failsWith checks that a run's terminal event is a failure with a code.
func failsWith(l log, code string) harness.Check {
	observed := fmt.Sprintf("no terminal event, status %q", l.status)
	for _, e := range l.events {
		if isTerminalType(e["type"]) {
			got, _ := harness.Get(e["payload"], "error", "code").(string)
			observed = fmt.Sprintf("%v with code %q", e["type"], got)
			if e["type"] == "run.failed" && got == code {
				return harness.That(true, "run.failed with code "+code, "%s", observed)
			}
		}
	}
	return harness.That(false, "run.failed with code "+code, "%s", observed)
}

// completes checks that a run ended well.
func completes(l log) harness.Check {
	n := len(eventsOfType(l.events, "run.completed"))
	return harness.That(n > 0, "run.completed", "status %q and %d run.completed", l.status, n).At(l.last)
}

// durationBreach lets a run wait longer than it may.
func durationBreach(t *harness.T) {
	within := func(ms int64) int64 {
		if v, ok := t.Host().Discovery.Facet("limits", "maxRunDurationMs"); ok {
			if most, ok := integer(v); ok && most > 0 {
				return min(ms, most)
			}
		}
		return ms
	}
	wait := func(ms int64) object {
		return firstListed(t, object{"workflowId": longRunning, "inputs": object{"delayMs": ms}},
			object{"workflowId": delay, "inputs": object{"delayMs": ms}},
			object{"workflowId": cancellable, "inputs": object{"delayMs": ms}})
	}
	bounded(t, withRun(wait(100), "runTimeoutMs", within(20_000)))

	allowed := within(1000)
	limit := time.Duration(allowed) * time.Millisecond
	began := time.Now()
	id := startRun(t, withRun(wait(activeFor), "runTimeoutMs", allowed))
	defer endRun(t, id)
	ended := awaitEnd(t, id, limit+late+answerTime)
	took := time.Since(began)
	l := wholeLog(t, id)
	if !t.Expect(requirements.RunsRunDurationBreach, harness.That(ended, fmt.Sprintf("the run ended within %s of its limit", late),
		"status %q after %s", l.status, took.Round(time.Second)).At(l.last)) {
		return
	}
	t.Expect(requirements.RunsRunDurationBreach, harness.All(
		breached(l, "run-duration", float64(allowed), float64(allowed)-float64(early.Milliseconds())-1),
		failsWith(l, "run_timeout"),
		lasted(l, limit, took),
	).At(l.last))
}

// lasted checks when a run ended, by the times of its events. The clock of a
// run may start before its first event does, so that a run is too short only
// when the test's own clock says so too.
func lasted(l log, limit, took time.Duration) harness.Check {
	expected := fmt.Sprintf("run.failed between %s and %s after run.started", limit, limit+late)
	between := took // where the log does not tell
	if started, failed := eventsOfType(l.events, "run.started"), eventsOfType(l.events, "run.failed"); len(started) > 0 && len(failed) > 0 {
		from, err1 := time.Parse(time.RFC3339Nano, text(started[0], "timestamp"))
		to, err2 := time.Parse(time.RFC3339Nano, text(failed[0], "timestamp"))
		if err1 == nil && err2 == nil {
			between = to.Sub(from)
		}
	}
	inTime := (between <= limit+late || between == took) && took <= limit+late+answerTime
	return harness.That((between >= limit-early || took >= limit-early) && inTime, expected, "%s between them, %s from create to end",
		between.Round(time.Millisecond), took.Round(time.Millisecond))
}
