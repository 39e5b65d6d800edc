package eventlog_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/storetest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) eventlog.Store { return eventlog.NewMemory(storetest.Follows) })
}

func TestExpiredRecordsAreDropped(t *testing.T) {
	t.Parallel()
	s := eventlog.NewMemory(storetest.Follows)
	now := time.Unix(1000, 0)
	for i := range 200_000 { // some thousand to each shard, every one expired when the next comes
		key := eventlog.RecordKey{Tenant: "t", Endpoint: "e", Key: fmt.Sprint(i)}
		_, _, err := s.Begin(t.Context(), key, [32]byte{}, now)
		require.NoError(t, err)
		require.NoError(t, s.Finish(t.Context(), key, &eventlog.Response{}, now))
		now = now.Add(time.Second)
	}
	assert.Less(t, s.RecordCount(), 100_000)
}

func TestEventJSON(t *testing.T) {
	t.Parallel()
	event := eventlog.Event{
		Draft: eventlog.Draft{
			EventID: "e", Type: "node.started", Payload: json.RawMessage(`{"nodeId":"n"}`), NodeID: "n\"\\é\x01", CausationID: "c",
			Timestamp: time.Date(2026, 1, 2, 3, 4, 5, 6_700_000, time.FixedZone("x", 3600)),
		},
		RunID: "t/1", Sequence: 4, EngineVersion: 1,
	}
	var got map[string]any
	data, err := json.Marshal(event)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &got))
	assert.Equal(t, map[string]any{
		"eventId": "e", "runId": "t/1", "type": "node.started", "payload": map[string]any{"nodeId": "n"}, "timestamp": "2026-01-02T02:04:05.006Z",
		"sequence": 4.0, "schemaVersion": 1.0, "nodeId": "n\"\\é\x01", "engineVersion": 1.0, "causationId": "c",
	}, got)
}
