package referencehost

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"wopcert/reference-host/internal/clock"
	"wopcert/reference-host/internal/engine"
	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/token"
)

const (
	// tokenLifetime is how long a token lives that nothing shortens (interrupt.md §Tokens).
	tokenLifetime = 30 * time.Minute

	tableCallbacks = "callbacks"
	seamCallback   = "interrupt.callback"
	// callbackAttempts are made for one notice, the second one callbackDelay after the first, and each further one after
	// twice as long as the one before.
	callbackAttempts = 4
	callbackDelay    = 40 * time.Millisecond
	// callbacksAtOnce bounds the notices on their way.
	callbacksAtOnce = 64
)

// checkCallback holds the address for notices to the guard every address of a client is held to (interrupt.md §Callback
// delivery).
func (h *Host) checkCallback(body *createBody, run *eventlog.Run) error {
	switch {
	case body.CallbackURL == nil:
		return nil
	case !h.advertises("interrupt.callbackDelivery"):
		return h.codes.invalid("callbackUrl", "This host delivers no interrupt callbacks.")
	}
	if err := h.egress.CheckURL(*body.CallbackURL); err != nil {
		return h.codes.invalid("callbackUrl", "The callbackUrl is not an address this host would send anything to.")
	}
	run.CallbackURL = *body.CallbackURL
	return nil
}

// notice is what a row of the table says: an interrupt whose run wants to be called about it.
type notice struct {
	RunID       string `json:"runId"`
	InterruptID string `json:"interruptId"`
}

// callbackOutbox writes a notice together with the events that open an interrupt. A fork has no callback address, so what
// it inherits or re-emits is silent.
func (h *Host) callbackOutbox(run eventlog.Run, events []eventlog.Event) (writes []eventlog.TableWrite) {
	if run.CallbackURL == "" || h.courier == nil {
		return nil
	}
	for _, event := range events {
		if event.Type != eventlog.NodeSuspended {
			continue
		}
		var suspended struct {
			InterruptID string `json:"interruptId"`
		}
		if err := json.Unmarshal(event.Payload, &suspended); err != nil || suspended.InterruptID == "" {
			continue // whoever reads the log will say so
		}
		value, err := encode(notice{run.ID, suspended.InterruptID})
		if err != nil {
			continue
		}
		key := suspended.InterruptID
		writes = append(writes, eventlog.TableWrite{Table: tableCallbacks, Key: key, Value: value, Written: func() { h.courier.dispatch(key, 1, 0) }})
	}
	return writes
}

// courier delivers the notices in the table.
type courier struct {
	host   *Host
	ctx    context.Context
	cancel context.CancelFunc
	places chan struct{}

	mu      sync.Mutex // held while something is added to running
	closed  bool
	running sync.WaitGroup
}

