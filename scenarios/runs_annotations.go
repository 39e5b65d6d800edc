package scenarios

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"

	"wopcert/bundle/jcs"
	"wopcert/harness"
	"wopcert/requirements"
)

// runAnnotationNotEvent covers what an annotation leaves alone (runs.md,
// "Annotations").
func runAnnotationNotEvent() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-run-annotation-not-event",
		Title:    "An annotation enters neither the log of a run nor its snapshot",
		Document: "runs.md", Section: "Annotations",
		Gates: []harness.Gate{harness.Advertises("feedback")},
		Tests: []harness.Test{
			{
				Name:      "an annotation of a finished run changes nothing of it",
				Witnesses: []requirements.ID{requirements.R0170RunAnnotationNotEvent},
				Gates:     []harness.Gate{endingFixtures()},
				Run:       annotatesFinished,
			},
			{
				Name:      "an annotation of an active run is no event of it",
				Witnesses: []requirements.ID{requirements.R0170RunAnnotationNotEvent},
				Gates:     []harness.Gate{liveFixtures()},
				Run:       annotatesActive,
			},
		},
	}
}

// annotations covers createAnnotation and listAnnotations (runs.md,
// "Annotations"; events.md, "Envelope, feedback and usage facets").
func annotations() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-annotations",
		Title:    "Annotations are recorded beside a run, only on what the host lists as a target, and stay there",
		Document: "runs.md", Section: "Annotations",
		Gates: []harness.Gate{harness.Advertises("feedback"), endingFixtures()},
		Tests: []harness.Test{
			{
				Name:      "an annotation is recorded and listed",
				Witnesses: []requirements.ID{requirements.RunsAnnotationRecorded},
				Run:       annotationIsRecorded,
			},
			{
				Name:      "an annotation shows in no diff and in no fork",
				Witnesses: []requirements.ID{requirements.RunsAnnotationNotCopied},
				Run:       annotationStaysBehind,
			},
			{
				Name:      "a target the host does not list is refused",
				Witnesses: []requirements.ID{requirements.EventsAnnotationTargetRefused},
				Gates:     []harness.Gate{harness.AdvertisesFacet("feedback", "targets")},
				Run:       targetIsRefused,
			},
		},
	}
}

// signalBody is an annotation with a signal the host lists and a note that tells
// it from others. The note is plain words, since a host may redact what looks
// like a secret.
func signalBody(t *harness.T) object {
	kind := "flag"
	facet, _ := t.Host().Discovery.Facet("feedback", "signals")
	if kinds, _ := stringList(facet); len(kinds) > 0 {
		kind = kinds[0]
	}
	signal := object{"kind": kind}
	switch kind {
	case "rating":
		signal["rating"] = 4
	case "label", "correction":
		signal[kind] = "tide table"
	}
	return object{"signal": signal, "note": fmt.Sprintf("the tide turns at six, table %d", 100_000+rand.IntN(900_000))}
}

func annotate(t *harness.T, runID string, body object) *harness.Response {
	return t.Do(harness.Request{Method: http.MethodPost, Path: runPath(runID, "/annotations"), Body: body})
}

func annotationsOf(t *harness.T, runID string) *harness.Response {
	return t.Do(harness.Request{Path: runPath(runID, "/annotations")})
}

// annotated records an annotation and returns its id, "" where the answer has
// none. The test ends when the host records nothing.
func annotated(t *harness.T, runID string, body object) string {
	r := annotate(t, runID, body)
	if !r.Is(http.StatusCreated).OK {
		t.Abort("no annotation to observe: createAnnotation gave %s", answered(r))
	}
	return r.Text("annotationId")
}

// marks are what gives an annotation away wherever it is copied to.
func marks(body object, id string) []string { return []string{text(body, "note"), id} }

func holdsAny(data []byte, marks []string) bool {
	return slices.ContainsFunc(marks, func(m string) bool { return m != "" && bytes.Contains(data, []byte(m)) })
}

// noTrace checks that a log holds no annotation, by its type and by its marks.
func noTrace(l log, marks []string) harness.Check {
	const expected = "a log without the annotation"
	for _, e := range l.events {
		data, err := jcs.CanonicalizeValue(e)
		if e["type"] == "run.annotated" || err == nil && holdsAny(data, marks) {
			return harness.That(false, expected, "%s", label(e)).At(l.last)
		}
	}
	return harness.That(l.last.Is(http.StatusOK).OK, expected, "%s with %d events", answered(l.last), len(l.events)).At(l.last)
}

