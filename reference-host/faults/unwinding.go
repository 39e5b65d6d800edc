package faults

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/reference-host/tamper/outbound"
	"wopcert/requirements"
)

// plans is a store in which compensation plans are not what the host has made.
type plans struct {
	referencehost.Store
	edit func(plan object)
}

// Update implements referencehost.Store.
func (s plans) Update(ctx context.Context, table, key string, change func(now []byte) ([]byte, error)) error {
	if table != "compensation-plans" {
		return s.Store.Update(ctx, table, key, change)
	}
	return s.Store.Update(ctx, table, key, func(now []byte) ([]byte, error) {
		changed, err := change(now)
		plan, ok := tamper.Decode(changed).(object)
		if err != nil || now != nil || !ok {
			return changed, err
		}
		s.edit(plan)
		return tamper.Encode(plan), nil
	})
}

// planned edits the plans of runs before anybody reads them.
func planned(edit func(plan object)) func(*referencehost.Config) {
	return func(c *referencehost.Config) { c.Store = plans{c.Store, edit} }
}

// plannedEntries edits the entries of plans of an ordering model.
func plannedEntries(ordering string, edit func(list []any) []any) func(*referencehost.Config) {
	return planned(func(plan object) {
		if list, ok := plan["entries"].([]any); ok && plan["ordering"] == ordering {
			plan["entries"] = edit(list)
		}
	})
}

func backwards(list []any) []any {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

func unwindFaults() []Fault {
	reverse, graph := requirements.SecurityDefaultsCompensationReverseCompletion, requirements.SecurityDefaultsCompensationDependencyGraph
	identity, attempts := requirements.SecurityDefaultsCompensationRetryIdentity, requirements.SecurityDefaultsCompensationAttempts
	refire, cancel := requirements.SecurityDefaultsCompensationReplayNoRefire, requirements.RunsCancelKeepsCompensation
	var forwardKeys, stopped notes[string]
	return []Fault{
		made("unwind-in-order", "What was done first is undone first.", "nodes of the plan|the inverse of",
			plannedEntries("reverse-completion", backwards), reverse),
		made("unwind-by-place", "What stands last in the workflow is undone first.", "nodes of the plan|the inverse of",
			plannedEntries("reverse-completion", func(list []any) []any {
				list = slices.Clone(list)
				slices.SortFunc(list, func(a, b any) int { return strings.Compare(text(a.(object)["nodeId"]), text(b.(object)["nodeId"])) })
				return list
			}), reverse),
		made("unwind-against-dependencies", "What others depend on is undone before them.", "the inverse of",
			plannedEntries("dependency-graph", backwards), graph),
		made("unwind-by-name", "What is undone by dependencies is undone in the order of names.", "the inverse of",
			plannedEntries("dependency-graph", func(list []any) []any {
				list = slices.Clone(list)
				slices.SortFunc(list, func(a, b any) int { return strings.Compare(text(a.(object)["nodeId"]), text(b.(object)["nodeId"])) })
				return list
			}), graph),
		made("inverse-key-per-attempt", "Every attempt at an inverse action shows the provider another key.", "one idempotency key",
			sendingEffects(func(e *referencehost.Effect) {
				if e.Inverse != "" {
					e.Header.Set(providerKeyHeader, e.Header.Get(providerKeyHeader)+"-"+strconv.Itoa(e.Attempt))
				}
			}), identity),
		made("inverse-key-of-the-effect", "An inverse action shows the provider the key of what it undoes.", "a key of its own",
			sendingEffects(func(e *referencehost.Effect) {
				of := e.RunID + " " + e.NodeID
				if e.Inverse == "" {
					forwardKeys.put(of, e.Header.Get(providerKeyHeader))
				} else if was, ok := forwardKeys.get(of); ok {
					e.Header.Set(providerKeyHeader, was)
				}
			}), identity),
		made("inverse-key-of-the-run", "All inverse actions of a run show the provider one key.", "a key of its own",
			sendingEffects(func(e *referencehost.Effect) {
				if e.Inverse != "" {
					_, opaque, _ := strings.Cut(e.RunID, "/")
					e.Header.Set(providerKeyHeader, "undo-"+opaque)
				}
			}), identity),
		made("inverse-tried-once", "An inverse action that fails is not tried again.", "numbered from 1|too few to compare",
			decorators(func(c *referencehost.Config) { c.Effects.Attempts = 1 }, planned(func(plan object) {
				list, _ := plan["entries"].([]any)
				for _, v := range list {
					v.(object)["maxAttempts"] = 1
				}
			})), attempts).blocking(identity),
		made("replay-undoes-again", "A replay of a run that was undone undoes it.", "no more", replaysLive("wopcert-compensation"), refire),
		watching("replay-sends-inverses", "A replay sends the inverse actions of its source.", "no more", func(s *sent) tamper.Middleware {
			return forked(func(doc object) {
				if doc["mode"] == "replay" {
					s.again(text(doc["sourceRunId"]), func(e *referencehost.Effect) bool { return e.Inverse != "" })
				}
			})
		}, refire),
		{ID: "cancel-ends-the-unwind", Summary: "A cancel of a run that is being undone ends the undoing.", Reason: "an unwind that comes to its end", Breaks: []requirements.ID{cancel},
			Wrap: tamper.Instead(tamper.CancelRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				a := tamper.Record(next, r)
				if doc, _ := a.JSON(); doc["error"] == "run_terminal" {
					stopped.put(strings.ReplaceAll(tamper.RunSegment(r), "~2F", "/"), "")
				}
				a.Send(w)
			}),
			Decorate: outbound.Leaving(func(ctx context.Context, e referencehost.Effect, next referencehost.Sender) (*referencehost.Outcome, error) {
				if _, ended := stopped.get(e.RunID); ended && e.Inverse != "" {
					return nil, errors.New("the run was cancelled")
				}
				return next.Send(ctx, e)
			})},
	}
}
