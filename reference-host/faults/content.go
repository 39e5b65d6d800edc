package faults

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// segmentOf is the run a request names, in one form.
func segmentOf(r *http.Request) string {
	return strings.Replace(tamper.RunSegment(r), "%2F", "~2F", 1)
}

// annotated edits answers about runs that have annotations, once they do.
func annotated(match tamper.Match, edit func(r *http.Request, a *tamper.Answer)) tamper.Middleware {
	return func(next http.Handler) http.Handler {
		runs := newMarks()
		noting := tamper.Answers(tamper.Annotate, func(r *http.Request, a *tamper.Answer) {
			if a.Status == http.StatusCreated {
				runs.set(segmentOf(r))
			}
		})(next)
		return tamper.Answers(match, func(r *http.Request, a *tamper.Answer) {
			if _, ok := runs.since(segmentOf(r)); ok && a.Status == http.StatusOK && !a.Stream {
				edit(r, a)
			}
		})(noting)
	}
}

// inDocument edits the JSON of an answer.
func inDocument(edit func(doc object)) func(*http.Request, *tamper.Answer) {
	return func(_ *http.Request, a *tamper.Answer) {
		if doc, ok := a.JSON(); ok {
			edit(doc)
			a.SetJSON(doc)
		}
	}
}

// annotation edits the 201 of an annotation.
func annotation(edit func(doc object)) tamper.Middleware {
	return tamper.JSON(tamper.Annotate, http.StatusCreated, func(_ *http.Request, doc map[string]any) { edit(doc) })
}

// annotations edits the list of annotations.
func annotations(edit func(list []any) []any) tamper.Middleware {
	return tamper.JSON(tamper.ListAnnotations, http.StatusOK, func(_ *http.Request, doc map[string]any) {
		list, _ := doc["annotations"].([]any)
		doc["annotations"] = edit(list)
	})
}

// sideStore is told of annotations and of forks.
type sideStore struct {
	referencehost.Store
	annotated func(ctx context.Context, runID string)
	forked    func(ctx context.Context, run referencehost.Run)
}

// Annotate implements referencehost.Store.
func (s sideStore) Annotate(ctx context.Context, runID string, a eventlog.Annotation) error {
	err := s.Store.Annotate(ctx, runID, a)
	if err == nil && s.annotated != nil {
		s.annotated(ctx, runID)
	}
	return err
}

// Create implements referencehost.Store.
func (s sideStore) Create(ctx context.Context, run referencehost.Run, exclusive bool, first ...referencehost.Draft) (referencehost.Log, error) {
	log, err := s.Store.Create(ctx, run, exclusive, first...)
	if err == nil && s.forked != nil && run.ForkOf != "" {
		s.forked(ctx, run)
	}
	return log, err
}

// recordedAnnotations writes an event into the log for every annotation.
func recordedAnnotations(c *referencehost.Config) {
	store, ids, clock := c.Store, c.IDs, c.Clock
	c.Store = sideStore{Store: store, annotated: func(ctx context.Context, runID string) {
		if log, err := store.Open(ctx, runID); err == nil {
			// What the log refuses is not recorded, and a host that does this would not notice either.
			_, _ = log.Append(ctx, referencehost.AnySequence, referencehost.Draft{
				EventID: ids.Opaque(), Type: "run.annotated", Payload: []byte(`{}`), Timestamp: clock.Now(),
			})
		}
	}}
}

// inheritedAnnotations gives a fork the annotations of its source.
func inheritedAnnotations(c *referencehost.Config) {
	store := c.Store
	c.Store = sideStore{Store: store, forked: func(ctx context.Context, run referencehost.Run) {
		held, _ := store.Annotations(ctx, run.ForkOf) // none when there are none
		for _, a := range held {
			a.Target.RunID = run.ID
			_ = store.Annotate(ctx, run.ID, a) // the memory refuses none
		}
	}}
}

