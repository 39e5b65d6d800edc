package variants

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// families lays capability records over the host's own.
func families(records map[string]map[string]any) func(*referencehost.Config) {
	return func(c *referencehost.Config) {
		all := map[string]map[string]any{}
		for family, facets := range c.Families {
			all[family] = facets
		}
		for family, facets := range records {
			all[family] = facets
		}
		c.Families = all
	}
}

// without takes families out.
func without(names ...string) func(*referencehost.Config) {
	records := map[string]map[string]any{}
	for _, name := range names {
		records[name] = nil
	}
	return families(records)
}

// opening adds the requirements that bind the host only with the variant.
func (v Variant) opening(ids ...requirements.ID) Variant {
	v.Opens = ids
	return v
}

func replay(modes ...any) func(*referencehost.Config) {
	return families(map[string]map[string]any{"replay": {"modes": modes, "effectSeamsManifest": "/host/effect-seams"}})
}

// forked edits the 201 of a fork.
func forked(edit func(r *http.Request, doc object)) tamper.Middleware {
	return tamper.JSON(tamper.ForkRun, http.StatusCreated, func(r *http.Request, doc map[string]any) { edit(r, doc) })
}

func forkVariants() []Variant {
	const doc, section = "runs.md", "Fork"
	fork := func(id, summary string, edit func(r *http.Request, doc object)) Variant {
		v := grant(id, doc, section, summary, forked(edit))
		return v
	}
	return []Variant{
		made("replay-mode-alone", doc, section, "The host forks runs in the mode replay alone.", replay("replay"),
			requirements.ReplayBranchOverlay, requirements.WebhooksBranchDelivered),
		fork("fork-links-absolute", "The link of a fork is absolute.", func(r *http.Request, doc object) {
			doc["eventsUrl"] = "http://" + r.Host + text(doc["eventsUrl"])
		}),
		fork("fork-without-point", "The answer to a fork does not repeat the point.", func(_ *http.Request, doc object) { delete(doc, "fromSeq") }),
		fork("fork-answers-more", "The answer to a fork has members of the host's own.", func(r *http.Request, doc object) {
			doc["statusUrl"], doc["createdAt"] = "/runs/"+strings.Replace(text(doc["runId"]), "/", "~2F", 1), "2026-01-01T00:00:00Z"
		}),
		fork("fork-pending", "A fork is answered before it runs.", func(_ *http.Request, doc object) { doc["status"] = "pending" }),
	}
}

// diffed edits the answer to a diff.
func diffed(edit func(doc object)) tamper.Middleware {
	return tamper.JSON(tamper.DiffRun, http.StatusOK, func(_ *http.Request, doc map[string]any) { edit(doc) })
}

func diffVariants() []Variant {
	const doc, section = "runs.md", "Diff and ancestry"
	ancestry := func(facets object) func(*referencehost.Config) {
		facets["ancestryEndpointSupported"] = true
		return families(map[string]map[string]any{"multiAgent": {"executionModel": object{"version": 1, "crossHostCausation": facets}}})
	}
	return []Variant{
		made("no-diff", doc, "Surface", "The host does not compare runs.", func(c *referencehost.Config) { c.NoDiff = true },
			requirements.R0170RunDiffIdentical, requirements.RunsDiffPure, requirements.RunsDiffRunScopedExcluded,
			requirements.RunsDiffTruncated, requirements.RunsDiffAuthorization, requirements.RunsAnnotationNotCopied,
			requirements.PersistenceDiffTranslated),
		grant("diff-says-not-truncated", doc, section, "A diff of ended runs says that it is whole.", diffed(func(doc object) {
			if doc["truncated"] == nil {
				doc["truncated"] = false
			}
		})),
		grant("diff-state-at-length", doc, section, "The state difference of runs that diverge is told in another form.", diffed(func(doc object) {
			if list, _ := doc["eventDiffs"].([]any); len(list) > 0 {
				doc["stateDiff"] = object{"changes": []any{object{"path": "/workflowId", "equal": false}}, "count": 1}
			}
		})),
		grant("diff-without-events", doc, section, "A diff names the sequences that differ and leaves the events out.", diffed(func(doc object) {
			list, _ := doc["eventDiffs"].([]any)
			for _, v := range list {
				if entry, ok := v.(object); ok {
					delete(entry, "aEvent")
					delete(entry, "bEvent")
				}
			}
		})),
		made("ancestry-on", doc, section, "The host says which run started a run.", ancestry(object{"hostId": "host-1.example"}), requirements.RunsGatedOperationsAbsent).
			opening(requirements.RunsAncestry),
	}
}

// reversed turns a list round.
func reversed(list any) any {
	l, ok := list.([]any)
	if ok {
		slices.Reverse(l)
	}
	return list
}

