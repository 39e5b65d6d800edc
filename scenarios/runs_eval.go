package scenarios

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"wopcert/harness"
	"wopcert/requirements"
)

// evalNames is the fixture whose metadata says what to name in an eval run.
const evalNames = "wopcert-eval"

// evalRun covers runs of mode eval (runs.md, "Refusals" and "Eval summary").
func evalRun() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-eval-run",
		Title:    "An eval run scores its tasks, and its summary agrees and holds no content",
		Document: "runs.md", Section: "Eval summary",
		Gates: []harness.Gate{harness.AdvertisesFacet("agents", "evalSuite")},
		Tests: []harness.Test{
			{
				Name:      "a create that lacks the suite or the agent is refused",
				Witnesses: []requirements.ID{requirements.RunsEvalMembersRequired},
				Run:       evalNeedsMembers,
			},
			{
				Name:      "the events of an eval run",
				Witnesses: []requirements.ID{requirements.RunsEvalEvents},
				Gates:     []harness.Gate{optIn(evalNames)},
				Run:       evalIsRecorded,
			},
			{
				Name:      "the summary while the run goes on and after it",
				Witnesses: []requirements.ID{requirements.RunsEvalSummary},
				Gates:     []harness.Gate{optIn(evalNames)},
				Slow:      4 * time.Second,
				Run:       evalIsSummed,
			},
			{
				Name:      "no summary of a run that is no eval run",
				Witnesses: []requirements.ID{requirements.RunsEvalSummaryNotEval},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       noSummaryOfOthers,
			},
			{
				Name:      "no content in the summary and the events",
				Witnesses: []requirements.ID{requirements.RunsEvalSummaryContentFree},
				Gates:     []harness.Gate{optIn(evalNames)},
				Run:       evalIsContentFree,
			},
		},
	}
}

// evalFacts are what the fixture says about eval runs on this host.
type evalFacts struct {
	suite, slow, agent string
	canaries           []string
}

// readEvalFacts reads the fixture's metadata. The test ends where the names are
// not there.
func readEvalFacts(t *harness.T) evalFacts {
	r := getWorkflow(t, evalNames)
	properties, _ := r.Get("metadata", "customProperties").(object)
	f := evalFacts{suite: text(properties, "evalSuiteRef"), slow: text(properties, "slowEvalSuiteRef"), agent: text(properties, "agentId")}
	f.canaries, _ = stringList(properties["canaries"])
	if f.suite == "" || f.agent == "" {
		t.Abort("no eval suite to run: metadata.customProperties of %s names no evalSuiteRef and agentId (getWorkflow gave %s)", evalNames, answered(r))
	}
	return f
}

func evalBody(suite, agent string) object {
	return object{"mode": "eval", "evalSuiteRef": suite, "agentId": agent}
}

// settledEval is an eval run that came to its end, and its log.
func settledEval(t *harness.T, suite, agent string) (string, log) {
	r := create(t, evalBody(suite, agent))
	id := r.Text("runId")
	if !r.Is(http.StatusCreated).OK || id == "" {
		t.Abort("no eval run to observe: createRun with mode eval gave %s", answered(r))
	}
	l := readLog(t, id, 2*settle)
	if !l.terminal || len(l.events) == 0 {
		cancel(t, id, object{})
		t.Abort("no finished eval run to observe: status %q and %d events after %s", l.status, len(l.events), 2*settle)
	}
	return id, l
}

// evalNeedsMembers leaves out one member of a create that is otherwise whole
// where the host says what to name, and sends made-up names elsewhere.
func evalNeedsMembers(t *harness.T) {
	suite, agent := "core.wopcert.evals.any", "wopcert.any"
	if listed(t, evalNames) {
		f := readEvalFacts(t)
		suite, agent = f.suite, f.agent
		endRun(t, control(t, harness.Primary, evalBody(suite, agent)).Text("runId"))
	}
	t.Expect(requirements.RunsEvalMembersRequired, create(t, object{"mode": "eval", "agentId": agent}).Refuses("validation_error"))
	t.Expect(requirements.RunsEvalMembersRequired, create(t, object{"mode": "eval", "evalSuiteRef": suite}).Refuses("validation_error"))
}

