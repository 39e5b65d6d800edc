package scenarios

import (
	"net/http"
	"slices"
	"time"

	"wopcert/harness"
	"wopcert/harness/receiver"
	"wopcert/requirements"
)

// compensationOutcomes: security-defaults.md, "Compensation".
func compensationOutcomes() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-compensation-outcomes",
		Title:    "What an unwind came to is told as it is, and is not done again",
		Document: "security-defaults.md", Section: "Compensation",
		Tests: []harness.Test{
			{
				Name:      "everything undone, and one thing not",
				Witnesses: []requirements.ID{requirements.SecurityDefaultsCompensationRollup},
				Gates:     compensates(unwinds),
				Run: func(t *harness.T) {
					rolledUp(t, unwound(t, unwinds, nil), "completed", "completed")
					rolledUp(t, unwound(t, unwinds, inverseAnswers(map[string][]receiver.Answer{
						"reserve": {{Status: http.StatusServiceUnavailable}}})), "partial", "partial")
				},
			},
			{
				Name:      "an unwind that needs an operator",
				Witnesses: []requirements.ID{requirements.SecurityDefaultsCompensationManual},
				Gates: append(compensates(unwindsManual), harness.HostFact("compensation.manualIntervention is not advertised",
					func(d *harness.Discovery) bool {
						manual, _ := d.Facet("compensation", "manualIntervention")
						return manual == true
					})),
				Run: heldForOperator,
			},
			{
				Name:      "a replay of a run that was undone",
				Witnesses: []requirements.ID{requirements.SecurityDefaultsCompensationReplayNoRefire},
				Gates:     append(compensates(unwinds), harness.Advertises("replay"), servesMode("replay")),
				Run:       inversesNotRefired,
			},
		},
	}
}

// rolledUp asserts what snapshot and projection say of an unwind. The two need
// not change at one moment.
func rolledUp(t *harness.T, u unwoundRun, snapshot, projection string) {
	for range 20 {
		if get(t, u.id).Get("compensationStatus") == any(snapshot) {
			break
		}
		pause(t, 50*time.Millisecond)
	}
	s := get(t, u.id)
	t.Expect(requirements.SecurityDefaultsCompensationRollup, harness.All(s.Is(http.StatusOK),
		harness.Equal("compensationStatus", any(snapshot), s.Get("compensationStatus"))).At(s))
	r := compensationOf(t, u.id)
	t.Expect(requirements.SecurityDefaultsCompensationRollup, harness.All(r.Is(http.StatusOK),
		harness.Equal("status of the projection", any(projection), r.Get("status"))).At(r))
}

func heldForOperator(t *harness.T) {
	u := unwinding(t, unwindsManual, inverseAnswers(map[string][]receiver.Answer{"charge": {{Status: http.StatusServiceUnavailable}}}))
	defer endRun(t, u.id)
	u.awaitInverse(t)
	u.rests(t)
	t.Expect(requirements.SecurityDefaultsCompensationManual, harness.All(u.projection.Is(http.StatusOK),
		harness.Equal("status of the projection", any("manual-intervention"), u.projection.Get("status")),
		harness.Equal("planned nodes", []string{"charge", "reserve"}, slices.Sorted(slices.Values(planned(u.projection))))).At(u.projection))
	s := get(t, u.id)
	t.Expect(requirements.SecurityDefaultsCompensationManual, harness.Equal("compensationStatus", any("manual"), s.Get("compensationStatus")).At(s))
}

func inversesNotRefired(t *harness.T) {
	u := unwound(t, unwinds, nil)
	sent := u.provider.Count()
	if len(inversesOf(u.provider.Attempts(), "")) == 0 {
		t.Abort("no inverse action reached the provider, so that silence of a replay shows nothing")
	}
	for _, at := range []int64{0, seqOf(startOf(u.log.events, "ship"))} {
		child := forkedFrom(t, u.id, "replay", at)
		defer endRun(t, child)
		if !awaitEnd(t, child, settle) {
			t.Abort("the replay from %d did not end within %s", at, settle)
		}
		for range 40 { // an unwind of the replay would begin now
			if !slices.Contains([]string{"none", "pending", "running"}, compensationOf(t, child).Text("status")) {
				break
			}
			pause(t, 10*time.Millisecond)
		}
	}
	unwound(t, unwinds, nil) // what an unwind of a replay sends would have come before its inverses
	attempts := u.provider.Attempts()
	check := harness.That(len(attempts) <= sent, "the requests of the source and no more", "%d and then %d", sent, len(attempts))
	if len(attempts) > sent {
		check = check.AtAttempt(attempts[sent])
	}
	t.Expect(requirements.SecurityDefaultsCompensationReplayNoRefire, check)
}

// compensationCancel: runs.md, "Cancel".
func compensationCancel() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-compensation-cancel",
		Title:    "A cancel does not stop in silence what undoes a run",
		Document: "runs.md", Section: "Cancel",
		Tests: []harness.Test{
			{
				Name:      "a failed run that is being undone",
				Witnesses: []requirements.ID{requirements.RunsCancelKeepsCompensation},
				Gates:     compensates(unwinds),
				Run: func(t *harness.T) {
					held, script := newHeldBack(t)
					defer held.release()
					u := unwinding(t, unwinds, script)
					cancelledMeanwhile(t, u, held)
				},
			},
			{
				Name:      "a cancelled run that is being undone",
				Witnesses: []requirements.ID{requirements.RunsCancelKeepsCompensation},
				Gates:     compensates(unwindsHeld),
				Run: func(t *harness.T) {
					held, script := newHeldBack(t)
					defer held.release()
					u := unwinding(t, unwindsHeld, script)
					awaitLogged(t, u.id, ofNode("ship", "node.started"), settle)
					if r := cancel(t, u.id, object{}); !r.Is(http.StatusOK).OK {
						t.Abort("no cancelled run to observe: cancelRun gave %s", answered(r))
					}
					cancelledMeanwhile(t, u, held)
				},
			},
		},
	}
}

// cancelledMeanwhile cancels a run while its first inverse action is under way
// and asserts that the unwind goes on, or says why not.
func cancelledMeanwhile(t *harness.T, u unwoundRun, held *heldBack) {
	u.awaitInverse(t)
	r := cancel(t, u.id, object{"reason": "while it is undone"})
	if !r.Is(http.StatusOK).OK && !r.Refuses("run_terminal").OK {
		t.Abort("the cancel of a run that is being undone was answered %s", answered(r))
	}
	held.release()
	rested := u.rests(t)
	status := u.projection.Text("status")
	said := slices.ContainsFunc(u.log.events, ofType("compensation.paused", "compensation.manual-intervention-required"))
	whole := rested && status == "completed" && len(inversesOf(u.provider.Attempts(), "reserve")) > 0
	t.Expect(requirements.RunsCancelKeepsCompensation, harness.That(whole || said,
		"an unwind that comes to its end, or an event that says that it is held", "status %q of the projection after %s, with %d inverse requests",
		status, settle, len(inversesOf(u.provider.Attempts(), ""))).At(u.projection))
}
