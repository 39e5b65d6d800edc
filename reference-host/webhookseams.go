package referencehost

import (
	"net/http"
	"sync"

	"wopcert/reference-host/internal/webhook"
)

// webhookSeams make the host a subscriber: a delivery is put through the verifier and the verdict told.
func (h *Host) webhookSeams() map[string]route {
	return map[string]route{"receiveWebhookDelivery": {answer: h.receiveWebhookDelivery}}
}

func (h *Host) receiveWebhookDelivery(r *request) (*answer, error) {
	var received struct {
		Secret  string            `json:"secret"`
		Headers map[string]string `json:"headers"`
		Body    string            `json:"body"`
	}
	if err := h.requiredBody(r, "seams#/$defs/receiveRequest", &received); err != nil {
		return nil, err
	}
	reason := webhook.Verify(received.Headers, []byte(received.Body), received.Secret, h.clock.Now())
	return jsonAnswer(http.StatusOK, struct {
		Accepted bool   `json:"accepted"`
		Reason   string `json:"reason,omitempty"`
	}{reason == "", reason}), nil
}

// maxVerifications bounds the verification requests of a tenant that are out at a time (RFC 0201 §D).
const maxVerifications = 32

// gauge counts what is under way per tenant.
type gauge struct {
	mu    sync.Mutex
	inUse map[string]int
}

func (g *gauge) enter(tenant string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inUse[tenant] >= maxVerifications {
		return false
	}
	if g.inUse == nil {
		g.inUse = make(map[string]int)
	}
	g.inUse[tenant]++
	return true
}

func (g *gauge) leave(tenant string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inUse[tenant]--; g.inUse[tenant] == 0 {
		delete(g.inUse, tenant)
	}
}
