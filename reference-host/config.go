package referencehost

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"wopcert/corpus"
	"wopcert/fixtures"
	"wopcert/reference-host/internal/clock"
	"wopcert/reference-host/internal/egress"
	"wopcert/reference-host/internal/engine"
	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/token"
)

// The interfaces a Config is made of, and what passes through them. Decorate one to change the host from outside.
type (
	// Clock tells the time.
	Clock = clock.Clock
	// ManualClock is a Clock that tests drive.
	ManualClock = clock.Manual
	// Store keeps runs, their logs and the idempotency records. The one in memory keeps every run for as long as the
	// process lives.
	Store = eventlog.Store
	// Log is the event log of one run.
	Log = eventlog.Log
	// Run is the fixed part of one run.
	Run = eventlog.Run
	// Event is one entry of a Log, and Draft what becomes one.
	Event = eventlog.Event
	Draft = eventlog.Draft
	// Annotation and Artifact are what a Store keeps beside the logs.
	Annotation = eventlog.Annotation
	Artifact   = eventlog.Artifact
	// RecordKey, RecordState and Response belong to the idempotency records of a Store.
	RecordKey   = eventlog.RecordKey
	RecordState = eventlog.RecordState
	Response    = eventlog.Response
	// Sender is the one way out of the host; Effect is what leaves, Outcome what comes back.
	Sender  = engine.Sender
	Effect  = engine.Effect
	Outcome = engine.Outcome
	// EgressPolicy says where Effects may go.
	EgressPolicy = egress.Policy
	// NodeType gives a typeId its meaning.
	NodeType = engine.NodeType
	// Call, Entry, Values and NodeError are what a NodeType works with.
	Call      = engine.Call
	Entry     = engine.Entry
	Values    = engine.Values
	NodeError = engine.NodeError
)

// AnySequence makes Log.Append indifferent to what else was appended.
const AnySequence = eventlog.AnySequence

// IDs mints opaque ids: at least 16 characters from A-Z a-z 0-9 . _ -, never the same twice (identity.md §5).
type IDs interface{ Opaque() string }

// RandomIDs mints ids of 128 random bits.
type RandomIDs struct{}

// Opaque returns 26 characters.
func (RandomIDs) Opaque() string { return rand.Text() }

// TestKeyPrefix begins every key that may use what is for test keys only; it is advertised as testing.testKeyPrefix.
const TestKeyPrefix = "wop_test_"

// The scopes this host enforces (the vocabulary of the API's security scheme).
const (
	ScopeManifestRead = "manifest:read"
	ScopeRunsCreate   = "runs:create"
	ScopeRunsRead     = "runs:read"
	ScopeRunsCancel   = "runs:cancel"
	ScopeRunsAnnotate = "runs:annotate"
	ScopeArtifactRead = "artifacts:read"
	ScopeApprovals    = "approvals:respond"
	ScopeWebhooks     = "webhooks:manage"
)

// Credential is one API key as an operator configures it. The host keeps only its digest.
type Credential struct {
	// Name tells keys apart in lists and in Revoke; it is no secret.
	Name string
	// Key is the bearer token. With TestKeyPrefix it is a test key, else a production key.
	Key       string
	Tenant    string
	Workspace string
	// SubjectID is the subject behind the key within its tenant's realm.
	SubjectID string
	Scopes    []string
	// Groups and Roles are what the subject is a member of and holds, for the refs of approval gates.
	Groups, Roles []string
	Revoked       bool
}

// TokenSecret is a secret that resume tokens are made with. It is at least 32 bytes long.
type TokenSecret = token.Secret

// SigningKey is a public key bundles about this host are signed with, as discovery publishes it (conformance.md
// §Signature and attribution). A retired key stays listed.
type SigningKey struct {
	KeyID     string
	PublicKey ed25519.PublicKey
	RetiredAt time.Time // zero while in use
}

// Relaxation is an operator setting that relaxes an obligation: one that begins with its surface, for as long as
// Durability says (session, deployment or persisted).
type Relaxation struct{ Obligation, Durability, Reason string }

// Implementation names the host in discovery.
type Implementation struct{ Name, Version, Vendor, URL string }

// Limits bound what the host takes. The first four are advertised under limits, MaxPageSize under runList.
type Limits struct {
	MaxRequestBodyBytes int64
	MaxRunDuration      time.Duration
	MaxNodeExecutions   int
	// MaxLoopIterations bounds the turns of an orchestrator in one run.
	MaxLoopIterations int
	MaxPageSize       int
	// MaxActiveRuns and MaxStreams protect the process: beyond them createRun and streamRunEvents answer 429.
	MaxActiveRuns int64
	MaxStreams    int64
	// WriteTimeout is how long a reader may take for one write before its connection is given up.
	WriteTimeout time.Duration
}

