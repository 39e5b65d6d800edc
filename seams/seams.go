package seams

import "net/http"

// Profile is the value of conformance.seamsProfile on a host that mounts the seams.
const Profile = "openwop-conformance-seams-v2"

// Root is the path space of the seams, relative to a host's base URL.
const Root = "/conformance/seams"

// Call is one request. Body is sent as JSON.
type Call struct {
	Operation string // operation id, as api/seams.json has it
	Method    string
	Path      string // relative to the host's base URL
	Body      any
	Success   int    // the status of a success
	Response  string // schema of the body of a success
}

// The statuses a run can be seeded in.
const (
	Running   = "running"
	Completed = "completed"
	Failed    = "failed"
	Cancelled = "cancelled"
)

// era is the only era a log can be seeded in.
const era = 2

// SeedEvent is one row of a log as a host of version 1 stored it.
type SeedEvent struct {
	Type        string         `json:"type"` // in version 1 vocabulary
	Sequence    int64          `json:"sequence"`
	Payload     map[string]any `json:"payload"`
	Timestamp   string         `json:"timestamp,omitempty"` // RFC 3339
	CausationID string         `json:"causationId,omitempty"`
}

type seedRequest struct {
	Era    int         `json:"eventLogSchemaVersion"`
	Status string      `json:"status"`
	Events []SeedEvent `json:"events"`
}

// SeedLog stores a run with a log of era 2, row by row as given: nothing is translated
// and no era is stamped when it is written. The answer is 201 with the run's id
// (persistence.md §The reader rule).
func SeedLog(status string, events ...SeedEvent) Call {
	return sample("seedEra2EventLog", "/event-log/seed", http.StatusCreated, "runReference",
		seedRequest{Era: era, Status: status, Events: events})
}

type fireRequest struct {
	Seam        string `json:"seam"`
	ReceiverURL string `json:"receiverUrl,omitempty"`
}

// FireEffect runs a workflow that drives the named effect seam, a row of GET
// /host/effect-seams, once. An empty receiver leaves the destination to the host. The
// answer is 201 with the run's id, 404 for a seam the host does not have (replay.md
// §The effect-seam manifest).
func FireEffect(seam, receiver string) Call {
	return sample("fireEffectSeam", "/effect-seams/fire", http.StatusCreated, "runReference", fireRequest{Seam: seam, ReceiverURL: receiver})
}

type effectRetryRequest struct {
	ProviderURL string `json:"providerUrl"`
}

// RetryEffect sends one effect to a provider and sends it again at the transport, so
// that the provider sees both attempts. The answer is 201 with the run and the effect
// (idempotency.md §Layer 2: effect identity).
func RetryEffect(provider string) Call {
	return sample("forceEffectTransportRetry", "/test/idempotency/effect-retry", http.StatusCreated, "effectReference", effectRetryRequest{ProviderURL: provider})
}

type receiveRequest struct {
	Secret  string            `json:"secret"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

// ReceiveWebhook hands a delivery to the verifier the host uses for its own
// subscriptions, with the subscription's secret. The answer is 200 with the verdict
// (webhooks.md §Verification).
func ReceiveWebhook(secret string, headers map[string]string, body string) Call {
	if headers == nil {
		headers = map[string]string{}
	}
	return sample("receiveWebhookDelivery", "/webhooks/receive", http.StatusOK, "verdict", receiveRequest{Secret: secret, Headers: headers, Body: body})
}

func sample(operation, path string, success int, response string, body any) Call {
	return Call{Operation: operation, Method: http.MethodPost, Path: Root + "/sample" + path, Body: body,
		Success: success, Response: "seams#/$defs/" + response}
}
