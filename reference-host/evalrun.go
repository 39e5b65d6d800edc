package referencehost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"wopcert/reference-host/internal/clock"
	"wopcert/reference-host/internal/engine"
	"wopcert/reference-host/internal/evals"
	"wopcert/reference-host/internal/eventlog"
)

const (
	// evalNodeType runs the suite of an eval run; no other run has a use for it.
	evalNodeType = "wopcert.eval"
	// echoAgent is the agent of this host: it answers with the text it is given.
	echoAgent = "wopcert.echo"

	evalStarted         = "eval.started"
	evalScored          = "eval.scored"
	evalCompleted       = "eval.completed"
	invocationStarted   = "agent.invocation-started"
	invocationCompleted = "agent.invocation-completed"
)

type evalStartedPayload struct {
	SuiteID      string   `json:"suiteId"`
	SuiteVersion string   `json:"suiteVersion"`
	TaskCount    int      `json:"taskCount"`
	Modes        []string `json:"modes"`
}

type evalCompletedPayload struct {
	AggregateScore float64 `json:"aggregateScore"`
	Passed         bool    `json:"passed"`
	TaskCount      int     `json:"taskCount"`
	PassedCount    int     `json:"passedCount"`
}

type invocationPayload struct {
	InvocationID string `json:"invocationId"`
	AgentID      string `json:"agentId"`
	Source       string `json:"source,omitempty"`
	Outcome      string `json:"outcome,omitempty"`
}

// runEval has the agent do each task of the run's suite and scores the answers. An attempt that follows one that was
// cut goes on with the first task that has no score.
func (h *Host) runEval(ctx context.Context, call *Call) (Values, error) {
	if call.Run.Eval == nil {
		return nil, &NodeError{Code: "node_config_invalid", Message: "The node is for eval runs only."}
	}
	suite := h.suites[call.Run.Eval.SuiteID]
	summary, err := beginEval(call, suite)
	if err != nil {
		return nil, err
	}
	for i := range suite.Tasks {
		task := &suite.Tasks[i]
		if slices.ContainsFunc(summary.Tasks, func(done evalTask) bool { return done.TaskID == task.ID }) {
			continue
		}
		done, err := evaluate(ctx, call, task)
		if err != nil {
			return nil, err
		}
		summary.score(done)
	}
	summary.Passed = summary.AggregateScore >= *suite.Thresholds.PassScore
	err = recordOnce(call, engine.Entry{Type: evalCompleted, Payload: evalCompletedPayload{
		AggregateScore: summary.AggregateScore, Passed: summary.Passed, TaskCount: summary.TaskCount, PassedCount: summary.PassedCount,
	}})
	if err != nil {
		return nil, err
	}
	encoded, err := encode(summary)
	if err != nil {
		return nil, err
	}
	outputs := make(Values)
	return outputs, json.Unmarshal(encoded, &outputs)
}

// beginEval records eval.started and returns the scores that are on record.
func beginEval(call *Call, suite *evals.Suite) (summary *evalSummary, err error) {
	err = recordOnce(call, engine.Entry{Type: evalStarted, Payload: evalStartedPayload{
		SuiteID: suite.ID, SuiteVersion: suite.Version, TaskCount: len(suite.Tasks), Modes: suite.Modes,
	}})
	if err != nil {
		return nil, err
	}
	var unread error
	err = call.Record(func(log []eventlog.Event) []engine.Entry {
		summary, unread = summarize(*call.Run, log)
		return nil
	})
	return summary, errors.Join(err, unread)
}

// recordOnce records an event of which a run has one.
func recordOnce(call *Call, entry engine.Entry) error {
	return call.Record(func(log []eventlog.Event) []engine.Entry {
		if slices.ContainsFunc(log, func(e eventlog.Event) bool { return e.Type == entry.Type }) {
			return nil
		}
		return []engine.Entry{entry}
	})
}

// evaluate has the agent do one task. Nothing of the question or the answer leaves this function but the score.
func evaluate(ctx context.Context, call *Call, task *evals.Task) (evalTask, error) {
	invocation := invocationPayload{InvocationID: call.Opaque(), AgentID: call.Run.Eval.AgentID, Source: "run-api"}
	if err := call.Emit(engine.Entry{Type: invocationStarted, Payload: invocation}); err != nil {
		return evalTask{}, err
	}
	began := call.Clock.Now()
	output, err := echo(ctx, call.Clock, task.Input)
	if err != nil {
		return evalTask{}, err
	}
	score, err := task.Score(output)
	if err != nil {
		return evalTask{}, err
	}
	done := evalTask{TaskID: task.ID, Score: score, Passed: score == 1, LatencyMs: max(call.Clock.Now().Sub(began).Milliseconds(), 0)}
	invocation.Source, invocation.Outcome = "", "completed"
	return done, call.Emit(
		engine.Entry{Type: invocationCompleted, Payload: invocation},
		engine.Entry{Type: evalScored, Payload: done},
	)
}

// echo is the agent: it answers with input.text, after input.delayMs.
func echo(ctx context.Context, c Clock, input json.RawMessage) (json.RawMessage, error) {
	var question struct {
		Text    string `json:"text"`
		DelayMs int64  `json:"delayMs"`
	}
	if err := json.Unmarshal(input, &question); err != nil {
		return nil, fmt.Errorf("the input of a task: %w", err)
	}
	if err := clock.Sleep(ctx, c, time.Duration(question.DelayMs)*time.Millisecond); err != nil {
		return nil, err
	}
	return encode(question.Text)
}