func annotatesFinished(t *harness.T) {
	id, _ := settledEnding(t)
	before, snapshotBefore := wholeLog(t, id), snapshot(t, id)
	body := signalBody(t)
	annotation := annotated(t, id, body)
	after, snapshotAfter := wholeLog(t, id), get(t, id)
	t.Expect(requirements.R0170RunAnnotationNotEvent, noTrace(after, marks(body, annotation)))
	t.Expect(requirements.R0170RunAnnotationNotEvent, harness.All(
		same("sequences of the log", sequencesOf(before.events), sequencesOf(after.events)),
		same("lastSequence", before.last.Get("lastSequence"), after.last.Get("lastSequence")),
	).At(after.last))
	t.Expect(requirements.R0170RunAnnotationNotEvent, harness.All(snapshotAfter.Is(http.StatusOK),
		same("snapshot", snapshotBefore.JSON(), snapshotAfter.JSON())).At(snapshotAfter))
	if tag := snapshotBefore.Header.Get("ETag"); tag != "" {
		t.Expect(requirements.R0170RunAnnotationNotEvent, harness.Equal("ETag after the annotation", tag, snapshotAfter.Header.Get("ETag")).At(snapshotAfter))
	}
}

// annotatesActive listens to an active run while it is annotated. A frame that
// tells of the annotation is welcome; it is no event, and so has no id.
func annotatesActive(t *harness.T) {
	id, _ := executing(t, liveBody(t))
	defer endRun(t, id)
	opened := streamSoon(t, streamRequest(id, "debug", ""))
	body := signalBody(t)
	annotation := annotated(t, id, body)
	if c := cancel(t, id, object{}); !c.Is(http.StatusOK).OK {
		t.Abort("no run to read to its end: cancelRun gave %s", answered(c))
	}
	l := readLog(t, id, settle)
	t.Expect(requirements.R0170RunAnnotationNotEvent, noTrace(l, marks(body, annotation)))
	s := <-opened
	if !s.Response.Is(http.StatusOK).OK {
		return // a host need not serve debug
	}
	for _, f := range s.Collect(endsRun, settle) {
		if f.Event == "run.annotated" || holdsAny([]byte(f.Data), marks(body, annotation)) {
			t.Expect(requirements.R0170RunAnnotationNotEvent, harness.That(!f.HasID, "no id on a frame that tells of an annotation",
				"a frame %s with id %s", f.Event, f.ID).At(s.Response))
		}
	}
}

func annotationIsRecorded(t *harness.T) {
	runs := []string{terminalRun(t)}
	if liveBody(t) != nil {
		runs = append(runs, liveRun(t))
		defer endRun(t, runs[1])
	}
	for _, id := range runs {
		body := signalBody(t)
		r := annotate(t, id, body)
		if !t.Expect(requirements.RunsAnnotationRecorded, harness.All(r.Is(http.StatusCreated), r.Valid("annotation"),
			harness.Equal("target.runId", any(id), r.Get("target", "runId")),
			same("signal", body["signal"], r.Get("signal")),
			same("note", body["note"], r.Get("note"))).At(r)) {
			continue
		}
		l := annotationsOf(t, id)
		t.Expect(requirements.RunsAnnotationRecorded, harness.All(l.Is(http.StatusOK), l.Valid("annotation-list"),
			same("the listed annotation's signal", body["signal"], harness.Get(listedAnnotation(l, r.Text("annotationId")), "signal"))).At(l))
	}
}

// listedAnnotation is an entry of the list by its id, nil when there is none.
func listedAnnotation(l *harness.Response, id string) any {
	list, _ := l.Get("annotations").([]any)
	for _, a := range list {
		if harness.Get(a, "annotationId") == any(id) {
			return a
		}
	}
	return nil
}

