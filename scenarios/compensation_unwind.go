package scenarios

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"wopcert/harness"
	"wopcert/harness/receiver"
	"wopcert/requirements"
)

// compensationUnwind: security-defaults.md, "Compensation".
func compensationUnwind() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-compensation-unwind",
		Title:    "What a run did is undone in order, each inverse under one identity, and every attempt is on record",
		Document: "security-defaults.md", Section: "Compensation",
		Tests: []harness.Test{
			{
				Name:      "the last effect first",
				Witnesses: []requirements.ID{requirements.SecurityDefaultsCompensationReverseCompletion},
				Gates:     compensates(unwinds),
				Run:       reverseCompletion,
			},
			{
				Name:      "the last to complete first, whichever began first",
				Witnesses: []requirements.ID{requirements.SecurityDefaultsCompensationReverseCompletion},
				Gates:     compensates(unwindsBeside),
				Run:       completedBeside,
			},
			{
				Name:      "dependents before what they depend on",
				Witnesses: []requirements.ID{requirements.SecurityDefaultsCompensationDependencyGraph},
				Gates: append(compensates(unwindsGraph), harness.HostFact("compensation.orderingModels does not list dependency-graph",
					func(d *harness.Discovery) bool {
						models, _ := d.Facet("compensation", "orderingModels")
						list, _ := stringList(models)
						return slices.Contains(list, "dependency-graph")
					})),
				Run: dependencyGraph,
			},
			{
				Name:      "an inverse that succeeds the second time, and one that never does",
				Witnesses: []requirements.ID{requirements.SecurityDefaultsCompensationAttempts, requirements.SecurityDefaultsCompensationRetryIdentity},
				Gates:     compensates(unwinds),
				Run:       inverseRetried,
			},
			{
				Name:      "the plan while the first inverse is under way",
				Witnesses: []requirements.ID{requirements.SecurityDefaultsCompensationPlanFirst},
				Gates:     compensates(unwinds),
				Run:       planFirst,
			},
		},
	}
}

// inverseTakes is how long the provider takes over an inverse action whose
// order is to be seen: more than a host needs to begin the next one.
const inverseTakes = 150 * time.Millisecond

func slowly() []receiver.Answer {
	answer := done()
	answer.Delay = inverseTakes
	return []receiver.Answer{answer}
}

func reverseCompletion(t *harness.T) {
	undoneInReverse(t, unwound(t, unwinds, inverseAnswers(map[string][]receiver.Answer{"charge": slowly(), "reserve": slowly()})))
}

// completedBeside undoes two nodes that run side by side, of which once the one
// and once the other takes longer at its provider. Neither where they stand in
// the workflow nor when they began says which is undone first.
func completedBeside(t *harness.T) {
	inverses := inverseAnswers(map[string][]receiver.Answer{"charge": slowly(), "reserve": slowly()})
	for _, late := range []string{"reserve", "charge"} {
		undoneInReverse(t, unwound(t, unwindsBeside, func(a receiver.Attempt) receiver.Answer {
			answer := inverses(a)
			if about := askedOf(a); about == (requestOf{node: late}) {
				answer.Delay = 2 * inverseTakes
			}
			return answer
		}))
	}
}

// undoneInReverse checks the order of the plan and of the inverse actions
// against that in which the nodes completed.
func undoneInReverse(t *harness.T, u unwoundRun) {
	var completed []string // the last first
	for _, e := range eventsOfType(u.log.events, "node.completed") {
		if n := nodeOf(e); n == "reserve" || n == "charge" {
			completed = slices.Insert(completed, 0, n)
		}
	}
	if len(completed) != 2 {
		t.Abort("the run completed %v, not the two nodes with an effect", completed)
	}
	t.Expect(requirements.SecurityDefaultsCompensationReverseCompletion, harness.Equal("nodes of the plan in its order", completed, planned(u.projection)).At(u.projection))
	t.Expect(requirements.SecurityDefaultsCompensationReverseCompletion, follows(u.provider.Attempts(), completed[1], completed[0]))
}

// follows checks that the inverse of a node came first after those of others
// had been answered.
func follows(attempts []receiver.Attempt, node string, others ...string) harness.Check {
	expected := fmt.Sprintf("the inverse of %s after those of %v have ended", node, others)
	own := inversesOf(attempts, node)
	if len(own) == 0 {
		return harness.That(false, expected, "no inverse of %s", node)
	}
	for _, other := range others {
		before := inversesOf(attempts, other)
		if len(before) == 0 {
			return harness.That(false, expected, "no inverse of %s", other)
		}
		if gap := own[0].At.Sub(before[len(before)-1].At); gap < inverseTakes {
			return harness.That(false, expected, "it came %d ms after that of %s, which took %d", gap.Milliseconds(), other, inverseTakes.Milliseconds()).AtAttempt(own[0])
		}
	}
	return harness.That(true, expected, "in order")
}

