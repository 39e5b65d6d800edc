package era_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/corpus"
	"wopcert/reference-host/internal/era"
	"wopcert/reference-host/internal/eventlog"
)

var written = time.Date(2025, 3, 1, 8, 0, 0, 123_000_000, time.UTC)

// stores is a store in memory and what readers see through the adapter.
type stores struct {
	held  *eventlog.Memory
	shown *era.Store
	c     *corpus.Corpus
}

func open(t *testing.T) stores {
	t.Helper()
	c, err := corpus.Load()
	require.NoError(t, err)
	held := eventlog.NewMemory(func(string) bool { return false })
	return stores{held, era.Over(held, c), c}
}

// legacyOwner is the owner of a run that recorded none.
func legacyOwner(t *testing.T) eventlog.Owner {
	t.Helper()
	owner, err := era.OwnerOf(nil, "tenant-a")
	require.NoError(t, err)
	return owner
}

func row(typ, payload string) eventlog.Draft {
	return eventlog.Draft{EventID: "event-0123456789-" + typ, Type: typ, Payload: json.RawMessage(payload), Timestamp: written}
}

// create makes a run of an era with the rows.
func (s stores) create(t *testing.T, id string, e int, rows ...eventlog.Draft) eventlog.Log {
	t.Helper()
	run := eventlog.Run{ID: "tenant-a/" + id, Owner: legacyOwner(t), WorkflowID: "conformance-noop", Era: e,
		CreatedAt: written, Deadline: written.Add(time.Hour), MaxNodeExecutions: 10, MaxLoopIterations: 10}
	log, err := s.shown.Create(context.Background(), run, false, rows...)
	require.NoError(t, err)
	return log
}

// TestCodemap: what reaches a reader under a name of version 2 was stored, or is
// appended, under the name the codemap gives it in version 1.
func TestCodemap(t *testing.T) {
	t.Parallel()
	s := open(t)
	rows := s.c.EventCodemap()
	require.NotEmpty(t, rows)
	start := row("run.started", `{"workflowId":"conformance-noop","inputs":{}}`)
	for i, mapping := range rows {
		grown := s.create(t, fmt.Sprintf("grown-%04d-0123456789", i), eventlog.EraV1, start)
		_, _ = grown.Append(context.Background(), 0, row(mapping.V2, `{}`)) // the payload need not be the type's
		held, err := s.held.Open(context.Background(), grown.Run().ID)
		require.NoError(t, err)
		stored, err := held.Read(0)
		require.NoError(t, err)
		require.Len(t, stored, 1, mapping.V2)
		assert.Equal(t, mapping.V1, stored[0].Type)

		log := s.create(t, fmt.Sprintf("codemap-%04d-0123456789", i), eventlog.EraV1, row(mapping.V1, `{}`))
		events, err := log.Read(-1)
		var malformed *era.MalformedError
		if err != nil { // the payload is none of the type's, which is told under its version 2 name
			require.ErrorAs(t, err, &malformed, mapping.V1)
			assert.Equal(t, mapping.V2, malformed.Type)
			assert.EqualValues(t, 0, malformed.Sequence)
			continue
		}
		assert.Equal(t, mapping.V2, events[0].Type)
	}
}

