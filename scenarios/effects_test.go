package scenarios

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle"
	"wopcert/harness"
	"wopcert/harness/receiver"
	referencehost "wopcert/reference-host"
	"wopcert/requirements"
)

// verdict is a check and whether it has to hold.
type verdict struct {
	check harness.Check
	holds bool
}

func holdAll(t *testing.T, verdicts map[string]verdict) {
	t.Helper()
	for name, v := range verdicts {
		assert.Equal(t, v.holds, v.check.OK, "%s: expected %s; observed %s", name, v.check.Expected, v.check.Observed)
		assert.NotEmpty(t, v.check.Expected, name)
	}
}

func TestPrefixEquivalence(t *testing.T) {
	t.Parallel()
	const (
		source = "acme/0123456789abcdefsource"
		child  = "acme/0123456789abcdefchild0"
	)
	at := func(run, id string, changes ...any) object {
		e := object{"eventId": id, "runId": run, "type": "node.completed", "sequence": json.Number("1"), "schemaVersion": json.Number("1"),
			"timestamp": "2026-01-02T03:04:05Z", "payload": object{"nodeId": "a", "durationMs": json.Number("7"), "of": run}}
		for i := 0; i+1 < len(changes); i += 2 {
			if changes[i+1] == nil {
				delete(e, changes[i].(string))
			} else {
				e[changes[i].(string)] = changes[i+1]
			}
		}
		return e
	}
	payload := func(changes ...any) object {
		p := object{"nodeId": "a", "durationMs": json.Number("7"), "of": child}
		for i := 0; i+1 < len(changes); i += 2 {
			p[changes[i].(string)] = changes[i+1]
		}
		return p
	}
	first := at(source, "event-of-the-source")
	second := at(source, "event-of-the-source-2", "causationId", "event-of-the-source")
	compare := func(b ...object) harness.Check {
		return prefixPair{source: source, child: child, a: []object{first, second}, b: b}.equivalent("a fork")
	}
	c1 := at(child, "event-of-the-fork")
	holdAll(t, map[string]verdict{
		"the same with ids of its own":    {compare(c1, at(child, "event-of-the-fork-2", "causationId", "event-of-the-fork")), true},
		"the same with the source's ids":  {compare(at(child, "event-of-the-source"), at(child, "event-of-the-source-2", "causationId", "event-of-the-source")), true},
		"another clock":                   {compare(at(child, "e", "timestamp", "2027-01-02T03:04:05Z"), at(child, "f", "causationId", "e")), true},
		"an event less":                   {compare(c1), false},
		"a cause that is another event":   {compare(c1, at(child, "event-of-the-fork-2", "causationId", "event-of-the-fork-2")), false},
		"a cause left out":                {compare(c1, at(child, "event-of-the-fork-2")), false},
		"a member more":                   {compare(at(child, "e", "nodeId", "a"), at(child, "f", "causationId", "e")), false},
		"another type":                    {compare(at(child, "e", "type", "node.failed"), at(child, "f", "causationId", "e")), false},
		"another spelling of a number":    {compare(at(child, "e", "payload", payload("durationMs", json.Number("7.0"))), at(child, "f", "causationId", "e")), false},
		"another duration":                {compare(at(child, "e", "payload", payload("durationMs", json.Number("8"))), at(child, "f", "causationId", "e")), false},
		"a payload member more":           {compare(at(child, "e", "payload", payload("x", true)), at(child, "f", "causationId", "e")), false},
		"a payload of the source's run":   {compare(at(child, "e", "payload", payload("of", source)), at(child, "f", "causationId", "e")), true},
		"a payload of a third run":        {compare(at(child, "e", "payload", payload("of", "acme/0123456789abcdefother")), at(child, "f", "causationId", "e")), false},
		"a payload that is no object":     {compare(at(child, "e", "payload", "text"), at(child, "f", "causationId", "e")), false},
		"a schemaVersion as another type": {compare(at(child, "e", "schemaVersion", "1"), at(child, "f", "causationId", "e")), false},
	})
	p := prefixPair{source: source, child: child}
	assert.True(t, p.alike("acme/01ARZ3NDEKTSV4RRFFQ69G5FAV", "acme/01BX5ZZKBKACTAV9WEVGEMMVRZ", nil), "a tenant-bound ULID minted afresh")
	assert.False(t, p.alike("acme/01ARZ3NDEKTSV4RRFFQ69G5FAV", "other/01BX5ZZKBKACTAV9WEVGEMMVRZ", nil))
	assert.False(t, p.alike("acme/01ARZ3NDEKTSV4RRFFQ69G5FAV", "acme/0123456789abcdef", nil))
	assert.False(t, p.alike([]any{json.Number("1")}, []any{json.Number("1"), nil}, nil))
	assert.False(t, p.alike("2026-01-02T03:04:05Z", "later", nil))
	assert.True(t, p.alike("2026-01-02T03:04:05Z", "2026-01-02T03:04:06.123Z", nil))
}

