package eventlog

import (
	"context"
	"time"
)

// Outcome is the final outcome of the request that a write serves, under the idempotency record the request holds.
type Outcome struct {
	Key      RecordKey
	Response *Response
	Expiry   time.Time
}

type outcomeKey struct{}

// WithOutcome has the Create it is given to finish the record in the same step: with the run there is the answer that
// names it, and a request that is sent again after a crash in between gets that answer and no second run.
func WithOutcome(ctx context.Context, outcome Outcome) context.Context {
	return context.WithValue(ctx, outcomeKey{}, &outcome)
}

// OutcomeOf is the outcome a context carries, nil for none.
func OutcomeOf(ctx context.Context) *Outcome {
	outcome, _ := ctx.Value(outcomeKey{}).(*Outcome)
	return outcome
}