// Config is what a host is made of. Start from DefaultConfig.
type Config struct {
	Clock Clock
	Store Store
	IDs   IDs
	// Egress says where the host may send what a client asks it to send: effects, webhooks, callbacks.
	Egress EgressPolicy
	// WrapSender holds what stands in front of the host's way out, the first one outermost. All that leaves the host
	// passes through it.
	WrapSender []func(Sender) Sender
	// Keys are the API keys; none means that every protected operation is refused.
	Keys []Credential
	// TokenSecrets are held for resume tokens: the first one makes them, the others open what they have made before.
	TokenSecrets []TokenSecret
	// Directory resolves the groups and roles of approval gates; nil knows those of Keys.
	Directory Directory
	// NoKindEvents leaves out the event types of single kinds of interrupts beside the two of all kinds.
	NoKindEvents bool
	// SigningKeys are published in discovery.
	SigningKeys []SigningKey
	// Fixtures are the workflows the host holds; all are served and listed in discovery.
	Fixtures []fixtures.Workflow
	// Unlisted are workflows the host holds and does not list in discovery.
	Unlisted []fixtures.Workflow
	// NodeTypes are further node types beside the core ones.
	NodeTypes []NodeType
	// KeepAlive is the time between keep-alive comments of a stream, at most 30 s (events.md §SSE frames).
	KeepAlive time.Duration
	// Webhooks say how events are delivered to webhooks.
	Webhooks Webhooks
	// Effects say how nodes have effects.
	Effects Effects
	// Families are further capability records, or other facets of the host's own, laid over these facet by facet; a
	// nil value takes a family or a facet out. The host behaves as it advertises: what a family gates is served, or refused,
	// accordingly. status, since, until and witness are the contract's and are not given here.
	Families map[string]map[string]any
	// NoDiff leaves out diffRun, which is optional (runs.md §Surface).
	NoDiff bool
	// Seams serves the test seams of the conformance profile under /conformance/seams/ and advertises them. They write
	// what no client may write and are for a host under test only.
	Seams bool
	// Recovery bounds what the host does about the runs it finds in its store.
	Recovery Recovery
	// Relaxations are what the operator says the host runs under. The host does nothing with them: who certifies it
	// records them (security-defaults.md §Relaxations).
	Relaxations []Relaxation
	// Changes are the change ids a v1 run may be pinned to and still be taken over (persistence.md §Runs pinned to v1).
	Changes []string
	// DurabilityHook serves POST /host/durability/kill, with which a test has accepted work delivered a second time.
	// It is no operation of the protocol.
	DurabilityHook bool
	Limits         Limits
	Implementation Implementation
	// MinClientVersion is advertised and enforced (versioning.md §1.5); "" does neither.
	MinClientVersion string
	// AllowedOrigins are granted cross-origin requests; "*" grants all. Keys are bearer tokens and never ambient, so a
	// grant gives a page nothing its author does not have.
	AllowedOrigins []string
	// AllowNonLoopback lets Listen bind an address that other machines reach.
	AllowNonLoopback bool
	// Wrap holds handlers to put in front of the host's own, the first one outermost.
	Wrap []func(http.Handler) http.Handler
	// Logger receives the operational log; credentials and idempotency keys never go there. nil discards it.
	Logger *slog.Logger
}

// The names of the keys DefaultConfig generates.
const (
	KeyTenantA    = "tenant-a"
	KeyTenantB    = "tenant-b"
	KeyReadOnly   = "tenant-a-read-only"
	KeyProduction = "tenant-a-production"
	// The further principals of tenant A that decide at approval gates: a member of the group ApproverGroup, a holder
	// of the role ApproverRole, and a holder of the role OverrideRole.
	KeyApprover1 = "tenant-a-approver-1"
	KeyApprover2 = "tenant-a-approver-2"
	KeyApprover3 = "tenant-a-approver-3"
)

// The group and the roles of the approvers.
const (
	ApproverGroup = "approvers"
	ApproverRole  = "release-manager"
	OverrideRole  = "approval-override"
)

// DefaultChange is the change id DefaultConfig implements: the one the fixture wopcert-version-pin takes.
const DefaultChange = "wopcert-change"

// MaxKeepAlive is the longest KeepAlive (events.md §SSE frames).
const MaxKeepAlive = 30 * time.Second