func TestOutcomeChecks(t *testing.T) {
	t.Parallel()
	completed := func(outputs any) object {
		return object{"type": "node.completed", "payload": object{"nodeId": "effect", "outputs": outputs}}
	}
	failed := func(code string) object {
		return object{"type": "node.failed", "payload": object{"nodeId": "effect", "error": object{"code": code, "message": "m"}}}
	}
	record := func(id, state string, attempt string) object {
		return object{"effectId": id, "nodeId": "effect", "state": state, "attempt": json.Number(attempt), "at": "2026-01-02T03:04:05Z"}
	}
	of := func(effects ...object) ledger { return ledger{effects: effects} }
	holdAll(t, map[string]verdict{
		"the same outputs":             {outcomeIs("", completed(object{"a": "b"}), []object{completed(object{"a": "b"})}), true},
		"other outputs":                {outcomeIs("", completed(object{"a": "b"}), []object{completed(object{"a": "c"})}), false},
		"the same failure":             {outcomeIs("", failed("x"), []object{failed("x")}), true},
		"a failure of its own":         {outcomeIs("", failed("x"), []object{failed("replay_source_missing")}), false},
		"a success of its own":         {outcomeIs("", failed("x"), []object{completed(nil)}), false},
		"no outcome":                   {outcomeIs("", completed(nil), nil), false},
		"two outcomes":                 {outcomeIs("", completed(nil), []object{completed(nil), completed(nil)}), false},
		"failed closed":                {failedClosed("effect", []object{failed("replay_source_missing")}), true},
		"failed closed twice":          {failedClosed("effect", []object{failed("replay_source_missing"), failed("replay_source_missing")}), true},
		"failed otherwise":             {failedClosed("effect", []object{failed("internal_error")}), false},
		"made up":                      {failedClosed("effect", []object{completed(object{})}), false},
		"nothing at all":               {failedClosed("effect", nil), false},
		"closed, then made up":         {failedClosed("effect", []object{failed("replay_source_missing"), completed(nil)}), false},
		"no records":                   {nothingPerformed("effect", of()), true},
		"released":                     {nothingPerformed("effect", of(record("t/1", "released", "1"))), true},
		"claimed":                      {nothingPerformed("effect", of(record("t/1", "claimed", "1"))), false},
		"of another node":              {nothingPerformed("other", of(record("t/1", "completed", "1"))), true},
		"an empty fork":                {noNewAttempts("", of(record("t/1", "completed", "1")), of()), true},
		"a fork that shows its source": {noNewAttempts("", of(record("t/1", "completed", "1")), of(record("t/1", "completed", "1"))), true},
		"a second attempt":             {noNewAttempts("", of(record("t/1", "completed", "1")), of(record("t/1", "completed", "1"), record("t/1", "completed", "2"))), false},
		"another effect":               {noNewAttempts("", of(record("t/1", "completed", "1")), of(record("t/2", "completed", "1"))), false},
		"spelt from the run":           {ofNoRun("", "x-0123456789abcdef-1", "acme/0123456789abcdef", "effect"), false},
		"spelt from the node":          {ofNoRun("", "acme.effect.1", "acme/0123456789abcdef", "effect"), false},
		"a letter by chance":           {ofNoRun("", "q-a_Zk3", "acme/0123456789abcdef", "a"), true},
		"spelt from neither":           {ofNoRun("", "2f0effects77", "acme/0123456789abcdef", "effect"), true},
	})
}

func TestInterruptsOfAReplay(t *testing.T) {
	t.Parallel()
	asks := func(id string) object {
		return object{"type": "interrupt.requested", "payload": object{"interruptId": id, "key": "k"}}
	}
	holdAll(t, map[string]verdict{
		"none":            {noNewInterrupt([]object{asks("t/1")}, nil), true},
		"the source's":    {noNewInterrupt([]object{asks("t/1")}, []object{asks("t/1")}), true},
		"one of its own":  {noNewInterrupt([]object{asks("t/1")}, []object{asks("t/2")}), false},
		"the same, twice": {noNewInterrupt([]object{asks("t/1")}, []object{asks("t/1"), asks("t/1")}), false},
	})
}

