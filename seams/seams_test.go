package seams

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"wopcert/corpus"
)

// Every call is an operation of the contract, with a body its schema admits.
func TestCallsAreOperationsOfTheContract(t *testing.T) {
	t.Parallel()
	c, err := corpus.Load()
	require.NoError(t, err)
	for _, call := range []Call{
		SeedLog(Running, SeedEvent{Type: "run.started", Payload: map[string]any{"workflowId": "w"}}),
		SeedLog(Cancelled, SeedEvent{Type: "run.resuming", Sequence: 7, Payload: map[string]any{}, Timestamp: "2025-01-02T03:04:05Z", CausationID: "c"}),
		SeedLog(Completed, SeedEvent{Payload: map[string]any{}}), SeedLog(Failed, SeedEvent{Payload: map[string]any{}}),
		FireEffect("http.client", ""), FireEffect("http.client", "https://receiver.example/e"),
		RetryEffect("https://receiver.example/e"),
		ReceiveWebhook("secret", nil, "{}"), ReceiveWebhook("secret", map[string]string{"OpenWOP-Signature": "sha256=00"}, ""),
	} {
		operation, ok := c.SeamOperation(call.Operation)
		require.True(t, ok, call.Operation)
		require.Equal(t, operation.Method, call.Method)
		require.Equal(t, operation.Path, call.Path)
		require.Equal(t, operation.Response, call.Response)
		require.True(t, slices.Contains(operation.Success, call.Success))
		body, err := json.Marshal(call.Body)
		require.NoError(t, err)
		require.NoError(t, c.Validate(operation.Request, body), string(body))
	}
}

// What a schema forbids, no call can be made to send: the checks that send it build
// their own bodies.
func TestTheContractRefusesOtherBodies(t *testing.T) {
	t.Parallel()
	c, err := corpus.Load()
	require.NoError(t, err)
	for request, bodies := range map[string][]string{
		"seedRequest": {`{}`, `{"eventLogSchemaVersion":3,"status":"running","events":[{"type":"a","sequence":0,"payload":{}}]}`,
			`{"eventLogSchemaVersion":2,"status":"waiting-approval","events":[{"type":"a","sequence":0,"payload":{}}]}`,
			`{"eventLogSchemaVersion":2,"status":"running","events":[]}`, `{"eventLogSchemaVersion":2,"status":"running","events":[{"type":"a","sequence":-1,"payload":{}}]}`,
			`{"eventLogSchemaVersion":2,"status":"running","events":[{"type":"a","sequence":0,"payload":{},"eventId":"e"}]}`},
		"fireRequest":        {`{}`, `{"seam":""}`, `{"seam":"a","receiverUrl":"not an address"}`, `{"seam":"a","x":1}`},
		"effectRetryRequest": {`{}`, `{"providerUrl":1}`},
		"receiveRequest":     {`{"secret":"s","headers":{},"body":{}}`, `{"secret":"","headers":{},"body":""}`, `{"secret":"s","headers":{"a":1},"body":""}`},
	} {
		for _, body := range bodies {
			require.Error(t, c.Validate("seams#/$defs/"+request, []byte(body)), body)
		}
	}
}
