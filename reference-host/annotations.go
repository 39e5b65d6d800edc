package referencehost

import (
	"encoding/json"
	"net/http"
	"slices"

	"wopcert/reference-host/internal/eventlog"
)

// annotationBody is the createAnnotation body once the schema has accepted it.
type annotationBody struct {
	Target struct {
		EventID string `json:"eventId"`
		NodeID  string `json:"nodeId"`
	} `json:"target"`
	Signal json.RawMessage `json:"signal"`
	Note   *string         `json:"note"`
}

// createAnnotation attaches a judgement to a run, whatever its state. It is kept beside the log: nothing that is folded
// from the log, streamed, forked or compared knows of it (runs.md §Annotations).
func (h *Host) createAnnotation(r *request) (*answer, error) {
	log, err := h.openRun(r)
	if err != nil {
		return nil, err
	}
	value, err := h.decodeBody(r.Request, r.body)
	if err != nil {
		return nil, err
	}
	if err := h.contract.ValidateValue("annotation-create", value); err != nil {
		return nil, h.codes.malformed(err)
	}
	var body annotationBody
	if err := json.Unmarshal(r.body, &body); err != nil {
		return nil, h.codes.malformed(err)
	}
	if err := h.checkAnnotation(log, &body); err != nil {
		return nil, err
	}
	annotation := eventlog.Annotation{
		AnnotationID: h.ids.Opaque(),
		Target:       eventlog.Target{RunID: log.Run().ID, EventID: body.Target.EventID, NodeID: body.Target.NodeID},
		Signal:       body.Signal,
		Actor:        eventlog.Actor{PrincipalRef: r.principal.owner.Subject.SubjectID},
		Note:         body.Note,
		CreatedAt:    stamp(h.clock.Now()),
	}
	if err := h.store.Annotate(r.Context(), log.Run().ID, annotation); err != nil {
		return nil, err
	}
	return jsonAnswer(http.StatusCreated, annotation), nil
}

// checkAnnotation holds the body to the targets and signals the host advertises, and the target to the run
// (events.md §Envelope, feedback and usage facets).
func (h *Host) checkAnnotation(log eventlog.Log, body *annotationBody) error {
	targets := h.facetWords("feedback", "targets")
	refused := func(field, kind string) error {
		return h.codes.invalid(field, "This host takes no annotations of a "+kind+".")
	}
	target := body.Target
	switch {
	case target.EventID != "" && !slices.Contains(targets, "event"):
		return refused("target.eventId", "single event")
	case target.NodeID != "" && !slices.Contains(targets, "node"):
		return refused("target.nodeId", "node")
	case target.EventID == "" && target.NodeID == "" && !slices.Contains(targets, "run"):
		return refused("target", "whole run")
	}
	var signal struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(body.Signal, &signal); err != nil {
		return h.codes.malformed(err)
	}
	if !slices.Contains(h.facetWords("feedback", "signals"), signal.Kind) {
		return h.codes.invalid("signal.kind", "This host takes no annotations of that kind.")
	}
	if target.NodeID != "" {
		definition := h.definition(log.Run())
		if definition == nil {
			return h.codes.invalid("target.nodeId", "The run has no such node.")
		}
		if _, ok := definition.NodeIndex(target.NodeID); !ok {
			return h.codes.invalid("target.nodeId", "The run has no such node.")
		}
	}
	if target.EventID == "" {
		return nil
	}
	events, err := log.Read(-1)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(events, func(e eventlog.Event) bool { return e.EventID == target.EventID }) {
		return h.codes.invalid("target.eventId", "The run has no such event.")
	}
	return nil
}

// annotationList is the listAnnotations response.
type annotationList struct {
	Annotations []eventlog.Annotation `json:"annotations"`
}

func (h *Host) listAnnotations(r *request) (*answer, error) {
	log, err := h.openRun(r)
	if err != nil {
		return nil, err
	}
	held, err := h.store.Annotations(r.Context(), log.Run().ID)
	if err != nil {
		return nil, err
	}
	if held == nil {
		held = []eventlog.Annotation{}
	}
	return jsonAnswer(http.StatusOK, annotationList{Annotations: held}), nil
}