func annotationStaysBehind(t *harness.T) {
	body := endingBody(t)
	id, _ := settledRun(t, body)
	twin, _ := settledRun(t, body)
	diffs := diffable(t, id)
	var plain [2]*harness.Response
	if diffs {
		plain = [2]*harness.Response{diff(t, id, id), diff(t, id, twin)}
	}
	note := signalBody(t)
	annotation := annotated(t, id, note)
	modes := forkModes(t)
	if !diffs && len(modes) == 0 {
		t.Inapplicable(requirements.RunsAnnotationNotCopied, "the host serves neither diffRun nor forkRun")
		return
	}
	if diffs {
		for i, against := range []string{id, twin} {
			r := diff(t, id, against)
			t.Expect(requirements.RunsAnnotationNotCopied, harness.All(plain[i].Is(http.StatusOK), r.Is(http.StatusOK),
				same("the diff of the events, as before the annotation,", plain[i].JSON(), r.JSON()),
				harness.That(!holdsAny(r.Body, marks(note, annotation)), "a diff without the annotation", "it stands in the diff")).At(r))
		}
	}
	for _, mode := range modes {
		child := forkedFrom(t, id, mode, 0)
		defer endRun(t, child)
		l := readLog(t, child, settle)
		t.Expect(requirements.RunsAnnotationNotCopied, noTrace(l, marks(note, annotation)))
		r := annotationsOf(t, child)
		list, isList := r.Get("annotations").([]any)
		t.Expect(requirements.RunsAnnotationNotCopied, harness.That(r.Is(http.StatusOK).OK && isList && len(list) == 0, "no annotation on the fork",
			"%s with %d annotations", answered(r), len(list)).At(r))
	}
}

func targetIsRefused(t *harness.T) {
	facet, _ := t.Host().Discovery.Facet("feedback", "targets")
	advertised, _ := stringList(facet)
	id, l := settledEnding(t)
	targets := map[string]object{"run": {}}
	for _, e := range l.events {
		if eventID := text(e, "eventId"); eventID != "" {
			targets["event"] = object{"eventId": eventID}
		}
		if node := nodeOf(e); node != "" {
			targets["node"] = object{"nodeId": node}
		}
	}
	// A host that takes no annotation at all shows nothing by refusing one, and
	// one that lists none shows nothing by its list.
	for _, kind := range advertised {
		if target, ok := targets[kind]; ok {
			control := with(signalBody(t), "target", target)
			annotated(t, id, control)
			if list := annotationsOf(t, id); !holdsAny(list.Body, marks(control, "")) {
				t.Abort("no list to look in: listAnnotations gave %s without the annotation of a %s that was accepted", answered(list), kind)
			}
			break
		}
	}
	before := highest(wholeLog(t, id).events)
	judged := false
	for _, kind := range []string{"event", "node"} {
		target, ok := targets[kind]
		if !ok || slices.Contains(advertised, kind) {
			continue
		}
		judged = true
		body := with(signalBody(t), "target", target)
		r := annotate(t, id, body)
		t.Expect(requirements.EventsAnnotationTargetRefused, refusesTarget(t, kind, r))
		list := annotationsOf(t, id)
		t.Expect(requirements.EventsAnnotationTargetRefused, harness.That(list.Is(http.StatusOK).OK && !holdsAny(list.Body, marks(body, "")),
			"no refused annotation in the list", "%s that holds it: %t", answered(list), holdsAny(list.Body, marks(body, ""))).At(list))
		after := wholeLog(t, id)
		after.events = newer(after.events, before)
		t.Expect(requirements.EventsAnnotationTargetRefused, noTrace(after, marks(body, "")))
	}
	if !judged {
		t.Inapplicable(requirements.EventsAnnotationTargetRefused, "feedback.targets lists %s, and so every kind of target there is", strings.Join(advertised, ", "))
	}
}

// refusesTarget checks the refusal of an annotation whose target is of a kind
// the host does not list. The text names no code.
func refusesTarget(t *harness.T, kind string, r *harness.Response) harness.Check {
	expected := "a 4xx with a code registered for it, for a target of kind " + kind
	code, ok := t.Corpus().Error(r.Text("error"))
	if r.Err != nil || r.Status < 400 || r.Status > 499 || !ok || code.HTTPStatus != r.Status {
		return harness.That(false, expected, "%s", answered(r)).At(r)
	}
	why := violation(t.Corpus().ValidateValue("error-envelope", r.JSON()))
	return harness.That(why == "", expected, "%s: %s", answered(r), cut(why)).At(r)
}