func TestUnwindChecks(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	arrived := func(ms int, node string, inverse bool, key string) receiver.Attempt {
		body, _ := json.Marshal(object{"node": node, "inverse": inverse})
		h := http.Header{}
		if key != "" {
			h.Set("Idempotency-Key", key)
		}
		return receiver.Attempt{At: start.Add(time.Duration(ms) * time.Millisecond), Body: body, Header: h}
	}
	in := func(attempts ...receiver.Attempt) []receiver.Attempt { return attempts }
	took := int(inverseTakes.Milliseconds())
	holdAll(t, map[string]verdict{
		"in order":            {follows(in(arrived(0, "charge", true, ""), arrived(took+5, "reserve", true, "")), "reserve", "charge"), true},
		"side by side":        {follows(in(arrived(0, "charge", true, ""), arrived(10, "reserve", true, "")), "reserve", "charge"), false},
		"the wrong way":       {follows(in(arrived(0, "reserve", true, ""), arrived(took, "charge", true, "")), "reserve", "charge"), false},
		"one missing":         {follows(in(arrived(0, "charge", true, "")), "reserve", "charge"), false},
		"no inverse":          {follows(in(arrived(0, "charge", false, ""), arrived(took, "reserve", false, "")), "reserve", "charge"), false},
		"keys apart":          {keysApart(in(arrived(0, "charge", false, "a"), arrived(1, "charge", true, "b"), arrived(2, "charge", true, "b"))), true},
		"the effect's key":    {keysApart(in(arrived(0, "charge", false, "a"), arrived(1, "charge", true, "a"))), false},
		"one key for two":     {keysApart(in(arrived(0, "reserve", true, "a"), arrived(1, "charge", true, "a"))), false},
		"no key":              {keysApart(in(arrived(0, "reserve", true, ""))), false},
		"one key":             {oneKey(in(arrived(0, "charge", true, "a"), arrived(1, "charge", true, "a"))), true},
		"a key per attempt":   {oneKey(in(arrived(0, "charge", true, "a"), arrived(1, "charge", true, "b"))), false},
		"keyless":             {oneKey(in(arrived(0, "charge", true, ""))), false},
		"succeeded at last":   {allAttempts([]tried{{"c", "failed", 1}, {"c", "succeeded", 2}}, "c", 2, "succeeded"), true},
		"at the transport":    {allAttempts([]tried{{"c", "succeeded", 1}}, "c", 2, "succeeded"), true},
		"counted from 0":      {allAttempts([]tried{{"c", "succeeded", 0}}, "c", 2, "succeeded"), false},
		"more than there was": {allAttempts([]tried{{"c", "failed", 1}, {"c", "failed", 2}, {"c", "succeeded", 3}}, "c", 2, "succeeded"), false},
		"the last one only":   {allAttempts([]tried{{"c", "failed", 3}}, "c", 3, "failed"), false},
		"all failed":          {allAttempts([]tried{{"c", "failed", 1}, {"c", "failed", 2}, {"c", "failed", 3}}, "c", 3, "failed"), true},
		"one unsaid":          {allAttempts([]tried{{"c", "failed", 1}, {"c", "failed", 2}}, "c", 3, "failed"), false},
		"none":                {allAttempts([]tried{{"d", "failed", 1}}, "c", 1, "failed"), false},
	})
}

// TestEffectClaimsWithoutSubstance: a host that advertises replay, effects,
// compensation and the seams, and answers every request alike, passes what its
// document alone establishes.
func TestEffectClaimsWithoutSubstance(t *testing.T) {
	t.Parallel()
	config, err := referencehost.DefaultConfig()
	require.NoError(t, err)
	config.Seams = true
	claims, err := referencehost.New(config)
	require.NoError(t, err)
	raw := claims.Discovery()
	target, err := receiver.Start(receiver.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, target.Close()) })
	alone := []requirements.ID{requirements.R0173EffectSeamManifestFacet, requirements.SecurityDefaultsCompensationOrderingModels}
	for name, handler := range knowsNothing() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results, err := harness.Run(t.Context(), harness.Options{
				BaseURL: claiming(t, raw, handler).URL, Corpus: contract(t), Scenarios: effectScenarios(), Timeout: 2 * time.Second, Parallel: 64,
				Credentials: harness.Credentials{Primary: "key-of-tenant-a", OtherTenant: "key-of-tenant-b"},
				Receiver:    harness.Receiver{Server: target, Trusted: true},
			})
			require.NoError(t, err)
			assert.Empty(t, results.SuiteFaults)
			judged := 0
			for _, row := range results.Rows {
				if row.Result == bundle.ExecutedPass && strings.HasPrefix(row.ID, requirements.Prefix) {
					judged++
					assert.Contains(t, alone, requirements.ID(row.ID), "%s passes: %d assertions %s", row.ID, row.Assertions, row.Detail)
				}
			}
			assert.Equal(t, len(alone), judged)
		})
	}
}
