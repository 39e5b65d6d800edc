package scenarios

import (
	"slices"

	"wopcert/harness"
)

// startsChildren reports whether the host says that its runs start child runs.
func startsChildren(d *harness.Discovery) bool {
	return d.Advertises("subWorkflow") || slices.Contains(d.Fixtures(), cascadeParent)
}

// childOf creates a run of a workflow that starts a run of another one, and
// returns both: the child as the parent's log names it, or as the one run of
// its workflow that the run list has and had not before. The test ends when no
// child can be told.
func childOf(t *harness.T, workflow, childWorkflow string) (parent, child string) {
	before := runsOf(t, childWorkflow)
	parent = startRun(t, object{"workflowId": workflow})
	dispatched, ok := awaitLogged(t, parent, func(e object) bool {
		return ofType("node.dispatched")(e) && harness.Get(e, "payload", "childWorkflowId") == any(childWorkflow) || isTerminalType(e["type"])
	}, settle)
	if id, named := harness.Get(dispatched, "payload", "childRunId").(string); ok && named {
		return parent, id
	}
	fresh := slices.DeleteFunc(runsOf(t, childWorkflow), func(id string) bool { return slices.Contains(before, id) })
	if len(fresh) != 1 {
		endRun(t, parent)
		t.Abort("no child run to observe: the log of the run of %s names none, and the run list has %d new runs of %s", workflow, len(fresh), childWorkflow)
	}
	return parent, fresh[0]
}

// runsOf are the runs of a workflow on the newest page of the run list.
func runsOf(t *harness.T, workflow string) []string {
	if !t.Host().Discovery.Advertises("runList") {
		return nil
	}
	var out []string
	runs, _ := list(t, harness.Primary, widePage(t)).Get("runs").([]any)
	for _, run := range runs {
		if doc, _ := run.(object); text(doc, "workflowId") == workflow {
			out = append(out, text(doc, "runId"))
		}
	}
	return out
}