func evalIsRecorded(t *harness.T) {
	f := readEvalFacts(t)
	_, l := settledEval(t, f.suite, f.agent)
	t.Expect(requirements.RunsEvalEvents, evalCourse(l).At(l.last))
	for _, e := range l.events {
		if check, judged := validPayload(t.Corpus(), e); judged && hasPrefix("eval.")(e) {
			t.Expect(requirements.RunsEvalEvents, check.At(l.last))
		}
	}
	t.Expect(requirements.RunsEvalEvents, evalCounts(l).At(l.last))
}

// evalCourse checks the order of an eval run's events.
func evalCourse(l log) harness.Check {
	const expected = "one eval.started, an eval.scored per task, one eval.completed, then run.completed"
	var course []string
	for _, e := range l.events {
		if typ := text(e, "type"); typ == "run.completed" || hasPrefix("eval.")(e) {
			course = append(course, typ)
		}
	}
	n := len(course)
	ok := n >= 4 && course[0] == "eval.started" && course[n-2] == "eval.completed" && course[n-1] == "run.completed"
	for i := 1; ok && i < n-2; i++ {
		ok = course[i] == "eval.scored"
	}
	return harness.That(ok, expected, "%s", strings.Join(course, ", "))
}

// evalCounts checks the counts of an eval run's events against each other.
func evalCounts(l log) harness.Check {
	const expected = "counts that agree with the scored tasks"
	started, completed := first(l, "eval.started"), first(l, "eval.completed")
	var tasks []string
	passed := int64(0)
	for _, e := range eventsOfType(l.events, "eval.scored") {
		task, _ := harness.Get(e, "payload", "taskId").(string)
		if slices.Contains(tasks, task) {
			return harness.That(false, expected, "the task %q scored twice", task)
		}
		tasks = append(tasks, task)
		if harness.Get(e, "payload", "passed") == true {
			passed++
		}
	}
	for _, count := range []struct {
		what string
		got  any
		want int64
	}{
		{"taskCount of eval.started", started["taskCount"], int64(len(tasks))},
		{"taskCount of eval.completed", completed["taskCount"], int64(len(tasks))},
		{"passedCount of eval.completed", completed["passedCount"], passed},
	} {
		if n, ok := wholeNumber(count.got); !ok || n != count.want {
			return harness.That(false, expected, "%s %s, while %d tasks have an eval.scored and %d passed", count.what, show(count.got), len(tasks), passed)
		}
	}
	return harness.That(true, expected, "%d tasks, %d passed", len(tasks), passed)
}

// first is the payload of the first event of a type.
func first(l log, typ string) object {
	for _, e := range eventsOfType(l.events, typ) {
		payload, _ := e["payload"].(object)
		return payload
	}
	return nil
}

func evalSummary(t *harness.T, runID string) *harness.Response {
	return t.Do(harness.Request{Path: runPath(runID, "/eval-summary")})
}

func evalIsSummed(t *harness.T) {
	f := readEvalFacts(t)
	if f.slow == "" {
		t.Abort("no eval run that takes a while: metadata.customProperties of %s names no slowEvalSuiteRef", evalNames)
	}
	r := create(t, evalBody(f.slow, f.agent))
	id := r.Text("runId")
	if !r.Is(http.StatusCreated).OK || id == "" {
		t.Abort("no eval run to observe: createRun with mode eval gave %s", answered(r))
	}
	defer endRun(t, id)
	early := refusedWith(t.Corpus(), "the summary of a running eval run", evalSummary(t, id), http.StatusConflict)
	if s := get(t, id); !early.OK && (!s.Is(http.StatusOK).OK || endedStatus(s.Text("status"))) {
		t.Abort("no running eval run to observe: %s with status %q", answered(s), s.Text("status"))
	}
	t.Expect(requirements.RunsEvalSummary, early)
	l := readLog(t, id, 2*settle)
	if !l.terminal {
		t.Abort("no finished eval run to observe: status %q after %s", l.status, 2*settle)
	}
	for _, suite := range []string{f.slow, f.suite} {
		if suite == f.suite {
			id, l = settledEval(t, f.suite, f.agent)
		}
		s := evalSummary(t, id)
		if t.Expect(requirements.RunsEvalSummary, harness.All(s.Is(http.StatusOK), s.Valid("eval-summary")).At(s)) {
			t.Expect(requirements.RunsEvalSummary, summaryAgrees(s, l).At(s))
		}
	}
}