// TestReaders: every way to a log goes through the adapter, and leaves what is
// stored as it is.
func TestReaders(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), context.Background()
	vendor := s.c.Orgs()[0] + ".widget-made"
	s.create(t, "readers-0123456789", eventlog.EraV1,
		row("run.started", `{"workflowId":"conformance-noop","inputs":{}}`), row("run.resuming", `{"fromStatus":"paused","x-note":{"b":1,"a":"é"}}`), row(vendor, `{"any":[1.50]}`))
	want := []string{"run.started", "run.resume-started", vendor}
	opened, err := s.shown.Open(ctx, "tenant-a/readers-0123456789")
	require.NoError(t, err)
	listed, err := s.shown.List(ctx, "tenant-a", 0, 10)
	require.NoError(t, err)
	logs := append([]eventlog.Log{opened}, listed...)
	require.NoError(t, s.shown.ActiveRuns(ctx, func(l eventlog.Log) error { logs = append(logs, l); return nil }))
	require.Len(t, logs, 3)
	for _, log := range logs {
		events, err := log.Read(-1)
		require.NoError(t, err)
		for i, typ := range want {
			assert.Equal(t, typ, events[i].Type)
			assert.EqualValues(t, i, events[i].Sequence)
			assert.Equal(t, written, events[i].Timestamp)
		}
		assert.JSONEq(t, `{"fromStatus":"paused","x-note":{"b":1,"a":"é"}}`, string(events[1].Payload))
		assert.Equal(t, `{"any":[1.50]}`, string(events[2].Payload))
		assert.Contains(t, string(events[0].Payload), era.LegacyIssuer)
		tail, err := log.Read(1)
		require.NoError(t, err)
		require.Len(t, tail, 1)
		assert.EqualValues(t, 2, tail[0].Sequence)
	}
	stored, err := s.held.Open(ctx, "tenant-a/readers-0123456789")
	require.NoError(t, err)
	rows, err := stored.Read(-1)
	require.NoError(t, err)
	assert.Equal(t, "run.resuming", rows[1].Type)
	assert.NotContains(t, string(rows[0].Payload), era.LegacyIssuer)
}

// TestAppend: a log of era 2 is written in version 1 vocabulary, one of era 3 in
// its own, and both read alike.
func TestAppend(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), context.Background()
	for name, c := range map[string]struct {
		era    int
		stored string
	}{"era-2": {eventlog.EraV1, "run.resuming"}, "era-3": {eventlog.EraV2, "run.resume-started"}} {
		log := s.create(t, name+"-0123456789", c.era, row("run.started", `{"workflowId":"conformance-noop","inputs":{}}`))
		appended, err := log.Append(ctx, 0, row("run.resume-started", `{"fromStatus":"paused"}`))
		require.NoError(t, err, name)
		assert.Equal(t, "run.resume-started", appended[0].Type, name)
		held, err := s.held.Open(ctx, "tenant-a/"+name+"-0123456789")
		require.NoError(t, err)
		rows, err := held.Read(0)
		require.NoError(t, err)
		assert.Equal(t, c.stored, rows[0].Type, name)
	}
}

// TestRefused: a log that cannot be translated whole cannot be read in part.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := open(t)
	start := row("run.started", `{"workflowId":"conformance-noop","inputs":{}}`)
	for name, c := range map[string]struct {
		row      eventlog.Draft
		unmapped bool
		keys     []string
	}{
		"a type nobody named":             {row("run.vanished", `{}`), true, nil},
		"the reserved prefix":             {row("openwop.note", `{}`), true, nil},
		"an organisation nobody knows":    {row("nobody-here.widget", `{}`), true, nil},
		"a name of version 2":             {row("run.resume-started", `{"fromStatus":"paused"}`), true, nil},
		"a member without a place":        {row("run.resuming", `{"fromStatus":"paused","remark":1}`), false, []string{"remark"}},
		"a member of another type":        {row("version.pinned", `{"changeId":7,"version":1}`), false, []string{"changeId"}},
		"a payload that is no object":     {row("run.resuming", `"paused"`), false, nil},
		"a payload with a member twice":   {row("run.resuming", `{"fromStatus":"paused","fromStatus":"paused"}`), false, nil},
		"a cause that is no id":           {eventlog.Draft{EventID: "event-0123456789-c", Type: "run.resuming", Payload: json.RawMessage(`{"fromStatus":"paused"}`), Timestamp: written, CausationID: string(make([]byte, 300))}, false, nil},
		"a pin that lacks what it is for": {row("version.pinned", `{"changeId":"c"}`), false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := s.create(t, "refused-"+fmt.Sprintf("%x", name), eventlog.EraV1, start, c.row)
			for _, after := range []int64{-1, 0, 1} {
				_, err := log.Read(after)
				var unmapped *era.UnmappedError
				var malformed *era.MalformedError
				if c.unmapped {
					require.ErrorAs(t, err, &unmapped)
					assert.EqualValues(t, 1, unmapped.Sequence)
					continue
				}
				require.ErrorAs(t, err, &malformed)
				assert.EqualValues(t, 1, malformed.Sequence)
				assert.Equal(t, c.keys, malformed.Keys)
			}
		})
	}
}