func annotationFaults() []Fault {
	apart, recorded := requirements.R0170RunAnnotationNotEvent, requirements.RunsAnnotationRecorded
	return []Fault{
		made("annotation-is-event", "An annotation is an event of its run's log.",
			"run.annotated|events|lastSequence|eventDiffs", recordedAnnotations, apart, requirements.RunsAnnotationNotCopied),
		wire("annotation-counts-as-event", "An annotation takes a sequence of its run's log.",
			"lastSequence", annotated(tamper.PollRun, inDocument(func(doc object) { doc["lastSequence"] = integer(doc["lastSequence"]) + 1 })), apart),
		wire("annotation-in-snapshot", "The snapshot of a run counts its annotations in the metadata.",
			"snapshot", annotated(tamper.GetRun, inDocument(func(doc object) { doc["metadata"] = object{"annotations": 1} })), apart),
		wire("annotation-changes-etag", "An annotation changes the entity tag of a run's snapshot.",
			"ETag", annotated(tamper.GetRun, func(_ *http.Request, a *tamper.Answer) {
				a.Header.Set("ETag", strings.TrimSuffix(a.Header.Get("ETag"), `"`)+`-annotated"`)
			}), apart),
		wire("annotation-without-run", "The answer to an annotation does not say of which run it is.",
			"target", annotation(func(doc object) { doc["target"] = object{} }), recorded),
		wire("annotation-of-bare-run", "An annotation names its run without the tenant.",
			"runId", annotation(func(doc object) {
				target, _ := doc["target"].(object)
				_, target["runId"], _ = strings.Cut(text(target["runId"]), "/")
			}), recorded),
		wire("annotation-signal-reworded", "The answer to an annotation gives its signal in other words.",
			"signal", annotation(func(doc object) { doc["signal"] = object{"kind": "label", "label": "good"} }), recorded),
		wire("annotation-without-id", "The answer to an annotation has no id.",
			"annotationId", annotation(func(doc object) { delete(doc, "annotationId") }), recorded),
		wire("annotation-not-listed", "An annotation that was taken is not listed.",
			"the listed annotation", annotations(func([]any) []any { return []any{} }), recorded).
			blocking(requirements.EventsAnnotationTargetRefused),
		wire("annotation-of-ended-run-refused", "A run that has ended takes no annotation.",
			"409", tamper.Instead(tamper.Annotate, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if ended(next, r) {
					refuse(w, next, r, http.StatusConflict, "run_terminal")
					return
				}
				next.ServeHTTP(w, r)
			}), recorded).blocking(apart, requirements.RunsAnnotationNotCopied, requirements.EventsAnnotationTargetRefused),
		wire("annotation-in-state-diff", "A diff tells how many annotations each run has.",
			"annotations", annotated(tamper.DiffRun, inDocument(func(doc object) {
				doc["stateDiff"] = object{"annotations": object{"a": 1, "b": 0}}
			})), requirements.RunsAnnotationNotCopied),
		wire("annotation-in-event-diff", "A diff has an entry for an annotation.",
			"diff", annotated(tamper.DiffRun, inDocument(func(doc object) {
				list, _ := doc["eventDiffs"].([]any)
				doc["eventDiffs"] = append(list, object{"seq": 4, "op": "removed", "aEvent": object{"type": "run.annotated"}})
				if doc["divergedAtSeq"] == nil {
					doc["divergedAtSeq"] = 4
				}
			})), requirements.RunsAnnotationNotCopied),
		made("annotations-inherited", "A fork has the annotations of its source.",
			"fork", inheritedAnnotations, requirements.RunsAnnotationNotCopied),
	}
}

// retargeted takes the target of an annotation off before the host sees it;
// restore says whether the answer and the list show it all the same.
func retargeted(restore bool) tamper.Middleware {
	return func(next http.Handler) http.Handler {
		var mu sync.Mutex
		targets := map[string]any{} // by annotation id
		put := func(doc object) {
			mu.Lock()
			defer mu.Unlock()
			if event := targets[text(doc["annotationId"])]; event != nil {
				doc["target"].(object)["eventId"] = event
			}
		}
		return tamper.Chain(
			tamper.JSON(tamper.ListAnnotations, http.StatusOK, func(_ *http.Request, doc map[string]any) {
				list, _ := doc["annotations"].([]any)
				for _, v := range list {
					put(v.(object))
				}
			}),
			tamper.Instead(tamper.Annotate, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				doc, _ := tamper.BodyJSON(r)
				target, _ := doc["target"].(object)
				event := target["eventId"]
				if event == nil {
					next.ServeHTTP(w, r)
					return
				}
				delete(doc, "target")
				r = r.Clone(r.Context())
				tamper.SetBodyJSON(r, doc)
				a := tamper.Record(next, r)
				if made, ok := a.JSON(); ok && a.Status == http.StatusCreated && restore {
					mu.Lock()
					targets[text(made["annotationId"])] = event
					mu.Unlock()
					put(made)
					a.SetJSON(made)
				}
				a.Send(w)
			}),
		)(next)
	}
}

