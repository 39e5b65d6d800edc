package faults

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// diffed edits the answer to a diff.
func diffed(edit func(r *http.Request, doc object)) tamper.Middleware {
	return tamper.JSON(tamper.DiffRun, http.StatusOK, func(r *http.Request, doc map[string]any) { edit(r, doc) })
}

// ofItself edits the diff of a run with itself.
func ofItself(edit func(doc object)) tamper.Middleware {
	return diffed(func(_ *http.Request, doc object) {
		if doc["a"] == doc["b"] {
			edit(doc)
		}
	})
}

// ofOthers edits the diff of runs that differ.
func ofOthers(edit func(doc object, list []any)) tamper.Middleware {
	return diffed(func(_ *http.Request, doc object) {
		if list, _ := doc["eventDiffs"].([]any); len(list) > 0 {
			edit(doc, list)
		}
	})
}

// ofTwins adds an entry to the diff of two runs that did the same: the first
// event of each for which pick says so.
func ofTwins(pick func(e object) bool) tamper.Middleware {
	return tamper.Instead(tamper.DiffRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := tamper.Record(next, r)
		doc, ok := a.JSON()
		list, _ := doc["eventDiffs"].([]any)
		if ok && a.Status == http.StatusOK && doc["a"] != doc["b"] && len(list) == 0 {
			one, other := logOf(next, r, text(doc["a"])), logOf(next, r, text(doc["b"]))
			i := slices.IndexFunc(one, func(v any) bool { e, _ := v.(object); return pick(e) })
			if i >= 0 && i < len(other) {
				seq := integer(one[i].(object)["sequence"])
				doc["divergedAtSeq"] = seq
				doc["eventDiffs"] = []any{object{"seq": seq, "op": "changed", "aEvent": one[i], "bEvent": other[i]}}
				a.SetJSON(doc)
			}
		}
		a.Send(w)
	})
}

// logOf polls the log of a run.
func logOf(next http.Handler, like *http.Request, runID string) []any {
	doc, _ := tamper.Ask(next, like, http.MethodGet, "/runs/"+projected(runID)+"/events/poll?timeout=1", nil).JSON()
	list, _ := doc["events"].([]any)
	return list
}

// diffRefusal edits the refusal of a diff that names a run of another tenant;
// against says that it is named in the query.
func diffRefusal(edit func(a *tamper.Answer, against bool)) tamper.Middleware {
	return tamper.Answers(tamper.DiffRun, func(r *http.Request, a *tamper.Answer) {
		if a.Status == http.StatusForbidden {
			own, _, _ := strings.Cut(segmentOf(r), "~2F")
			other := strings.NewReplacer("~2F", "/").Replace(r.URL.Query().Get("against"))
			tenant, _, _ := strings.Cut(other, "/")
			edit(a, tenant != own)
		}
	})
}

// knownRuns remembers which runs there are.
type knownRuns struct {
	mu  sync.Mutex
	ids map[string]bool
}

func (k *knownRuns) has(runID string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ids[runID]
}

// diffOracle answers a diff against a run of another tenant 404 when there is
// no such run.
func diffOracle() tamper.Middleware {
	return func(next http.Handler) http.Handler {
		known := &knownRuns{ids: map[string]bool{}}
		noting := tamper.JSON(tamper.CreateRun, http.StatusCreated, func(_ *http.Request, doc map[string]any) {
			known.mu.Lock()
			defer known.mu.Unlock()
			known.ids[text(doc["runId"])] = true
		})(next)
		return tamper.Answers(tamper.DiffRun, func(r *http.Request, a *tamper.Answer) {
			against := strings.ReplaceAll(r.URL.Query().Get("against"), "~2F", "/")
			if a.Status == http.StatusForbidden && !known.has(against) {
				a.Refuse(http.StatusNotFound, "not_found", "no such run")
			}
		})(noting)
	}
}

// foreignDiff compares with a run of another tenant: with the caller's own run
// in its place, which the caller cannot tell.
func foreignDiff() tamper.Middleware {
	return tamper.Instead(tamper.DiffRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		a := tamper.Record(next, r)
		if a.Status == http.StatusForbidden {
			r = r.Clone(r.Context())
			tamper.SetQuery(r, "against", tamper.RunSegment(r))
			a = tamper.Record(next, r)
		}
		a.Send(w)
	})
}

