package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// DeadLetter names a delivery that will not be attempted again. It holds nothing of what would have been delivered
// (webhooks.md §Dead letters).
type DeadLetter struct {
	DeliveryID     string    `json:"deliveryId"`
	WebhookID      string    `json:"webhookId"`
	RunID          string    `json:"runId"`
	EventID        string    `json:"eventId"`
	EventType      string    `json:"eventType"`
	Attempts       int       `json:"attempts"`
	DeadLetteredAt time.Time `json:"deadLetteredAt"`
	ExpiresAt      time.Time `json:"expiresAt"`
	Reason         string    `json:"reason"`
	// LastStatus is the status of the last response, 0 when there was none.
	LastStatus int `json:"lastStatus,omitempty"`
}

// bury moves a delivery to the dead-letter sink. Its place there is decided by the delivery alone, so that doing it
// again after a crash changes nothing.
func (d *Dispatcher) bury(l *lane, key string, held *delivery) error {
	id := digest(l.id, held.RunID, held.Sequence)
	at := held.Dead.At.UTC().Truncate(time.Millisecond)
	letter := DeadLetter{
		DeliveryID: l.subscription.Tenant + "/" + id, WebhookID: l.id, RunID: held.RunID, EventID: held.EventID, EventType: held.Type,
		Attempts: held.Attempts, DeadLetteredAt: at, ExpiresAt: at.Add(d.config.Retention), Reason: held.Dead.Reason,
		LastStatus: held.LastStatus,
	}
	place := fmt.Sprintf("%s/%016x/%s", l.id, math.MaxInt64-held.Dead.At.UnixNano(), id)
	err := d.store.Update(d.root, tableDeadLetters, place, func([]byte) ([]byte, error) {
		if l.ctx.Err() != nil {
			return nil, nil // the sink is the live subscription's
		}
		return encodeRow(letter), nil
	})
	if err != nil {
		return err
	}
	return d.drop(d.root, tableDeliveries, key)
}

var errEnough = errors.New("the page is full")

// DeadLetters lists at most limit dead letters of a subscription, newest first, that come after a place, "" for the
// start. next is the place to go on from, "" when there are no more.
func (d *Dispatcher) DeadLetters(ctx context.Context, id, after string, limit int) (page []DeadLetter, next string, err error) {
	now, last := d.clock.Now(), ""
	err = d.store.Scan(ctx, tableDeadLetters, id+"/", func(key string, value []byte) error {
		place := strings.TrimPrefix(key, id+"/")
		if place <= after {
			return nil
		}
		var letter DeadLetter
		if err := json.Unmarshal(value, &letter); err != nil {
			return err
		}
		switch {
		case !letter.ExpiresAt.After(now):
			return d.drop(ctx, tableDeadLetters, key)
		case len(page) == limit:
			next = last
			return errEnough
		}
		page, last = append(page, letter), place
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return page, next, err
}