func annotationVariants() []Variant {
	const doc, section = "runs.md", "Annotations"
	feedback := func(facets object) func(*referencehost.Config) {
		return families(map[string]map[string]any{"feedback": facets})
	}
	return []Variant{
		made("feedback-off", doc, section, "The host takes no annotations.", without("feedback"),
			requirements.R0170RunAnnotationNotEvent, requirements.RunsAnnotationRecorded, requirements.RunsAnnotationNotCopied,
			requirements.EventsAnnotationTargetRefused),
		made("feedback-of-all", doc, section, "An annotation may be about a run, a node or an event.",
			feedback(object{"targets": []any{"event", "run", "node"}}), requirements.EventsAnnotationTargetRefused),
		made("feedback-of-runs", doc, section, "An annotation is about a run and nothing smaller.", feedback(object{"targets": []any{"run"}})),
		made("feedback-of-runs-and-events", doc, section, "An annotation may be about a run or an event.", feedback(object{"targets": []any{"run", "event"}})),
		made("feedback-labels", doc, section, "The host takes labels and no other signal.", feedback(object{"signals": []any{"label"}})),
		made("feedback-corrections", doc, section, "The host takes corrections and ratings.", feedback(object{"signals": []any{"correction", "rating"}})),
		grant("annotations-newest-first", doc, section, "Annotations are listed newest first.",
			tamper.JSON(tamper.ListAnnotations, http.StatusOK, func(_ *http.Request, doc map[string]any) { reversed(doc["annotations"]) })),
		grant("annotations-announced", doc, section, "A live stream tells of an annotation in a frame without an id.", announced()),
	}
}

// announced tells every stream that is open of an annotation of its run.
func announced() tamper.Middleware {
	return func(next http.Handler) http.Handler {
		made := newDictionary()
		segment := func(r *http.Request) string {
			return strings.ToUpper(strings.Replace(tamper.RunSegment(r), "%2F", "~2F", 1))
		}
		return tamper.Chain(
			tamper.JSON(tamper.Annotate, http.StatusCreated, func(r *http.Request, doc map[string]any) {
				made.put(segment(r), string(tamper.Encode(doc)))
			}),
			tamper.Frames(tamper.Streams("updates", "debug"), func(r *http.Request) tamper.FrameEdit {
				told := made.get(segment(r))
				return func(f tamper.Frame, out *tamper.Out) {
					if now := made.get(segment(r)); now != told {
						told = now
						out.Send(tamper.Frame{Lines: []string{"event: run.annotated", "data: " + now}})
					}
					out.Send(f)
				}
			}),
		)(next)
	}
}

// get returns what a shown value stands for, "" for nothing.
func (d *dictionary) get(shown string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.of[shown]
}

// asA2A edits artifacts that are answered in the form of A2A.
func asA2A(edit func(r *http.Request, doc object)) tamper.Middleware {
	return tamper.Answers(tamper.GetArtifact, func(r *http.Request, a *tamper.Answer) {
		if doc, ok := a.JSON(); ok && doc["parts"] != nil {
			edit(r, doc)
			a.Body = tamper.Encode(doc)
		}
	})
}

func artifactVariants() []Variant {
	const doc, section = "runs.md", "Artifacts"
	return []Variant{
		grant("artifact-url-part", doc, section, "A part of an artifact is a link that asks for the caller's credential.",
			asA2A(func(r *http.Request, doc object) {
				parts, _ := doc["parts"].([]any)
				link := fmt.Sprintf("http://%s%s", r.Host, r.URL.EscapedPath())
				doc["parts"] = append(parts, object{"url": link, "mediaType": "application/json", "filename": "brief.json"})
			})).opening(requirements.R0205ArtifactUrlPartScoped),
		grant("artifact-described", doc, section, "An artifact has a name, a description, extensions and parts of every kind but links.",
			asA2A(func(_ *http.Request, doc object) {
				parts, _ := doc["parts"].([]any)
				doc["parts"] = append(parts, object{"text": ""}, object{"raw": "AAEC", "mediaType": "application/octet-stream"}, object{"data": nil})
				doc["name"], doc["description"], doc["extensions"] = "A brief", "", []any{"urn:example:ext"}
			})),
		grant("artifact-json-only", doc, section, "An artifact is answered in the host's own form, whatever is asked for.",
			tamper.Requests(tamper.GetArtifact, func(r *http.Request) { r.Header.Del("Accept") }),
			requirements.R0205ArtifactA2aShape, requirements.R0205ArtifactIdMatchesPath, requirements.RunsArtifactA2aOffered),
	}
}

func evalVariants() []Variant {
	terse := tamper.Events(func(e map[string]any) bool {
		if payload, ok := e["payload"].(object); ok && e["type"] == "eval.scored" {
			delete(payload, "latencyMs")
		}
		return true
	})
	return []Variant{
		grant("eval-scores-terse", "runs.md", "Eval summary", "Scores of tasks are given without the time they took.", terse),
		grant("eval-summary-other-order", "runs.md", "Eval summary", "A summary lists the tasks in another order.",
			tamper.JSON(tamper.GetEvalSummary, http.StatusOK, func(_ *http.Request, doc map[string]any) { reversed(doc["tasks"]) })),
		grant("turn-of-several-parts", "runs.md", "conversationPrimitive", "A turn has parts of several kinds.",
			tamper.Events(func(e map[string]any) bool {
				payload, _ := e["payload"].(object)
				if turn, ok := payload["turn"].(object); ok {
					parts, _ := turn["parts"].([]any)
					turn["parts"] = append(parts, object{"data": object{"tide": 6}, "mediaType": "application/json"})
				}
				return true
			})),
	}
}