func diffFaults() []Fault {
	identical, pure := requirements.R0170RunDiffIdentical, requirements.RunsDiffPure
	scoped, truncated := requirements.RunsDiffRunScopedExcluded, requirements.RunsDiffTruncated
	authorized := requirements.RunsDiffAuthorization
	return []Fault{
		wire("diff-of-itself-diverges-at-zero", "A run diverges from itself at sequence 0.",
			"divergedAtSeq", ofItself(func(doc object) { doc["divergedAtSeq"] = 0 }), identical),
		wire("diff-of-itself-diverges-nowhere", "The diff of a run with itself does not say whether it diverges.",
			"divergedAtSeq", ofItself(func(doc object) { delete(doc, "divergedAtSeq") }), identical),
		wire("diff-of-itself-of-everything", "The diff of a run with itself lists its first event as changed.",
			"eventDiffs", ofItself(func(doc object) { doc["eventDiffs"] = []any{object{"seq": 0, "op": "changed"}} }), identical),
		wire("diff-of-itself-without-list", "The diff of a run with itself has null for a list of events.",
			"eventDiffs", ofItself(func(doc object) { doc["eventDiffs"] = nil }), identical),
		wire("diff-newest-first", "A diff lists the sequences that differ from the last to the first.",
			"seq", ofOthers(func(_ object, list []any) { slices.Reverse(list) }), pure),
		wire("diff-diverges-at-end", "A diff gives the last sequence that differs as the one where the runs diverged.",
			"divergedAtSeq", ofOthers(func(doc object, list []any) { doc["divergedAtSeq"] = list[len(list)-1].(object)["seq"] }), pure),
		wire("diff-without-divergence", "A diff of runs that differ says that they do not diverge.",
			"divergedAtSeq", ofOthers(func(doc object, _ []any) { doc["divergedAtSeq"] = nil }), pure).
			also("divergedAtSeq absent", requirements.PersistenceDiffTranslated),
		wire("diff-of-types-alone", "A diff looks at the types of events and at nothing in them.",
			"divergedAtSeq", ofOthers(func(doc object, list []any) {
				list = slices.DeleteFunc(list, func(d any) bool { return d.(object)["op"] == "changed" && sameType(d.(object)) })
				doc["eventDiffs"], doc["divergedAtSeq"] = list, nil
				if len(list) > 0 {
					doc["divergedAtSeq"] = list[0].(object)["seq"]
				}
			}), pure),
		wire("diff-op-modified", "A diff calls a change by another word.",
			"op", ofOthers(func(_ object, list []any) { list[0].(object)["op"] = "modified" }), pure).
			also("does not match run-diff-response: /eventDiffs/0/op: value", requirements.PersistenceDiffTranslated),
		wire("diff-with-time", "A diff says when it was made, and is another one each time.",
			"second|again|equal", diffPerRead(), pure),
		wire("diff-of-run-ids", "Two runs that did the same differ in what names the run.",
			"changed|divergedAtSeq", ofTwins(func(e object) bool { return e["type"] == "run.started" }), scoped),
		wire("diff-of-times", "Two runs that did the same differ in when they did it.",
			"changed|divergedAtSeq", ofTwins(func(e object) bool { return e["type"] == "node.completed" }), scoped),
		wire("diff-of-live-run-whole", "A diff with a run that goes on does not say that it is cut off.",
			"truncated", diffed(func(_ *http.Request, doc object) { delete(doc, "truncated") }), truncated),
		wire("diff-always-cut-off", "Every diff says that it is cut off.",
			"truncated", diffed(func(_ *http.Request, doc object) { doc["truncated"] = true }), truncated),
		wire("diff-cut-off-by-path-alone", "A diff is cut off when the run of its path goes on, and not when the other one does.",
			"truncated", tamper.Instead(tamper.DiffRun, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				a := tamper.Record(next, r)
				if doc, ok := a.JSON(); ok && a.Status == http.StatusOK && ended(next, r) {
					delete(doc, "truncated")
					a.SetJSON(doc)
				}
				a.Send(w)
			}), truncated),
		wire("diff-against-foreign-not-found", "A diff against a run of another tenant is answered 404.",
			"404", diffRefusal(func(a *tamper.Answer, against bool) {
				if against {
					a.Refuse(http.StatusNotFound, "not_found", "no such run")
				}
			}), authorized),
		wire("diff-of-foreign-not-found", "A diff of a run of another tenant is answered 404.",
			"404", diffRefusal(func(a *tamper.Answer, _ bool) { a.Refuse(http.StatusNotFound, "not_found", "no such run") }), authorized),
		wire("diff-reveals-foreign-run", "A diff against a run of another tenant is refused 403 when there is such a run and 404 when there is none.",
			"404", diffOracle(), authorized),
		wire("diff-against-foreign-served", "A diff against a run of another tenant is made.",
			"200", foreignDiff(), authorized),
	}
}

