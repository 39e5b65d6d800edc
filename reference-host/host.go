package referencehost

import (
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"wopcert/corpus"
	"wopcert/reference-host/internal/engine"
	"wopcert/reference-host/internal/evals"
	"wopcert/reference-host/internal/workflow"
)

// Host is one host. Make it with New, serve its Handler, and Close it.
type Host struct {
	config     Config
	contract   *corpus.Corpus
	clock      Clock
	store      Store
	ids        IDs
	logger     *slog.Logger
	codes      *errorCodes
	engine     *engine.Engine
	principals []*principal
	workflows  map[string]*workflow.Definition
	blocked    map[string]*refusal // why no run of a workflow can be created, nil when one can
	suites     map[string]*evals.Suite
	evalRun    *workflow.Definition
	heartbeat  *heartbeat
	table      []route
	handler    http.Handler

	// families is the effective set: what is advertised, and what every gate reads.
	families       familySet
	versions       []string
	minClient      *version
	discovery      []byte
	discoveryETag  string
	tiers          map[string]string // event type -> least verbose stream mode
	orgs           []string
	requestHeaders string
	exposedHeaders string
	cursorKey      [32]byte
	compressors    sync.Pool
	streams        atomic.Int64

	// closing ends every stream and poll that waits.
	closing context.Context
	close   context.CancelFunc
}

// New makes a host. It fails when the configuration is one the host could not honour, when a workflow is one it does
// not run, and when its discovery document would not validate against the contract.
func New(config Config) (*Host, error) {
	h, err := newHost(config)
	if err != nil {
		return nil, fmt.Errorf("reference host: %w", err)
	}
	return h, nil
}

func newHost(config Config) (*Host, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	contract, err := corpus.Load()
	if err != nil {
		return nil, err
	}
	h := &Host{
		config: config, contract: contract, clock: config.Clock, store: config.Store, ids: config.IDs, logger: config.Logger,
		versions: protocolVersions(), tiers: make(map[string]string), orgs: contract.Orgs(),
	}
	if h.logger == nil {
		h.logger = slog.New(slog.DiscardHandler)
	}
	h.compressors.New = func() any { return gzip.NewWriter(nil) }
	_, _ = rand.Read(h.cursorKey[:]) // never fails
	for _, event := range contract.Events() {
		h.tiers[event.Type] = event.Tier
	}
	if config.MinClientVersion != "" {
		minimum, ok := parseVersion(config.MinClientVersion)
		if !ok {
			return nil, fmt.Errorf("min client version %q: it must be <major>.<minor>", config.MinClientVersion)
		}
		h.minClient = &minimum
	}
	if h.codes, err = newErrorCodes(contract); err != nil {
		return nil, err
	}
	if h.principals, err = newPrincipals(contract, config.Keys); err != nil {
		return nil, err
	}
	h.config.Keys = nil // from here on there are digests only
	if err := h.settleFamilies(); err != nil {
		return nil, err
	}
	h.engine, err = engine.New(engine.Config{
		Clock: config.Clock, Sender: config.Sender, EventID: config.IDs.Opaque, Logger: h.logger,
		Nodes: slices.Concat(engine.CoreTypes(), h.contentTypes(), config.NodeTypes), MaxActive: config.Limits.MaxActiveRuns,
		Children: children{h}, DeadLetters: h.advertises("deadLetter"),
	})
	if err != nil {
		return nil, err
	}
	if err := h.loadWorkflows(); err != nil {
		return nil, err
	}
	if err := h.loadEvals(); err != nil {
		return nil, err
	}
	h.heartbeat = &heartbeat{
		clock: config.Clock, predicate: h.engine.Accepting,
		interval: time.Duration(h.facetInt(1, "heartbeat", "minIntervalSec")) * time.Second,
	}
	if err := h.buildDiscovery(); err != nil {
		return nil, err
	}
	h.requestHeaders, h.exposedHeaders = headerLists(contract)
	if h.table, err = h.routes(contract); err != nil {
		return nil, err
	}
	h.handler = http.HandlerFunc(h.serve)
	for _, wrap := range slices.Backward(config.Wrap) {
		h.handler = wrap(h.handler)
	}
	h.closing, h.close = context.WithCancel(context.Background())
	return h, nil
}

// Handler serves the host.
func (h *Host) Handler() http.Handler { return h.handler }

// Close ends every stream and every waiting poll, stops the runs that are active, and waits for them. Their logs stay
// as they are. It is safe to call it again.
func (h *Host) Close() error {
	h.close()
	h.engine.Close()
	return nil
}

// gatedTypes are the reserved node types that only a host advertising the family, or facet, runs, and its name
// (runs.md §Refusals).
func gatedTypes() map[string]string {
	return map[string]string{
		"core.conversationGate":        "conversationPrimitive",
		"core.approvalGate":            "interrupt",
		"core.clarificationGate":       "interrupt",
		"core.interrupt":               "interrupt",
		"core.subWorkflow":             "subWorkflow",
		"core.orchestrator.supervisor": "agents.orchestrator",
		"core.dispatch":                "agents.dispatch",
	}
}

func (h *Host) loadWorkflows() error {
	h.workflows = make(map[string]*workflow.Definition)
	gated := gatedTypes()
	var errs []error
	for _, held := range slices.Concat(h.config.Fixtures, h.config.Unlisted) {
		definition, err := workflow.Parse(h.contract, held.Document)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if _, twice := h.workflows[definition.ID]; twice {
			errs = append(errs, fmt.Errorf("two workflows have the id %s", definition.ID))
		}
		for _, node := range definition.Nodes {
			if gated[node.TypeID] == "" && !h.engine.Runs(node.TypeID) {
				errs = append(errs, fmt.Errorf("workflow %s: node %s: there is no node type %s", definition.ID, node.ID, node.TypeID))
			}
		}
		if definition.MapsInputs() && !h.advertises("subWorkflow.inputMapping") {
			errs = append(errs, fmt.Errorf("workflow %s: inputMapping needs the facet subWorkflow.inputMapping", definition.ID))
		}
		h.workflows[definition.ID] = definition
	}
	h.blocked = make(map[string]*refusal)
	for id := range h.workflows {
		h.blocked[id] = h.block(id, make(map[string]bool))
	}
	return errors.Join(errs...)
}

// capabilityFor is the family a workflow needs and this host does not advertise, or "".
func (h *Host) capabilityFor(definition *workflow.Definition) string {
	gated := gatedTypes()
	for _, node := range definition.Nodes {
		if gate := gated[node.TypeID]; gate != "" && (!h.advertises(gate) || !h.engine.Runs(node.TypeID)) {
			return gate
		}
	}
	return ""
}
