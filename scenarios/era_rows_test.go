package scenarios

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The seeded logs hold every type the codemap renames, each once, with a payload
// that is one of the version 2 type: what a reader carries unchanged is valid.
func TestSeededRowsCoverTheCodemap(t *testing.T) {
	t.Parallel()
	c := contract(t)
	const own = "tenant-a/0123456789abcdef"
	var seeded []string
	for _, row := range slices.Concat(plainly(), renamed(own), afterward(own)) {
		v2, ok := c.EventFromV1(row.typ)
		require.True(t, ok, row.typ)
		seeded = append(seeded, row.typ)
		assert.NoError(t, c.ValidatePayload(v2, plain(row.payload)), row.typ)
	}
	var wanted []string
	for _, row := range c.EventCodemap() {
		if row.V1 != row.V2 {
			wanted = append(wanted, row.V1)
		}
	}
	require.ElementsMatch(t, wanted, seeded)
	for _, rows := range [][]seedRow{finished(), broken(), begun(noop, object{})} {
		for _, row := range rows {
			assert.NoError(t, c.ValidatePayload(row.typ, plain(row.payload)), row.typ)
		}
	}
}

func TestStoredRowsAreNumbered(t *testing.T) {
	t.Parallel()
	rows := asStored(finished())
	for i, row := range rows {
		assert.Equal(t, int64(i), row.Sequence)
		assert.Equal(t, i > 0, row.CausationID != "")
	}
	assert.Equal(t, "2025-03-01T08:00:00.123Z", rows[0].Timestamp)
	assert.Equal(t, int64(3), seededLog{rows: rows}.terminalAt())
}

// What the checks of a reader make of readers that are wrong in one way each.
func TestTranslationChecks(t *testing.T) {
	t.Parallel()
	c := contract(t)
	log := seededLog{rows: asStored(finished(seedRow{"run.resuming", object{"fromStatus": "paused", "x-note": object{"a": 1}}}))}
	read := func(change func(i int, event object)) []object {
		var out []object
		for i, row := range log.rows {
			event := object{"type": expectedType(c, row.Type), "sequence": plain(row.Sequence), "timestamp": row.Timestamp,
				"eventId": "id-" + decimal(row.Sequence), "payload": plain(row.Payload)}
			if row.CausationID != "" {
				event["causationId"] = row.CausationID
			}
			if change != nil {
				change(i, event)
			}
			out = append(out, event)
		}
		return out
	}
	right := read(nil)
	assert.True(t, sequencesKept("a poll", log, right, true).OK)
	assert.True(t, fieldsKept("a poll", log, right, right).OK)
	assert.True(t, payloadsKept(c, log, right).OK)
	assert.True(t, readAlike(log, right, append(read(nil), object{"type": "run.cancelled"})).OK)
	assert.True(t, sequencesKept("a stream", log, right[:3], false).OK, "a mode leaves some out")
	assert.False(t, sequencesKept("a poll", log, right[:3], true).OK)
	assert.False(t, readAlike(log, right, right).OK, "nothing was appended")
	assert.True(t, fieldsKept("a poll", log, right, read(func(_ int, e object) {
		e["timestamp"] = "2025-03-01T09:00:0" + text(e, "eventId")[3:] + ".123000+01:00"
	})).OK, "another spelling of the instant")
	for name, change := range map[string]func(i int, e object){
		"a sequence from 1 on": func(i int, e object) { e["sequence"] = plain(i + 1) },
		"a fresh id":           func(_ int, e object) { e["eventId"] = "new-" + text(e, "eventId") },
		"a cause of its own":   func(_ int, e object) { e["causationId"] = "other" },
		"a rounded time":       func(_ int, e object) { e["timestamp"] = text(e, "timestamp")[:19] + "Z" },
		"a lost vendor member": func(_ int, e object) { delete(e["payload"].(object), "x-note") },
	} {
		wrong := read(change)
		assert.False(t, sequencesKept("a poll", log, wrong, true).OK && fieldsKept("a poll", log, right, wrong).OK, name)
	}
	for name, change := range map[string]func(i int, e object){
		"a lost member":          func(_ int, e object) { delete(e["payload"].(object), "fromStatus") },
		"another value":          func(i int, e object) { e["payload"].(object)["fromStatus"] = "running" },
		"a member too many":      func(_ int, e object) { e["payload"].(object)["since"] = "2025" },
		"a payload that is gone": func(_ int, e object) { e["payload"] = nil },
	} {
		assert.False(t, payloadsKept(c, log, read(change)).OK, name)
	}
}