func targetFaults() []Fault {
	target := requirements.EventsAnnotationTargetRefused
	return []Fault{
		wire("annotation-of-event-taken", "An annotation of an event is taken by a host that says it takes none.",
			"201", retargeted(true), target),
		wire("annotation-of-event-moved", "An annotation of an event is taken as one of the run.",
			"201", retargeted(false), target),
		wire("annotation-of-event-500", "An annotation of an event makes the host answer 500.",
			"500", tamper.Answers(tamper.Annotate, func(_ *http.Request, a *tamper.Answer) {
				if a.Status == http.StatusBadRequest {
					a.Refuse(500, "internal_error", "cannot read property of undefined")
				}
			}), target),
		wire("annotation-of-event-refused-and-kept", "An annotation of an event is refused and listed.",
			"201|list", tamper.Instead(tamper.Annotate, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				doc, ok := tamper.BodyJSON(r)
				a := tamper.Record(next, r)
				if ok && a.Status == http.StatusBadRequest {
					delete(doc, "target")
					tamper.Ask(next, r, http.MethodPost, "/runs/"+tamper.RunSegment(r)+"/annotations", doc)
				}
				a.Send(w)
			}), target),
	}
}

// a2a edits artifacts that are answered in the form of A2A.
func a2a(edit func(r *http.Request, doc object)) tamper.Middleware {
	return tamper.Answers(tamper.GetArtifact, func(r *http.Request, a *tamper.Answer) {
		if doc, ok := a.JSON(); ok && doc["parts"] != nil {
			edit(r, doc)
			a.Body = tamper.Encode(doc)
		}
	})
}

// signedLinks adds a link to an artifact that answers whoever has it.
func signedLinks() tamper.Middleware {
	open := tamper.Op(http.MethodGet, "/signed/brief.json")
	return tamper.Chain(
		tamper.Instead(open, func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"title":"A brief"}`)
		}),
		a2a(func(r *http.Request, doc object) {
			parts, _ := doc["parts"].([]any)
			doc["parts"] = append(parts, object{"url": "http://" + r.Host + "/signed/brief.json?signature=5f1c", "mediaType": "application/json"})
		}),
	)
}

func artifactFaults() []Fault {
	shape := requirements.R0205ArtifactA2aShape
	part := func(edit func(part object)) tamper.Middleware {
		return a2a(func(_ *http.Request, doc object) {
			parts, _ := doc["parts"].([]any)
			edit(parts[0].(object))
		})
	}
	return []Fault{
		wire("artifact-without-parts", "An artifact in the form of A2A has no parts.",
			"parts", a2a(func(_ *http.Request, doc object) { doc["parts"] = []any{} }), shape),
		wire("artifact-part-of-two-kinds", "A part of an artifact is text and data at once.",
			"/parts/0", part(func(p object) { p["text"] = "A brief" }), shape),
		wire("artifact-part-of-no-kind", "A part of an artifact has a type and no content.",
			"/parts/0", part(func(p object) { delete(p, "data") }), shape),
		wire("artifact-part-with-kind", "A part of an artifact says what kind it is, as an earlier A2A did.",
			"kind", part(func(p object) { p["kind"] = "data" }), shape),
		wire("artifact-with-id", "An artifact in the form of A2A has an id beside its artifactId.",
			"id", a2a(func(_ *http.Request, doc object) { doc["id"] = doc["artifactId"] }), shape),
		wire("artifact-under-internal-id", "An artifact names itself by another id than the one it was asked for by.",
			"internal-", a2a(func(_ *http.Request, doc object) { doc["artifactId"] = "internal-" + text(doc["artifactId"]) }),
			requirements.R0205ArtifactIdMatchesPath),
		wire("artifact-link-for-anybody", "The link in a part of an artifact answers whoever has it.",
			"200", signedLinks(), requirements.R0205ArtifactUrlPartScoped),
		wire("artifact-link-without-scope", "The link in a part of an artifact asks for a credential and takes any.",
			"200", anyCredential(), requirements.R0205ArtifactUrlPartScoped).on("artifact-url-part").
			also("getArtifact: 404 not_found", requirements.R0170IdGrammarTenantBinding),
		wire("artifact-always-a2a", "An artifact is answered in the form of A2A, whatever is asked for.",
			"application/a2a+json", tamper.Requests(tamper.GetArtifact, func(r *http.Request) { r.Header.Set("Accept", "application/a2a+json") }),
			requirements.RunsArtifactA2aOffered),
		wire("artifact-never-a2a", "An artifact is answered in the host's own form, whatever is asked for.",
			"application/json", tamper.Requests(tamper.GetArtifact, func(r *http.Request) { r.Header.Set("Accept", "application/json") }),
			requirements.RunsArtifactA2aOffered).closing(shape, requirements.R0205ArtifactIdMatchesPath),
	}
}

// anyCredential serves an artifact to another tenant too.
func anyCredential() tamper.Middleware {
	return func(next http.Handler) http.Handler {
		known := newTenants()
		return tamper.Requests(tamper.GetArtifact, func(r *http.Request) {
			if key := known.owning(r); key != "" {
				r.Header.Set("Authorization", key)
			}
		})(known.learn(next))
	}
}
