package referencehost

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"wopcert/reference-host/internal/evals"
	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/workflow"
)

// evalWorkflowID is the workflow an eval run reads as a run of. A host holds a workflow of that id for clients to look
// up the names of the suites and the agent in; what an eval run executes is the definition below.
const evalWorkflowID = "wopcert-eval"

const evalDefinition = `{"id":"` + evalWorkflowID + `","name":"Eval run","version":"1.0","nodes":[{"id":"suite","typeId":"` + evalNodeType + `",
"name":"Run the suite","position":{"x":0,"y":0},"config":{},"inputs":{}}],"edges":[],"triggers":[],"variables":[],"metadata":{},"settings":{}}`

// What createRun takes for an eval run, and the facet it needs.
const (
	modeEval       = "eval"
	evalCapability = "agents.evalSuite"
)

// loadEvals makes the suites and the workflow of eval runs.
func (h *Host) loadEvals() (err error) {
	if h.suites, err = evals.Builtin(h.contract); err != nil {
		return err
	}
	h.evalRun, err = workflow.Parse(h.contract, []byte(evalDefinition))
	return err
}

// definition is the workflow a run executes, nil when the host holds it no more.
func (h *Host) definition(run eventlog.Run) *workflow.Definition {
	if run.Eval != nil {
		return h.evalRun
	}
	if own := h.own[run.WorkflowID]; own != nil {
		return own
	}
	return h.workflows[run.WorkflowID]
}

// resolveEval finds the suite and the agent of an eval run and fits the run to them (runs.md §Refusals). That the host
// advertises eval runs at all was established before.
func (h *Host) resolveEval(body *createBody, run *eventlog.Run) (*workflow.Definition, error) {
	suite, ok := h.suites[body.EvalSuiteRef]
	switch {
	case !ok:
		return nil, h.codes.invalid("evalSuiteRef", "This host has no such eval suite.")
	case body.AgentID != echoAgent:
		return nil, h.codes.invalid("agentId", "This host has no such agent.")
	case suite.TargetAgentID != "" && suite.TargetAgentID != body.AgentID:
		return nil, h.codes.invalid("agentId", "The eval suite is for another agent.")
	case int64(len(suite.Tasks)) > h.facetInt(maxTasksInSuite, "agents", "evalSuite", "maxTasksPerSuite"):
		return nil, h.codes.invalid("evalSuiteRef", "The eval suite has more tasks than this host takes.")
	}
	modes := h.facetWords("agents", "evalSuite", "modes")
	for _, mode := range suite.Modes {
		if !slices.Contains(modes, mode) {
			return nil, h.codes.invalid("evalSuiteRef", "The eval suite has a mode this host does not run.")
		}
	}
	run.WorkflowID = evalWorkflowID
	run.Eval = &eventlog.Eval{SuiteID: suite.ID, SuiteVersion: suite.Version, AgentID: body.AgentID}
	return h.evalRun, nil
}

// evalTask is a task in the summary; the same members are in eval.scored.
type evalTask struct {
	TaskID    string  `json:"taskId"`
	Score     float64 `json:"score"`
	Passed    bool    `json:"passed"`
	LatencyMs int64   `json:"latencyMs"`
}

// evalSummary is the scorecard: ids, scores and counts, nothing of what was asked or answered (runs.md §Eval summary).
type evalSummary struct {
	SuiteID        string     `json:"suiteId"`
	SuiteVersion   string     `json:"suiteVersion"`
	AggregateScore float64    `json:"aggregateScore"`
	Passed         bool       `json:"passed"`
	TaskCount      int        `json:"taskCount"`
	PassedCount    int        `json:"passedCount"`
	Tasks          []evalTask `json:"tasks"`
}

// summarize folds the log of an eval run. A run that ended before its last task has the scores it came to, and has not
// passed.
func summarize(run eventlog.Run, events []eventlog.Event) (*evalSummary, error) {
	summary := &evalSummary{SuiteID: run.Eval.SuiteID, SuiteVersion: run.Eval.SuiteVersion, Tasks: []evalTask{}}
	for _, event := range events {
		switch event.Type {
		case evalScored:
			var task evalTask
			if err := json.Unmarshal(event.Payload, &task); err != nil {
				return nil, fmt.Errorf("an eval.scored event: %w", err)
			}
			summary.score(task)
		case evalCompleted:
			var payload evalCompletedPayload
			if err := json.Unmarshal(event.Payload, &payload); err != nil {
				return nil, fmt.Errorf("an eval.completed event: %w", err)
			}
			summary.Passed = payload.Passed
		}
	}
	return summary, nil
}

// score adds one task; the aggregate is the mean.
func (s *evalSummary) score(task evalTask) {
	s.AggregateScore = (s.AggregateScore*float64(s.TaskCount) + task.Score) / float64(s.TaskCount+1)
	s.TaskCount++
	if task.Passed {
		s.PassedCount++
	}
	s.Tasks = append(s.Tasks, task)
}

func (h *Host) getEvalSummary(r *request) (*answer, error) {
	log, err := h.openRun(r)
	if err != nil {
		return nil, err
	}
	run := log.Run()
	if run.Eval == nil {
		return nil, h.codes.missing("eval run")
	}
	state, err := projectLog(log)
	if err != nil {
		return nil, err
	}
	if !state.terminal() {
		return nil, h.codes.conflict(state.status())
	}
	events, err := log.Read(-1)
	if err != nil {
		return nil, err
	}
	summary, err := summarize(run, events)
	if err != nil {
		return nil, err
	}
	return jsonAnswer(http.StatusOK, summary), nil
}
