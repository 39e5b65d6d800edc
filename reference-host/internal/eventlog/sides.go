package eventlog

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"
)

// Target is what an annotation is about: the run, or one node or event of it.
type Target struct {
	RunID   string `json:"runId"`
	EventID string `json:"eventId,omitempty"`
	NodeID  string `json:"nodeId,omitempty"`
}

// Actor is who annotates.
type Actor struct {
	PrincipalRef string `json:"principalRef"`
}

// Annotation is a judgement about a run (annotation schema). It is kept beside the run's log and never in it.
type Annotation struct {
	AnnotationID string          `json:"annotationId"`
	Target       Target          `json:"target"`
	Signal       json.RawMessage `json:"signal"`
	Actor        Actor           `json:"actor"`
	Note         *string         `json:"note,omitempty"`
	CreatedAt    string          `json:"createdAt"`
}

// Artifact is what a node produced. The log announces it by its id; the content is kept here.
type Artifact struct {
	ID, Type  string
	Data      json.RawMessage
	CreatedAt time.Time
}

// Sides keep what belongs to runs and is no event of any.
type Sides interface {
	// Annotate adds to the annotations of a run.
	Annotate(ctx context.Context, runID string, annotation Annotation) error
	// Annotations lists them, oldest first.
	Annotations(ctx context.Context, runID string) ([]Annotation, error)
	// PutArtifact keeps an artifact under an id that is new in the tenant; ErrExists says that it is not.
	PutArtifact(ctx context.Context, tenant string, artifact Artifact) error
	// Artifact finds an artifact, else ErrNotFound. Which runs of the tenant may show it is for their logs to say.
	Artifact(ctx context.Context, tenant, artifactID string) (Artifact, error)
}

type annotationList struct {
	mu   sync.Mutex
	list []Annotation
}

type artifactKey struct{ tenant, id string }

// Annotate implements Sides.
func (m *Memory) Annotate(_ context.Context, runID string, annotation Annotation) error {
	held := load(&m.annotations, runID, func() *annotationList { return new(annotationList) })
	held.mu.Lock()
	defer held.mu.Unlock()
	held.list = append(held.list, annotation)
	return nil
}

// Annotations implements Sides.
func (m *Memory) Annotations(_ context.Context, runID string) ([]Annotation, error) {
	held, ok := m.annotations.Load(runID)
	if !ok {
		return nil, nil
	}
	list := held.(*annotationList)
	list.mu.Lock()
	defer list.mu.Unlock()
	return slices.Clone(list.list), nil
}

// PutArtifact implements Sides.
func (m *Memory) PutArtifact(_ context.Context, tenant string, artifact Artifact) error {
	if _, taken := m.artifacts.LoadOrStore(artifactKey{tenant, artifact.ID}, artifact); taken {
		return ErrExists
	}
	return nil
}

// Artifact implements Sides.
func (m *Memory) Artifact(_ context.Context, tenant, artifactID string) (Artifact, error) {
	held, ok := m.artifacts.Load(artifactKey{tenant, artifactID})
	if !ok {
		return Artifact{}, ErrNotFound
	}
	return held.(Artifact), nil
}