// startCallbacks takes up the notices an earlier life of the host has left, and those that come.
func (h *Host) startCallbacks() error {
	if !h.advertises("interrupt.callbackDelivery") {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.courier = &courier{host: h, ctx: ctx, cancel: cancel, places: make(chan struct{}, callbacksAtOnce)}
	return h.store.Scan(ctx, tableCallbacks, "", func(key string, _ []byte) error {
		h.courier.dispatch(key, 1, 0)
		return nil
	})
}

// close ends the deliveries under way; their notices stay in the table. A nil courier has none.
func (c *courier) close() {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.running.Wait()
}

func (c *courier) dispatch(key string, attempt int, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.running.Add(1)
	go func() {
		defer c.running.Done()
		if !c.pause(wait) {
			return
		}
		done, err := c.deliver(key)
		switch {
		case c.ctx.Err() != nil:
		case done || attempt == callbackAttempts:
			c.drop(key, err)
		default:
			c.dispatch(key, attempt+1, callbackDelay<<(attempt-1))
		}
	}()
}

// pause waits for the time of an attempt and for a place to make it in; false says that the host closes.
func (c *courier) pause(wait time.Duration) bool {
	if wait > 0 {
		passed, stop := clock.After(c.host.clock, wait)
		defer stop()
		select {
		case <-passed:
		case <-c.ctx.Done():
			return false
		}
	}
	select {
	case c.places <- struct{}{}:
		return true
	case <-c.ctx.Done():
		return false
	}
}

func (c *courier) drop(key string, cause error) {
	if cause != nil {
		c.host.logger.Warn("a notice of an interrupt was not delivered", "interrupt", key, "error", cause)
	}
	err := c.host.store.Update(c.ctx, tableCallbacks, key, func([]byte) ([]byte, error) { return nil, nil })
	if err != nil && c.ctx.Err() == nil {
		c.host.logger.Error("a notice of an interrupt stays in the table", "interrupt", key, "error", err)
	}
}

// deliver makes one attempt. It is done when the notice was taken, or is about nothing any more.
func (c *courier) deliver(key string) (done bool, err error) {
	defer func() { <-c.places }()
	value, err := c.host.store.Get(c.ctx, tableCallbacks, key)
	if errors.Is(err, eventlog.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	var held notice
	if err := json.Unmarshal(value, &held); err != nil {
		return true, err
	}
	log, err := c.host.store.Open(c.ctx, held.RunID)
	if err != nil {
		return errors.Is(err, eventlog.ErrNotFound), err
	}
	body, err := c.host.callbackBody(log, held.InterruptID)
	if err != nil || body == nil {
		return err == nil, err
	}
	run := log.Run()
	outcome, err := c.host.sender.Send(c.ctx, engine.Effect{
		Tenant: run.Owner.Tenant, RunID: run.ID, Seam: seamCallback, Method: http.MethodPost, URL: run.CallbackURL,
		Header: http.Header{"Content-Type": {contentTypeJSON}}, Body: body,
	})
	if err != nil {
		return false, err
	}
	if outcome.Status < 200 || outcome.Status > 299 { // a redirect is one as little as a failure
		return false, errors.New("the receiver answered " + http.StatusText(outcome.Status))
	}
	return true, nil
}

// callback is the body of a notice. Who gets it can inspect the interrupt, and resolve it with Token where no
// authenticated caller is asked for.
type callback struct {
	RunID        string          `json:"runId"`
	NodeID       string          `json:"nodeId"`
	InterruptID  string          `json:"interruptId"`
	Kind         string          `json:"kind"`
	ExpiresAt    string          `json:"expiresAt"`
	Token        string          `json:"token,omitempty"`
	ResolveURL   string          `json:"resolveUrl,omitempty"`
	InspectToken string          `json:"inspectToken"`
	Interrupt    json.RawMessage `json:"interrupt"`
}

// callbackBody is nil for an interrupt that waits no longer.
func (h *Host) callbackBody(log eventlog.Log, interruptID string) ([]byte, error) {
	events, err := log.Read(-1)
	if err != nil {
		return nil, err
	}
	run := log.Run()
	asked, err := engine.AskedBy(&run, events, func(a *engine.Asked) bool { return a.InterruptID == interruptID })
	if err != nil || asked == nil || asked.Resolution != nil {
		return nil, err
	}
	gate := &gate{run: &run, def: h.definition(run), asked: asked}
	expires := h.tokenExpiry(gate)
	if standing := eventlog.StandingOf(run, events); standing.Ended() || !h.clock.Now().Before(expires) {
		return nil, nil
	}
	mint := func(intent string) string {
		return h.tokens.Mint(token.Claims{
			RunID: run.ID, NodeID: asked.NodeID, InterruptID: asked.InterruptID, ExpiresAt: expires, Intent: intent,
		})
	}
	body := callback{
		RunID: run.ID, NodeID: asked.NodeID, InterruptID: asked.InterruptID, Kind: asked.Kind, ExpiresAt: stamp(expires),
		InspectToken: mint(token.Inspect), Interrupt: asked.Payload,
	}
	if string(gate.setting("authRequired")) != "true" {
		body.Token = mint(token.Resolve)
		body.ResolveURL = "/interrupts/" + body.Token
	}
	return encode(body)
}

// tokenExpiry is when a token that is made now expires: never after the interrupt's own time, and before it where the
// node says so.
func (h *Host) tokenExpiry(gate *gate) time.Time {
	lifetime := tokenLifetime
	var ms float64
	if err := json.Unmarshal(gate.setting("tokenLifetimeMs"), &ms); err == nil && ms >= 1 && ms < float64(lifetime.Milliseconds()) {
		lifetime = time.Duration(ms) * time.Millisecond
	}
	expires := h.clock.Now().Add(lifetime)
	if !gate.asked.Deadline.IsZero() && gate.asked.Deadline.Before(expires) {
		expires = gate.asked.Deadline
	}
	return expires.UTC().Truncate(time.Millisecond)
}
