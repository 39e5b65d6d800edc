package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// Errors a Store and a Log return.
var (
	// ErrNotFound: no such run.
	ErrNotFound = errors.New("no such run")
	// ErrExists: the run id is taken.
	ErrExists = errors.New("the run id is taken")
	// ErrEnded: the log holds its terminal event and the draft may not follow it.
	ErrEnded = errors.New("the run has ended")
	// ErrConflict: the log grew since the caller looked.
	ErrConflict = errors.New("the log has grown")
)

// ScopeHeldError is the refusal of Create for a scope that an active run holds.
type ScopeHeldError struct {
	// RunID is the active run.
	RunID string
	// Until is when that run ends at the latest.
	Until time.Time
}

func (e *ScopeHeldError) Error() string { return "another active run holds the scope" }

// Subject is who acts (subject schema; identity.md §1.1).
type Subject struct {
	Issuer    string `json:"issuer"`
	SubjectID string `json:"subjectId"`
	Tenant    string `json:"tenant"`
	Lane      string `json:"lane"`
	Kind      string `json:"kind"`
}

// Owner is the owner block of a run.
type Owner struct {
	Tenant    string  `json:"tenant"`
	Workspace string  `json:"workspace,omitempty"`
	Subject   Subject `json:"subject"`
}

// Run is what is fixed about a run when it is created. Everything that changes afterwards is in its log.
type Run struct {
	// ID is tenant-bound (identity.md §5).
	ID         string
	Owner      Owner
	WorkflowID string
	// EngineVersion is stamped on every event of the run.
	EngineVersion int
	CreatedAt     time.Time
	// Deadline is when the run is ended as run_timeout.
	Deadline time.Time
	// MaxNodeExecutions bounds the node executions of the run, MaxLoopIterations the turns of its orchestrator.
	MaxNodeExecutions, MaxLoopIterations int
	// Orchestrator is the agentId that decides the turns of the run, "" for a run without any.
	Orchestrator string
	// ForkOf is the run this one was forked from, and ForkPoint the first sequence that is its own; "" and 0 for a run
	// that is no fork (runs.md §Fork).
	ForkOf    string
	ForkPoint int64
	// ForkMode is the mode of the fork, "" for a run that is no fork.
	ForkMode string
	// Seed is what the ids that nodes mint derive from: "" for the run's own id, and for a replay what its source has.
	Seed string
	// Era is the vocabulary of the run's log for its lifetime (persistence.md §The era key): EraV1 for one a v1 host
	// has begun, 0 for this host's own.
	Era int
	// Held is the status the snapshot of a v1 run held, "" otherwise. It counts where the log itself does not end.
	Held string
	// Parent is what started this run as its child, nil for a run that a request created. Depth counts the parents.
	Parent *Parent
	Depth  int
	// CallbackURL is where notices of the run's interrupts go, or "".
	CallbackURL string
	// ScopeID is the caller's scope, or "".
	ScopeID string
	// Inputs, Configurable and Metadata are the caller's objects, nil when absent; Tags likewise.
	Inputs, Configurable, Metadata json.RawMessage
	Tags                           []string
	// Variables are the workflow's variables as the run starts: the defaults under the inputs.
	Variables map[string]json.RawMessage
	// Eval is set for a run of an eval suite.
	Eval *Eval
	// Position orders the runs of a tenant by creation, from 1. The store sets it.
	Position int64
}

// The eras of a log (persistence.md §The era key).
const (
	EraV1 = 2
	EraV2 = 3
)

// Origin is what the ids that nodes mint derive from, the same for a run and its replays.
func (r *Run) Origin() string {
	if r.Seed != "" {
		return r.Seed
	}
	return r.ID
}

// LogSchemaVersion is the run's era as the wire has it (eventLogSchemaVersion).
func (r *Run) LogSchemaVersion() int {
	if r.Era == EraV1 {
		return EraV1
	}
	return EraV2
}

// Eval is what an eval run evaluates (runs.md §Refusals).
type Eval struct{ SuiteID, SuiteVersion, AgentID string }

// Parent links a child to the run whose node started it (execution.md §subWorkflow). It is no fork lineage.
type Parent struct {
	RunID string
	// Cause is the type of the node.
	Cause string
}

// Store keeps what outlives a request. All methods are safe for concurrent use. An error that is none of this
// package's means the store is out of order; the host answers it with internal_error.
type Store interface {
	// Create records a run and the first events of its log, both or neither. With exclusive it fails with a
	// *ScopeHeldError when an active run of the tenant holds run.ScopeID; every run that names a scope holds it while
	// it is active, exclusive or not.
	Create(ctx context.Context, run Run, exclusive bool, first ...Draft) (Log, error)
	// Open returns the log of a run.
	Open(ctx context.Context, runID string) (Log, error)
	// List returns at most limit runs of a tenant, newest first, that were created before the one at position
	// before; 0 begins with the newest.
	List(ctx context.Context, tenant string, before int64, limit int) ([]Log, error)
	// ActiveRuns visits the logs that hold no terminal event, those of a tenant in the order of their creation, until
	// visit fails; that error is returned. visit may use the Store. Runs that begin or end meanwhile may or may not be
	// visited.
	ActiveRuns(ctx context.Context, visit func(Log) error) error
	// Outbox sets what is written into tables together with events. It is set once, before the Store is used.
	Outbox(outbox Outbox)

	Records
	Sides
	Tables
}

// Log is the append-only log of one run.
type Log interface {
	// Run is the fixed part of the run.
	Run() Run
	// Read returns the events with a sequence above after, in order; -1 reads all. The slice is the caller's to read
	// and nobody's to change.
	Read(after int64) ([]Event, error)
	// Append adds the drafts with the next sequences, all of them or none, and wakes who waits on Changed. expected
	// is the last sequence the caller has seen, or AnySequence; ErrConflict says that the log has grown since. After
	// the terminal event it fails with ErrEnded, before expected is looked at.
	Append(ctx context.Context, expected int64, drafts ...Draft) ([]Event, error)
	// Changed returns a channel that is closed at the next Append. Take it before Read, or an append in between is
	// missed.
	Changed() <-chan struct{}
}

// AnySequence makes Append indifferent to what else was appended.
const AnySequence = -2

// RecordKey is the key of an idempotency record (idempotency.md §Layer 1).
type RecordKey struct{ Tenant, Endpoint, Key string }

// Response is a stored final outcome.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// RecordState is what Begin found.
type RecordState int

// The states of a record.
const (
	// RecordNew: the caller holds the record and must Finish or Abandon it.
	RecordNew RecordState = iota
	// RecordInFlight: a request with the same key and digest is being processed.
	RecordInFlight
	// RecordDone: the response of the same request is stored.
	RecordDone
	// RecordMismatch: the key belongs to a request with another digest.
	RecordMismatch
)

// Records are the idempotency records of Layer 1.
type Records interface {
	// Begin claims the key for one request at the time now. Of any number of concurrent callers exactly one gets
	// RecordNew.
	Begin(ctx context.Context, key RecordKey, digest [32]byte, now time.Time) (RecordState, *Response, error)
	// Finish stores the final outcome until expiry.
	Finish(ctx context.Context, key RecordKey, response *Response, expiry time.Time) error
	// Abandon gives the key back: the outcome is not one to replay.
	Abandon(ctx context.Context, key RecordKey) error
}
