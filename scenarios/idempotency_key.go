package scenarios

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"wopcert/harness"
	"wopcert/requirements"
)

// idempotencyKeyGrammar: idempotency.md, "Layer 1: Idempotency-Key".
func idempotencyKeyGrammar() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-idempotency-key-grammar",
		Title:    "Keys outside the grammar are refused, and keys inside it are not",
		Document: "idempotency.md",
		Section:  "Layer 1: Idempotency-Key",
		Gates:    []harness.Gate{endingFixtures()},
		Tests: []harness.Test{
			{
				Name:      "keys outside the grammar",
				Witnesses: []requirements.ID{requirements.R0170IdempotencyKeyGrammarInvalidRefused},
				Run: func(t *harness.T) {
					startEnding(t) // the same request under a sound key is served
					for _, key := range invalidKeys() {
						r := create(t, endingBody(t), "Idempotency-Key", key)
						check := r.Refuses("idempotency_key_invalid")
						check.Observed += fmt.Sprintf(" for the %d characters %q", len(key), key)
						t.Expect(requirements.R0170IdempotencyKeyGrammarInvalidRefused, check)
					}
				},
			},
			{
				Name:      "keys inside the grammar",
				Witnesses: []requirements.ID{requirements.R0170IdempotencyKeyGrammarValidAccepted},
				Run: func(t *harness.T) {
					runs := servedRun(t)
					for _, key := range validKeys() {
						r := create(t, endingBody(t), "Idempotency-Key", key)
						t.Expect(requirements.R0170IdempotencyKeyGrammarValidAccepted, harness.That(ownRun(r, runs),
							"201 with a run of its own", "%s with runId %q for the %d characters %q", answered(r), r.Text("runId"), len(key), key).At(r))
					}
				},
			},
		},
	}
}

// invalidKeys leave the grammar ^[A-Za-z0-9._~-]{22,128}$ on one side each.
func invalidKeys() []string {
	random := randomText(128)
	return []string{
		random[:21],
		random + "A",
		random[:13] + "!" + random[13:26],
		random[:13] + " " + random[13:26],
		random[:13] + "/" + random[13:26],
		random[:13] + "=" + random[13:26],
	}
}

// validKeys use the grammar's shortest and longest length, every class of
// character, and the form of a UUID.
func validKeys() []string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	uuid := fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	return []string{
		mixedCase(randomText(22)),
		randomText(128),
		"a.B_c~d-" + randomText(26),
		"~._-" + randomText(26) + "-_.~",
		uuid,
	}
}

// randomText is n characters of base32.
func randomText(n int) string {
	s := ""
	for len(s) < n {
		s += rand.Text()
	}
	return s[:n]
}

// mixedCase lowers every second character, so that 22 characters hold the 128
// bits a key has to (base32 alone would hold 110).
func mixedCase(s string) string {
	var choice [1]byte
	return strings.Map(func(r rune) rune {
		if rand.Read(choice[:]); choice[0]&1 == 0 {
			return r | 0x20
		}
		return r
	}, s)
}

// idempotentCreate: idempotency.md, "Layer 1: Idempotency-Key", and runs.md,
// "Request headers".
func idempotentCreate() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-idempotent-create",
		Title:    "A repeated createRun is one run, and its key serves no other body",
		Document: "idempotency.md",
		Section:  "Layer 1: Idempotency-Key",
		Gates:    []harness.Gate{endingFixtures()},
		Tests: []harness.Test{
			{
				Name:      "the same key and body",
				Witnesses: []requirements.ID{requirements.IdempotencyReplay},
				Run: func(t *harness.T) {
					key, body := newIdempotencyKey(), with(endingBody(t), "tags", []string{"idempotent"})
					first := createdOnce(t, key, body)
					readLog(t, first.Text("runId"), settle) // a finished run is replayed as it began
					again := create(t, body, "Idempotency-Key", key)
					t.Expect(requirements.IdempotencyReplay, replays(first, again))
					other := create(t, body)
					t.Expect(requirements.IdempotencyReplay, harness.That(
						other.Is(http.StatusCreated).OK && other.Text("runId") != first.Text("runId") && replayMark(other) != "true",
						"a new run under another key", "%s with runId %q and OpenWOP-Idempotent-Replay %q", answered(other), other.Text("runId"), replayMark(other)).At(other))
				},
			},
			{
				Name:      "the same key and another body",
				Witnesses: []requirements.ID{requirements.IdempotencyKeyMismatch},
				Run: func(t *harness.T) {
					key := newIdempotencyKey()
					createdOnce(t, key, endingBody(t))
					for _, body := range []object{
						with(endingBody(t), "tags", []string{"other"}),
						with(endingBody(t), "metadata", object{"other": true}),
					} {
						t.Expect(requirements.IdempotencyKeyMismatch, create(t, body, "Idempotency-Key", key).Refuses("idempotency_key_mismatch"))
					}
				},
			},
		},
	}
}

// servedRun is the run a create made that can be read; the test ends when
// there is none, since nothing else shows that runs are created at all.
func servedRun(t *harness.T) map[string]bool {
	id := startEnding(t)
	snapshot(t, id)
	return map[string]bool{id: true}
}

// ownRun reports whether a create made a run that no earlier one did, and
// remembers it. A host that answers everything alike makes none.
func ownRun(r *harness.Response, runs map[string]bool) bool {
	id := r.Text("runId")
	own := r.Is(http.StatusCreated).OK && id != "" && !runs[id]
	runs[id] = true
	return own
}

// createdOnce is the create the rest stands on.
func createdOnce(t *harness.T, key string, body object) *harness.Response {
	r := create(t, body, "Idempotency-Key", key)
	if !r.Is(http.StatusCreated).OK || r.Text("runId") == "" {
		t.Abort("no run to repeat: createRun gave %s", answered(r))
	}
	return r
}

// replays checks that a repeated create got the first response again.
func replays(first, again *harness.Response) harness.Check {
	const expected = "201 with the first response and OpenWOP-Idempotent-Replay: true"
	switch {
	case !again.Is(http.StatusCreated).OK:
		return harness.That(false, expected, "%s", answered(again)).At(again)
	case again.Text("runId") != first.Text("runId"):
		return harness.That(false, expected, "another run, runId %q instead of %q", again.Text("runId"), first.Text("runId")).At(again)
	case replayMark(again) != "true":
		return harness.That(false, expected, "OpenWOP-Idempotent-Replay %q", replayMark(again)).At(again)
	}
	return harness.That(reflect.DeepEqual(first.JSON(), again.JSON()), expected,
		"another body: %s instead of %s", show(again.JSON()), show(first.JSON())).At(again)
}

func replayMark(r *harness.Response) string { return r.Header.Get("OpenWOP-Idempotent-Replay") }
