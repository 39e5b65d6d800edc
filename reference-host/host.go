package referencehost

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"wopcert/corpus"
	"wopcert/reference-host/internal/effects"
	"wopcert/reference-host/internal/egress"
	"wopcert/reference-host/internal/engine"
	"wopcert/reference-host/internal/era"
	"wopcert/reference-host/internal/evals"
	"wopcert/reference-host/internal/token"
	"wopcert/reference-host/internal/webhook"
	"wopcert/reference-host/internal/workflow"
)

// Host is one host. Make it with New, serve its Handler, and Close it.
type Host struct {
	config        Config
	contract      *corpus.Corpus
	clock         Clock
	store         Store
	ids           IDs
	logger        *slog.Logger
	codes         *errorCodes
	engine        *engine.Engine
	egress        *egress.Sender // judges URLs; what is sent goes through sender
	sender        Sender
	ledger        *effects.Ledger
	build         func() (buildID, error)
	hooks         *webhook.Dispatcher // nil without the family
	verifications gauge
	principals    []*principal
	workflows     map[string]*workflow.Definition
	own           map[string]*workflow.Definition // behind the seams, served to nobody
	blocked       map[string]*refusal             // why no run of a workflow can be created, nil when one can
	suites        map[string]*evals.Suite
	directory     Directory
	tokens        *token.Ring
	courier       *courier // nil unless callbacks are delivered
	evalRun       *workflow.Definition
	heartbeat     *heartbeat
	table         []route
	handler       http.Handler

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
	stop    sync.Once
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
		config: config, contract: contract, clock: config.Clock, store: era.Over(config.Store, contract), ids: config.IDs, logger: config.Logger,
		versions: protocolVersions(), tiers: make(map[string]string), orgs: contract.Orgs(), build: buildReader(),
	}
	if h.logger == nil {
		h.logger = slog.New(slog.DiscardHandler)
	}
	h.compressors.New = func() any { return gzip.NewWriter(nil) }
	if h.cursorKey, err = h.keptKey("cursor"); err != nil {
		return nil, err
	}
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
	if h.tokens, err = token.NewRing(config.TokenSecrets); err != nil {
		return nil, err
	}
	h.config.TokenSecrets = nil
	if h.directory = config.Directory; h.directory == nil {
		h.directory = keyDirectory(h.principals)
	}
	if err := h.settleFamilies(); err != nil {
		return nil, err
	}
	if h.egress, err = egress.New(config.Egress); err != nil {
		return nil, err
	}
	h.sender = h.egress
	for _, wrap := range slices.Backward(config.WrapSender) {
		h.sender = wrap(h.sender)
	}
	if err := h.startEffects(); err != nil {
		return nil, err
	}
	h.engine, err = engine.New(engine.Config{
		Clock: config.Clock, Sender: effects.Guard{Next: h.ledger}, EventID: config.IDs.Opaque, Logger: h.logger,
		Nodes: slices.Concat(engine.CoreTypes(), h.contentTypes(), h.gateTypes(), h.effectTypes(), config.NodeTypes), MaxActive: config.Limits.MaxActiveRuns,
		Children: children{h}, DeadLetters: h.advertises("deadLetter"), KindEvents: !config.NoKindEvents,
		Same: sameEvent, Plans: h.plans(), Profile: h.profile(), InverseID: effects.InverseID,
	})
	if err != nil {
		return nil, err
	}
	if err := h.loadWorkflows(); err != nil {
		return nil, err
	}
	if err := h.loadSeamWorkflows(); err != nil {
		return nil, err
	}
	if err := h.loadEvals(); err != nil {
		return nil, err
	}
	if outbox := joinOutboxes(h.outboxes()); outbox != nil {
		h.store.Outbox(outbox)
	}
	if err := h.startCallbacks(); err != nil {
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
	if err := h.startWebhooks(); err != nil {
		return nil, err
	}
	h.closing, h.close = context.WithCancel(context.Background())
	if err := h.recoverRuns(); err != nil { // nothing is served before every run is on its way again
		return nil, errors.Join(fmt.Errorf("recovery: %w", err), h.Close())
	}
	if err := h.engine.ResumeUnwinds(context.Background()); err != nil {
		return nil, errors.Join(fmt.Errorf("recovery: %w", err), h.Close())
	}
	return h, nil
}

// Handler serves the host.
func (h *Host) Handler() http.Handler { return h.handler }

// Close ends every stream and every waiting poll, stops the runs that are active, and waits for them. Their logs stay
// as they are. It is safe to call it again.
func (h *Host) Close() (err error) {
	h.stop.Do(func() {
		h.close()
		h.courier.close()
		h.engine.Close()
		h.ledger.Close()
		if h.hooks != nil {
			h.hooks.Close()
		}
		h.egress.Close()
		err = h.markStopped()
	})
	return err
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
		if err := h.checkPolicy(definition); err != nil {
			errs = append(errs, fmt.Errorf("workflow %s: %w", definition.ID, err))
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
	if definition.Policy != nil && !h.advertises("compensation") {
		return "compensation"
	}
	gated := gatedTypes()
	for _, node := range definition.Nodes {
		if gate := gateOf(&node, gated); gate != "" && (!h.advertises(gate) || !h.engine.Runs(node.TypeID)) {
			return gate
		}
	}
	return ""
}
