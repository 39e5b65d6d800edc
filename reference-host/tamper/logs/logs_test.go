package logs

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

func store(t *testing.T) referencehost.Store {
	t.Helper()
	s, err := referencehost.NewMemoryStore()
	require.NoError(t, err)
	return s
}

func draft(typ string) referencehost.Draft {
	return referencehost.Draft{EventID: "event-0000000000-" + typ, Type: typ, Payload: []byte(`{}`), Timestamp: time.Unix(0, 0)}
}

func types(t *testing.T, log referencehost.Log, after int64) (out []string) {
	t.Helper()
	events, err := log.Read(after)
	require.NoError(t, err)
	for _, e := range events {
		out = append(out, e.Type)
	}
	return out
}

func TestEditedWritesAndShowsWhatTheEditSays(t *testing.T) {
	t.Parallel()
	var told []string
	s := Edited(store(t), Edit{
		Create: func(_ context.Context, run *referencehost.Run, first []referencehost.Draft) []referencehost.Draft {
			run.WorkflowID = "other"
			return append(first, draft("log.appended"))
		},
		Append: func(_ referencehost.Log, drafts []referencehost.Draft) []referencehost.Draft { return drafts[1:] },
		Appended: func(_ referencehost.Log, drafts []referencehost.Draft) {
			for _, d := range drafts {
				told = append(told, d.Type)
			}
		},
		Read: func(_ referencehost.Log, events []referencehost.Event) []referencehost.Event {
			events[0].Type = "shown"
			return events
		},
	})
	log, err := s.Create(t.Context(), referencehost.Run{ID: "t/r"}, false, draft("run.started"))
	require.NoError(t, err)
	_, err = log.Append(t.Context(), referencehost.AnySequence, draft("dropped"), draft("node.started"))
	require.NoError(t, err)
	again, err := s.Open(t.Context(), "t/r")
	require.NoError(t, err)
	assert.Equal(t, "other", again.Run().WorkflowID)
	assert.Equal(t, []string{"shown", "log.appended", "node.started"}, types(t, again, -1))
	assert.Equal(t, []string{"node.started"}, types(t, again, 1))
	assert.Empty(t, types(t, again, 2))
	assert.Equal(t, []string{"run.started", "log.appended", "node.started"}, told)
	_, err = s.Open(t.Context(), "t/none")
	assert.Error(t, err)
}

func TestBehindShowsWhatNoLogTakes(t *testing.T) {
	t.Parallel()
	b := NewBehind(store(t))
	log, err := b.Create(t.Context(), referencehost.Run{ID: "t/r"}, false, draft("run.started"), draft("run.completed"))
	require.NoError(t, err)
	_, err = log.Append(t.Context(), referencehost.AnySequence, draft("node.completed"))
	require.Error(t, err)
	b.Add("t/r", draft("node.completed"))
	assert.Equal(t, []string{"run.started", "run.completed", "node.completed"}, types(t, log, -1))
	events, err := log.Read(1)
	require.NoError(t, err)
	require.Len(t, events, 1)
	assert.Equal(t, int64(2), events[0].Sequence)
	assert.Equal(t, "t/r", events[0].RunID)
}
