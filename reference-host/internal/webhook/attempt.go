package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"wopcert/reference-host/internal/engine"
	"wopcert/reference-host/internal/eventlog"
)

// The reasons a delivery ends in the dead-letter sink.
const (
	ReasonExhausted     = "retries_exhausted"
	ReasonUnprojectable = "payload_unprojectable"
)

// deliver makes one attempt of a delivery, and records what came of it. again asks for another at due.
func (d *Dispatcher) deliver(l *lane, key string) (again bool, due time.Time) {
	raw, err := d.store.Get(d.root, tableDeliveries, key)
	if errors.Is(err, eventlog.ErrNotFound) {
		return false, due
	}
	var held delivery
	if err == nil {
		err = json.Unmarshal(raw, &held)
	}
	if err == nil {
		again, err = d.attempt(l, key, &held)
	}
	if err != nil && l.ctx.Err() == nil {
		// The store is out of order. The delivery stays where it is, and nothing counts as an attempt.
		d.logger.Error("a delivery of a webhook could not be made", "webhook", l.id, "error", err)
		return true, d.clock.Now().Add(refillAfter)
	}
	return again, held.Due
}

func (d *Dispatcher) attempt(l *lane, key string, held *delivery) (again bool, err error) {
	if held.Dead == nil {
		body, err := d.body(held)
		switch {
		case err != nil && d.config.Unprojectable(err):
			held.Attempts++
			held.Dead = &verdict{At: d.clock.Now(), Reason: ReasonUnprojectable}
		case err != nil:
			return false, err
		default:
			taken, failure := d.send(l, held, body)
			if l.ctx.Err() != nil {
				return false, nil // unregistered, or the host closes: whether it arrived does not matter or is not known
			}
			if taken {
				return false, d.drop(d.root, tableDeliveries, key)
			}
			d.failed(l, held, failure)
		}
		if err := d.keep(key, held); err != nil {
			return false, err
		}
	}
	if held.Dead != nil {
		return false, d.bury(l, key, held)
	}
	return true, nil
}

// failed counts a failed attempt, and decides about the next.
func (d *Dispatcher) failed(l *lane, held *delivery, failure error) {
	held.Attempts++
	now := d.clock.Now()
	if held.Attempts < d.config.Retry.MaxAttempts {
		held.Due = now.Add(d.config.Retry.delay(held.Attempts))
		return
	}
	held.Dead = &verdict{At: now, Reason: ReasonExhausted}
	d.logger.Warn("a delivery of a webhook was given up", "webhook", l.id, "run", held.RunID, "sequence", held.Sequence,
		"attempts", held.Attempts, "status", held.LastStatus, "error", failure)
}

// keep writes a delivery back, unless it is gone with its subscription.
func (d *Dispatcher) keep(key string, held *delivery) error {
	return d.store.Update(d.root, tableDeliveries, key, func(now []byte) ([]byte, error) {
		if now == nil {
			return nil, nil
		}
		return encodeRow(held), nil
	})
}

// body is what is delivered: the run, its workspace when it has one, and the event as every reader of the log gets it
// (webhooks.md §Delivery). It is the same at every attempt, since the event is.
func (d *Dispatcher) body(held *delivery) ([]byte, error) {
	log, err := d.store.Open(d.root, held.RunID)
	if err != nil {
		return nil, err
	}
	events, err := log.Read(held.Sequence - 1)
	if err != nil {
		return nil, err
	}
	if len(events) == 0 || events[0].Sequence != held.Sequence || events[0].EventID != held.EventID {
		return nil, fmt.Errorf("the log of %s has lost event %d", held.RunID, held.Sequence)
	}
	run := log.Run()
	head := struct {
		RunID       string `json:"runId"`
		WorkspaceID string `json:"workspaceId,omitempty"`
	}{run.ID, run.Owner.Workspace}
	body := encodeRow(head)
	body = append(body[:len(body)-1], `,"event":`...)
	return append(events[0].AppendJSON(body), '}'), nil
}

// send makes the request. It is taken when the response is a 2xx; a redirect is not one (webhooks.md §Durability).
func (d *Dispatcher) send(l *lane, held *delivery, body []byte) (taken bool, failure error) {
	ctx, cancel := context.WithTimeout(l.ctx, d.config.AttemptTimeout)
	defer cancel()
	now := d.clock.Now()
	d.mu.Lock()
	subscription := l.subscription
	d.mu.Unlock()
	header := signedHeader(&subscription, digest(l.id, held.RunID, held.Sequence), held.Type, now, body, d.config.Legacy)
	outcome, err := d.config.Sender.Send(ctx, engine.Effect{
		Tenant: subscription.Tenant, RunID: held.RunID, Attempt: held.Attempts + 1,
		Method: http.MethodPost, URL: subscription.URL, Header: header, Body: body,
	})
	held.LastStatus = 0
	if outcome != nil {
		held.LastStatus = outcome.Status
		return outcome.Status >= 200 && outcome.Status <= 299, err
	}
	return false, err
}