// summaryAgrees checks a summary against the events it sums.
func summaryAgrees(s *harness.Response, l log) harness.Check {
	started, completed := first(l, "eval.started"), first(l, "eval.completed")
	checks := []harness.Check{
		same("suiteId", started["suiteId"], s.Get("suiteId")),
		same("suiteVersion", started["suiteVersion"], s.Get("suiteVersion")),
	}
	for _, member := range []string{"aggregateScore", "passed", "taskCount", "passedCount"} {
		checks = append(checks, same(member, completed[member], s.Get(member)))
	}
	tasks := map[string]any{}
	list, _ := s.Get("tasks").([]any)
	for _, task := range list {
		id, _ := harness.Get(task, "taskId").(string)
		tasks[id] = task
	}
	scored := eventsOfType(l.events, "eval.scored")
	checks = append(checks, harness.That(len(list) == len(scored) && len(tasks) == len(scored), "one task per eval.scored", "%d tasks for %d events", len(list), len(scored)))
	for _, e := range scored {
		id, _ := harness.Get(e, "payload", "taskId").(string)
		for _, member := range []string{"score", "passed"} {
			checks = append(checks, same(member+" of the task "+id, harness.Get(e, "payload", member), harness.Get(tasks[id], member)))
		}
	}
	return harness.All(checks...)
}

func noSummaryOfOthers(t *harness.T) {
	id, _ := settledEnding(t)
	t.Expect(requirements.RunsEvalSummaryNotEval, refusedWith(t.Corpus(), "the summary of a run that is no eval run", evalSummary(t, id), http.StatusNotFound))
}

// leastCanaries is how many texts a content-free claim is held to: an output, an
// expected value and rubric prose.
const leastCanaries = 3

func evalIsContentFree(t *harness.T) {
	f := readEvalFacts(t)
	canaries := slices.DeleteFunc(f.canaries, func(c string) bool { return len(c) < 8 })
	if len(canaries) < leastCanaries {
		t.Abort("nothing to look for: metadata.customProperties.canaries of %s has %d texts of 8 characters or more, and %d are needed",
			evalNames, len(canaries), leastCanaries)
	}
	id, l := settledEval(t, f.suite, f.agent)
	s := evalSummary(t, id)
	if !s.Is(http.StatusOK).OK {
		t.Abort("no summary to look through: %s", answered(s))
	}
	t.Expect(requirements.RunsEvalSummaryContentFree, contentFree(t, "the summary", s.JSON(), canaries).At(s))
	seen := 0
	for _, e := range l.events {
		if hasPrefix("eval.")(e) {
			seen++
			t.Expect(requirements.RunsEvalSummaryContentFree, contentFree(t, label(e), e["payload"], canaries).At(l.last))
		}
	}
	if seen == 0 {
		t.Abort("no eval event to look through")
	}
}

// contentFree checks that no text in a JSON value, member names included, holds
// a canary or a credential.
func contentFree(t *harness.T, what string, value any, canaries []string) harness.Check {
	const expected = "no task output, expected value, rubric prose or credential"
	for _, s := range textsIn(value) {
		if slices.ContainsFunc(canaries, func(c string) bool { return strings.Contains(s, c) }) {
			return harness.That(false, expected, "%s holds %q", what, cut(s))
		}
		if t.Discloses(s) {
			return harness.That(false, expected, "%s holds a credential", what)
		}
	}
	return harness.That(true, expected, "%s holds none", what)
}

// textsIn are the strings and member names in a JSON value.
func textsIn(value any) []string {
	var out []string
	switch x := value.(type) {
	case string:
		out = append(out, x)
	case []any:
		for _, e := range x {
			out = append(out, textsIn(e)...)
		}
	case object:
		for name, member := range x {
			out = append(append(out, name), textsIn(member)...)
		}
	}
	return out
}