// TestOutbox: what goes out is named as readers know it; what cannot be projected
// goes out as it is stored, and what has no name does not.
func TestOutbox(t *testing.T) {
	t.Parallel()
	s := open(t)
	var out []string
	s.shown.Outbox(func(_ eventlog.Run, events []eventlog.Event) []eventlog.TableWrite {
		for _, e := range events {
			out = append(out, e.Type+" "+string(e.Payload))
		}
		return nil
	})
	s.create(t, "outbox-0123456789", eventlog.EraV1,
		row("run.resuming", `{"fromStatus":"paused"}`), row("run.resuming", `{"fromStatus":"paused","remark":1}`), row("run.vanished", `{}`))
	assert.Equal(t, []string{`run.resume-started {"fromStatus":"paused"}`, `run.resume-started {"fromStatus":"paused","remark":1}`}, out)
}

// TestOwnerOf: whom a run of version 1 belongs to.
func TestOwnerOf(t *testing.T) {
	t.Parallel()
	legacy := legacyOwner(t)
	assert.Equal(t, eventlog.Subject{Issuer: era.LegacyIssuer, SubjectID: "legacy", Tenant: "tenant-a", Lane: "api-key", Kind: "user"}, legacy.Subject)
	named, anonymous, workload := legacy, legacy, legacy
	named.Subject.SubjectID, named.Workspace = "somebody", "w-1"
	anonymous.Subject.Kind, anonymous.Subject.Lane = "anonymous", "anonymous"
	workload.Subject.Kind = "workload"
	for name, c := range map[string]struct {
		payload string
		want    eventlog.Owner
		refused string
	}{
		"no owner":           {`{"workflowId":"w"}`, legacy, ""},
		"a principal":        {`{"owner":{"tenant":"tenant-a","workspace":"w-1","principal":"somebody"}}`, named, ""},
		"nobody":             {`{"owner":{"principalKind":"anonymous"}}`, anonymous, ""},
		"a workload":         {`{"owner":{"principalKind":"workload"}}`, workload, ""},
		"of another tenant":  {`{"owner":{"tenant":"tenant-b","principal":"somebody"}}`, legacy, "another tenant"},
		"not readable":       {`{"owner":"somebody"}`, legacy, "cannot unmarshal"},
		"a Subject it holds": {`{"owner":{"tenant":"tenant-a","subject":{"issuer":"urn:i","subjectId":"s","tenant":"tenant-a","lane":"oidc","kind":"user"}}}`, eventlog.Owner{Tenant: "tenant-a", Subject: eventlog.Subject{Issuer: "urn:i", SubjectID: "s", Tenant: "tenant-a", Lane: "oidc", Kind: "user"}}, ""},
	} {
		owner, err := era.OwnerOf([]eventlog.Draft{row("node.started", `{}`), row("run.started", c.payload)}, "tenant-a")
		if c.refused != "" {
			assert.ErrorContains(t, err, c.refused, name)
			continue
		}
		require.NoError(t, err, name)
		assert.Equal(t, c.want, owner, name)
	}
}

// TestPins: the changes a log is pinned to, all of them, in its order.
func TestPins(t *testing.T) {
	t.Parallel()
	event := func(typ, payload string) eventlog.Event { return eventlog.Event{Draft: row(typ, payload)} }
	changes, err := era.Pins([]eventlog.Event{event("version.pinned", `{"changeId":"a","version":1}`), event("run.resume-started", `{"changeId":"no"}`), event("version.pinned", `{"changeId":"b","version":2}`)})
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b"}, changes)
	_, err = era.Pins([]eventlog.Event{event("version.pinned", `{"changeId":1}`)})
	assert.Error(t, err)
}
