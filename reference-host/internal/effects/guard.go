package effects

import (
	"context"
	"fmt"

	"wopcert/reference-host/internal/engine"
)

// Guard is the engine.Sender in front of every other. It denies by default: nothing a replay asks of the world gets
// past it, whatever the node is classified as (replay.md §Suppression).
type Guard struct{ Next engine.Sender }

// GuardName is how the effect-seam manifest names what guards the seams.
const GuardName = "replay-guard"

// Send implements engine.Sender.
func (g Guard) Send(ctx context.Context, effect engine.Effect) (*engine.Outcome, error) {
	if effect.Replay {
		return nil, engine.SourceMissing(effect.NodeID)
	}
	return g.Next.Send(ctx, effect)
}

// Seams is the engine.Sender that sends each effect by the seam it names.
type Seams map[string]engine.Sender

// Send implements engine.Sender.
func (s Seams) Send(ctx context.Context, effect engine.Effect) (*engine.Outcome, error) {
	seam, ok := s[effect.Seam]
	if !ok {
		return nil, fmt.Errorf("%w: there is no effect seam %q", engine.ErrNotSent, effect.Seam)
	}
	return seam.Send(ctx, effect)
}
