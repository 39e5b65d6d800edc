package faults

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/reference-host/tamper/logs"
)

// cutNode is the node that an immediate pause has cut, "" for a drained one.
func cutNode(d referencehost.Draft) string {
	p, _ := tamper.Decode(d.Payload).(object)
	return text(p["interruptedNodeId"])
}

// attemptEnd is an event that ends an attempt of a node.
func attemptEnd(typ string, like referencehost.Draft, node string) referencehost.Draft {
	end := like
	end.EventID, end.Type, end.NodeID, end.CausationID = like.EventID+"-end", typ, node, ""
	p := object{"nodeId": node}
	if typ == "node.failed" {
		p["error"] = object{"code": "internal_error", "message": "the run was paused"}
	}
	end.Payload = tamper.Encode(p)
	return end
}

// beforePause ends the attempt that a pause cuts.
func beforePause(typ string) func(*referencehost.Config) {
	return aroundPause(func(paused referencehost.Draft, node string) []referencehost.Draft {
		return []referencehost.Draft{attemptEnd(typ, paused, node), paused}
	})
}

// afterPause ends it once the run is paused.
func afterPause(typ string) func(*referencehost.Config) {
	return aroundPause(func(paused referencehost.Draft, node string) []referencehost.Draft {
		return []referencehost.Draft{paused, attemptEnd(typ, paused, node)}
	})
}

func aroundPause(edit func(paused referencehost.Draft, node string) []referencehost.Draft) func(*referencehost.Config) {
	return logs.Decorating(logs.Edit{Append: func(_ referencehost.Log, drafts []referencehost.Draft) []referencehost.Draft {
		var out []referencehost.Draft
		for _, d := range drafts {
			if node := cutNode(d); d.Type == "run.paused" && node != "" {
				out = append(out, edit(d, node)...)
				continue
			}
			out = append(out, d)
		}
		return out
	}})
}

// startedWhilePaused starts the second node of a run that was paused once the
// first had ended.
func startedWhilePaused() func(*referencehost.Config) {
	return logs.Decorating(logs.Edit{Append: func(log referencehost.Log, drafts []referencehost.Draft) []referencehost.Draft {
		var out []referencehost.Draft
		for _, d := range drafts {
			out = append(out, d)
			if d.Type == "run.paused" && cutNode(d) == "" && log.Run().WorkflowID == "wopcert-two-delays" {
				next := attemptEnd("node.started", d, "b")
				out = append(out, next)
			}
		}
		return out
	}})
}

// nextNodeFirst runs the second node of a run before the pause that drains the
// first one is recorded.
func nextNodeFirst() func(*referencehost.Config) {
	return logs.Decorating(logs.Edit{Append: func(log referencehost.Log, drafts []referencehost.Draft) []referencehost.Draft {
		var out []referencehost.Draft
		for _, d := range drafts {
			if d.Type == "run.paused" && cutNode(d) == "" && log.Run().WorkflowID == "wopcert-two-delays" {
				started := attemptEnd("node.started", d, "b")
				started.EventID += "-first"
				out = append(out, started, attemptEnd("node.completed", d, "b"))
			}
			out = append(out, d)
		}
		return out
	}})
}

// withoutRestart leaves out every node.started behind a resume.
func withoutRestart() func(*referencehost.Config) {
	return logs.Decorating(logs.Edit{Append: func(log referencehost.Log, drafts []referencehost.Draft) []referencehost.Draft {
		events, _ := log.Read(-1)
		isResume := func(e referencehost.Event) bool { return e.Type == "run.resumed" }
		resumed := slices.ContainsFunc(events, isResume)
		return slices.DeleteFunc(drafts, func(d referencehost.Draft) bool {
			resumed = resumed || d.Type == "run.resumed"
			return resumed && d.Type == "node.started" && log.Run().WorkflowID == "conformance-cancellable"
		})
	}})
}

// orphaned lets the child of the fixture about cancelled parents go on.
func orphaned() func(*referencehost.Config) {
	return func(c *referencehost.Config) {
		all := slices.Clone(c.Fixtures)
		for i, w := range all {
			if w.ID != "conformance-interrupt-parent-child-cancel" {
				continue
			}
			doc, _ := tamper.Decode(w.Document).(object)
			nodes, _ := doc["nodes"].([]any)
			for _, v := range nodes {
				node := v.(object)
				if config, ok := node["config"].(object); ok && config["workflowId"] != nil {
					config["propagateCancellation"] = false
				}
			}
			all[i].Document = tamper.Encode(doc)
		}
		c.Fixtures = all
	}
}

// cancelledTwice records a second run.cancelled for a run that several cancel
// at once.
func cancelledTwice(c *referencehost.Config) {
	store := logs.NewBehind(c.Store)
	c.Store = store
	var mu sync.Mutex
	cancels := map[string]int{}
	c.Wrap = append(c.Wrap, tamper.Answers(tamper.CancelRun, func(r *http.Request, _ *tamper.Answer) {
		id := strings.Replace(tamper.RunSegment(r), "~2F", "/", 1)
		mu.Lock()
		cancels[id]++
		n := cancels[id]
		mu.Unlock()
		log, err := store.Open(r.Context(), id)
		if n != 3 || err != nil {
			return
		}
		events, _ := log.Read(-1)
		last := events[len(events)-1]
		if last.Type == "run.cancelled" {
			last.EventID += "-again"
			store.Add(id, last.Draft)
		}
	}))
}
