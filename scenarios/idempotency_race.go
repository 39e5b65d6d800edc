package scenarios

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"wopcert/harness"
	"wopcert/requirements"
)

// idempotencyInFlight: idempotency.md, "Layer 1: Idempotency-Key".
func idempotencyInFlight() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-idempotency-in-flight",
		Title:    "Requests with one key at the same time are one request",
		Document: "idempotency.md",
		Section:  "Layer 1: Idempotency-Key",
		Gates:    []harness.Gate{endingFixtures()},
		Tests: []harness.Test{{
			Name: "eight creates with one key at once",
			Witnesses: []requirements.ID{
				requirements.R0213InFlightOneWinner,
				requirements.R0213InFlightLoserOutcome,
			},
			Run: keyRace,
		}},
	}
}

func keyRace(t *harness.T) {
	once := newIdempotencyKey()
	first := createdOnce(t, once, endingBody(t))
	if check := replays(first, create(t, endingBody(t), "Idempotency-Key", once)); !check.OK {
		t.Abort("a create repeated at leisure is no replay, so that one in a race shows nothing more: %s", check.Observed)
	}
	if replayMark(first) == "true" {
		t.Abort("the response to a new key is marked as a replay, so that the mark tells nobody apart")
	}
	other := first.Text("runId")
	body, tag := tagged(endingBody(t))
	key := newIdempotencyKey()
	answers := atOnce(8, func(int) *harness.Response { return create(t, body, "Idempotency-Key", key) })
	notLimited(t, answers)
	if slices.ContainsFunc(answers, func(r *harness.Response) bool { return r.Text("runId") == other }) {
		t.Abort("creates with different keys give the same run %s", other)
	}
	t.Expect(requirements.R0213InFlightOneWinner, oneRun(answers))
	if found, r := taggedRuns(t, harness.Primary, tag); r != nil {
		t.Expect(requirements.R0213InFlightOneWinner, harness.That(len(found) <= 1, "one run in the list",
			"%d runs in the list: %s", len(found), strings.Join(found, ", ")).At(r))
	}
	lostOnes := losers(answers)
	if len(lostOnes) == 0 {
		t.Abort("every request with the key made a run, so that none lost")
	}
	for _, r := range lostOnes {
		t.Expect(requirements.R0213InFlightLoserOutcome, lost(r, answers))
	}
}

// oneRun checks that the answers to one request speak of one run.
func oneRun(answers []*harness.Response) harness.Check {
	var runs []string
	for _, r := range answers {
		if id := r.Text("runId"); r.Is(http.StatusCreated).OK && !slices.Contains(runs, id) {
			runs = append(runs, id)
		}
	}
	observed := fmt.Sprintf("%d runs: %s", len(runs), strings.Join(runs, ", "))
	return harness.That(len(runs) == 1, "one run of eight creates with one key", "%s", observed)
}

// losers are the answers that made no run: all but the first unmarked 201 of
// every run. That there is one run only is a requirement of its own.
func losers(answers []*harness.Response) []*harness.Response {
	var out []*harness.Response
	won := map[string]bool{}
	for _, r := range answers {
		if id := r.Text("runId"); r.Is(http.StatusCreated).OK && replayMark(r) != "true" && !won[id] {
			won[id] = true
			continue
		}
		out = append(out, r)
	}
	return out
}

// lost checks what a request gets whose key another one holds.
func lost(r *harness.Response, answers []*harness.Response) harness.Check {
	const expected = "the winner's 201 with OpenWOP-Idempotent-Replay: true, or 409 idempotency_in_flight"
	if !r.Is(http.StatusCreated).OK {
		check := harness.All(r.Refuses("idempotency_in_flight"), noRetryDetails(heard{"the loser", r}))
		if len(r.Header.Values("Retry-After")) > 0 {
			check = harness.All(check, saysWhen(r))
		}
		check.Expected = expected
		return check
	}
	for _, winner := range answers {
		if winner != r && winner.Is(http.StatusCreated).OK && winner.Text("runId") == r.Text("runId") && replayMark(winner) != "true" {
			return replays(winner, r)
		}
	}
	return harness.That(false, expected, "201 with runId %q, which no unmarked answer has, and OpenWOP-Idempotent-Replay %q",
		r.Text("runId"), replayMark(r)).At(r)
}