// sameType reports whether an entry of a diff is of two events of one type.
func sameType(entry object) bool {
	a, _ := entry["aEvent"].(object)
	b, _ := entry["bEvent"].(object)
	return a != nil && b != nil && a["type"] == b["type"]
}

// diffPerRead numbers the diffs of runs that differ.
func diffPerRead() tamper.Middleware {
	return func(next http.Handler) http.Handler {
		var mu sync.Mutex
		reads := 0
		return ofOthers(func(doc object, _ []any) {
			mu.Lock()
			defer mu.Unlock()
			reads++
			doc["stateDiff"] = object{"comparedAt": fmt.Sprintf("2026-01-01T00:%02d:%02dZ", reads/60%60, reads%60)}
		})(next)
	}
}

func ancestryFaults() []Fault {
	ancestry := requirements.RunsAncestry
	answered := func(edit func(doc object)) tamper.Middleware {
		return tamper.JSON(tamper.GetAncestry, http.StatusOK, func(_ *http.Request, doc map[string]any) { edit(doc) })
	}
	parent := func(edit func(doc, parent object)) tamper.Middleware {
		return answered(func(doc object) {
			if p, ok := doc["parent"].(object); ok {
				edit(doc, p)
			}
		})
	}
	faults := []Fault{
		wire("ancestry-empty-parent", "A run that nothing started has an empty parent.",
			"parent", answered(func(doc object) {
				if doc["parent"] == nil {
					doc["parent"] = object{}
				}
			}), ancestry),
		wire("ancestry-without-parent", "A run that nothing started has no parent member.",
			"parent", answered(func(doc object) {
				if doc["parent"] == nil {
					delete(doc, "parent")
				}
			}), ancestry),
		wire("ancestry-of-another-host", "The host names itself otherwise than it advertises.",
			"hostId", answered(func(doc object) { doc["hostId"] = "node-7.internal" }), ancestry),
		wire("ancestry-of-bare-run", "The answer names its run without the tenant.",
			"runId", answered(func(doc object) { _, doc["runId"], _ = strings.Cut(text(doc["runId"]), "/") }), ancestry),
		wire("ancestry-child-without-parent", "A run that a node started has no parent.",
			"parent", parent(func(doc, _ object) { doc["parent"] = nil }), ancestry),
		wire("ancestry-child-of-itself", "A run that a node started is its own parent.",
			"parent", parent(func(doc, p object) { p["runId"] = doc["runId"] }), ancestry),
		wire("ancestry-cause-short", "The cause of a run that a node started is given without its family.",
			"cause", parent(func(_, p object) { p["cause"] = strings.TrimPrefix(text(p["cause"]), "core.") }), ancestry),
		wire("ancestry-cause-of-another-kind", "A run that a node started is said to come from another host.",
			"cause", parent(func(_, p object) { p["cause"] = "a2a-message" }), ancestry),
		wire("ancestry-not-found", "The host advertises the parents of runs and does not serve them.",
			"404", tamper.Answers(tamper.GetAncestry, func(_ *http.Request, a *tamper.Answer) {
				a.Refuse(http.StatusNotFound, "not_found", "no such path")
			}), ancestry).
			also("getRunAncestry: 404 not_found", requirements.R0170IdGrammarTenantBinding),
	}
	for i := range faults {
		faults[i] = faults[i].on("ancestry-on")
	}
	return faults
}