func dependencyGraph(t *harness.T) {
	u := unwound(t, unwindsGraph, inverseAnswers(map[string][]receiver.Answer{"a": slowly(), "b": slowly(), "c": slowly()}))
	plan := planned(u.projection)
	if !slices.Equal(slices.Sorted(slices.Values(plan)), []string{"a", "b", "c"}) {
		t.Abort("the plan of a run of %s holds %v, not its nodes a, b and c", unwindsGraph, plan)
	}
	t.Expect(requirements.SecurityDefaultsCompensationDependencyGraph, follows(u.provider.Attempts(), "a", "b", "c"))
}

// exhausts is how many attempts the fixture allows an inverse action.
const exhausts = 3

func inverseRetried(t *harness.T) {
	refusal := receiver.Answer{Status: http.StatusServiceUnavailable}
	u := unwound(t, unwinds, inverseAnswers(map[string][]receiver.Answer{"charge": {refusal, done()}, "reserve": {refusal}}))
	attempts := u.provider.Attempts()
	charge, reserve := inversesOf(attempts, "charge"), inversesOf(attempts, "reserve")
	if len(charge) == 0 || len(reserve) == 0 {
		t.Abort("no inverse action to observe: %d requests for charge reached the provider, and %d for reserve", len(charge), len(reserve))
	}
	if len(charge) < 2 || len(reserve) < 2 {
		t.Blocked(requirements.SecurityDefaultsCompensationRetryIdentity, "the provider refused the inverse actions and saw %d and %d attempts, too few to compare",
			len(charge), len(reserve))
	} else {
		t.Expect(requirements.SecurityDefaultsCompensationRetryIdentity, harness.All(oneKey(charge), oneKey(reserve)))
		t.Expect(requirements.SecurityDefaultsCompensationRetryIdentity, keysApart(attempts))
	}
	all := triedOf(u.projection)
	t.Expect(requirements.SecurityDefaultsCompensationAttempts, harness.All(
		allAttempts(all, "charge", len(charge), "succeeded"),
		allAttempts(all, "reserve", exhausts, "failed")).At(u.projection))
}

// keysApart checks that each effect and each inverse action has a key no other
// has.
func keysApart(attempts []receiver.Attempt) harness.Check {
	const expected = "a key of its own for every effect and every inverse action"
	of := map[string]requestOf{}
	for _, a := range attempts {
		key, about := providerKey(a), askedOf(a)
		if other, taken := of[key]; key == "" || taken && other != about {
			return harness.That(false, expected, "key %q for %+v and %+v", key, other, about).AtAttempt(a)
		}
		of[key] = about
	}
	return harness.That(true, expected, "%d keys", len(of))
}

// allAttempts checks the attempts at one inverse action: counted from 1, each with
// an outcome, the last one as given and those before failed. A host that tries
// again at the transport need not count that.
func allAttempts(all []tried, node string, most int, outcome string) harness.Check {
	own := slices.DeleteFunc(slices.Clone(all), func(a tried) bool { return a.node != node })
	expected := fmt.Sprintf("the attempts at the inverse of %s, numbered from 1, the last one %s", node, outcome)
	ok := len(own) > 0 && len(own) <= most && (outcome != "failed" || len(own) == most)
	for i, a := range own {
		want := "failed"
		if i == len(own)-1 {
			want = outcome
		}
		ok = ok && a.attempt == int64(i+1) && a.outcome == want
	}
	return harness.That(ok, expected, "%+v", own)
}

func planFirst(t *harness.T) {
	held, script := newHeldBack(t)
	defer held.release()
	u := unwinding(t, unwinds, script)
	u.awaitInverse(t)
	projection, l := compensationOf(t, u.id), wholeLog(t, u.id)
	held.release()
	t.Expect(requirements.SecurityDefaultsCompensationPlanFirst, harness.That(len(eventsOfType(l.events, "compensation.requested")) == 1,
		"compensation.requested before the first inverse action", "%d events of that type among %d",
		len(eventsOfType(l.events, "compensation.requested")), len(l.events)).At(l.last))
	plan := slices.Sorted(slices.Values(planned(projection)))
	t.Expect(requirements.SecurityDefaultsCompensationPlanFirst, harness.Equal("nodes of the plan before the first inverse action has ended",
		[]string{"charge", "reserve"}, plan).At(projection))
}