// DefaultConfig is a host in memory with the wall clock, every fixture, and freshly generated keys: a full test key for
// each of two tenants, a read-only test key and a production key of the first.
func DefaultConfig() (Config, error) {
	workflows, err := fixtures.All()
	if err != nil {
		return Config{}, err
	}
	store, err := NewMemoryStore()
	if err != nil {
		return Config{}, err
	}
	full := []string{ScopeManifestRead, ScopeRunsCreate, ScopeRunsRead, ScopeRunsCancel, ScopeRunsAnnotate, ScopeArtifactRead, ScopeApprovals, ScopeWebhooks}
	read := []string{ScopeManifestRead, ScopeRunsRead, ScopeArtifactRead}
	respond := []string{ScopeManifestRead, ScopeRunsRead, ScopeApprovals}
	return Config{
		Clock: clock.Real{},
		Store: store,
		IDs:   RandomIDs{},
		Keys: []Credential{
			{Name: KeyTenantA, Key: newKey(TestKeyPrefix), Tenant: "tenant-a", SubjectID: "operator-a", Scopes: full},
			{Name: KeyTenantB, Key: newKey(TestKeyPrefix), Tenant: "tenant-b", SubjectID: "operator-b", Scopes: full},
			{Name: KeyReadOnly, Key: newKey(TestKeyPrefix), Tenant: "tenant-a", SubjectID: "reader-a", Scopes: read},
			{Name: KeyProduction, Key: newKey("wop_live_"), Tenant: "tenant-a", SubjectID: "operator-a", Scopes: full},
			{Name: KeyApprover1, Key: newKey(TestKeyPrefix), Tenant: "tenant-a", SubjectID: "approver-a1", Scopes: respond, Groups: []string{ApproverGroup}},
			{Name: KeyApprover2, Key: newKey(TestKeyPrefix), Tenant: "tenant-a", SubjectID: "approver-a2", Scopes: respond, Roles: []string{ApproverRole}},
			{Name: KeyApprover3, Key: newKey(TestKeyPrefix), Tenant: "tenant-a", SubjectID: "approver-a3", Scopes: respond, Roles: []string{OverrideRole}},
		},
		TokenSecrets: []TokenSecret{{KeyID: "k1", Value: []byte(rand.Text() + rand.Text())}},
		Fixtures:     workflows,
		KeepAlive:    time.Second,
		Limits: Limits{
			MaxRequestBodyBytes: 1 << 20, MaxRunDuration: 10 * time.Minute, MaxNodeExecutions: 1000, MaxLoopIterations: 100,
			MaxPageSize:   100,
			MaxActiveRuns: 50_000, MaxStreams: 10_000, WriteTimeout: 10 * time.Second,
		},
		Recovery:         defaultRecovery(),
		Changes:          []string{DefaultChange},
		Webhooks:         defaultWebhooks(),
		Effects:          defaultEffects(),
		DurabilityHook:   true,
		Implementation:   Implementation{Name: "wopcert-reference-host", Version: "1.0.0", Vendor: "wopcert"},
		MinClientVersion: corpus.ProtocolVersion,
		AllowedOrigins:   []string{"*"},
	}, nil
}

// NewManualClock returns a clock that stands at start until a test moves it.
func NewManualClock(start time.Time) *ManualClock { return clock.NewManual(start) }

func newKey(prefix string) string { return prefix + strings.ToLower(rand.Text()) }

// check refuses a configuration the host could not honour.
func (c *Config) check() error {
	switch {
	case c.Clock == nil || c.Store == nil || c.IDs == nil:
		return fmt.Errorf("the clock, store and ids must be set; start from DefaultConfig")
	case c.KeepAlive <= 0 || c.KeepAlive > MaxKeepAlive:
		return fmt.Errorf("keep-alive %v: it must be more than 0 and at most %v", c.KeepAlive, MaxKeepAlive)
	case c.Limits.MaxRequestBodyBytes < 1 || c.Limits.MaxNodeExecutions < 1 || c.Limits.MaxLoopIterations < 1 || c.Limits.MaxPageSize < 1 ||
		c.Limits.MaxActiveRuns < 1 || c.Limits.MaxStreams < 1 || c.Limits.WriteTimeout <= 0:
		return fmt.Errorf("every limit must be at least 1")
	case c.Recovery.Start <= 0 || c.Recovery.Reentry <= 0 || c.Recovery.MaxAttempts < 1:
		return fmt.Errorf("the limits of the recovery must be above 0")
	case c.Limits.MaxRunDuration < time.Second:
		return fmt.Errorf("max run duration %v: it must be at least 1 s", c.Limits.MaxRunDuration)
	}
	return nil
}
