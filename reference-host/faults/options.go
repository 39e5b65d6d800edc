package faults

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"unicode/utf8"

	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

func optionFaults() []Fault {
	schema := requirements.R0171ConfigurableClosedSchema
	unknown := requirements.R0171ConfigurableClosedUnknownKey
	dotted := requirements.R0171ConfigurableClosedDottedKey
	hasConfigurable := func(doc object) bool { return doc["configurable"] != nil }
	return []Fault{
		wire("configurable-not-surfaced", "A snapshot does not show the configurable of its run.",
			"configurable", snapshot(func(doc object) { delete(doc, "configurable") }), schema),
		wire("configurable-normalised", "A snapshot shows the configurable with a default the caller did not set.",
			"reasoningVerbosity", snapshot(func(doc object) {
				if c, ok := doc["configurable"].(object); ok {
					c["ai"] = object{"reasoningVerbosity": "none"}
				}
			}), schema),
		wire("configurable-version-2-accepted", "A configurable of version 2 is accepted.",
			"201", configurable(func(c object) {
				if _, ok := c["version"]; ok {
					c["version"] = 1
				}
			}), schema),
		wire("configurable-without-version-accepted", "A configurable without a version is accepted.",
			"201", configurable(func(c object) {
				if _, ok := c["version"]; !ok {
					c["version"] = 1
				}
			}), schema),
		wire("configurable-unknown-key-accepted", "An unknown key of a configurable is dropped without a word.",
			"201", configurable(func(c object) { unknownKeys(c, false) }), unknown),
		wire("configurable-unknown-section-key-accepted", "An unknown key inside a section of a configurable is dropped without a word.",
			"201", configurable(func(c object) {
				root := object{}
				for name, v := range c {
					root[name] = v
				}
				unknownKeys(c, false)
				for name, v := range root {
					if c[name] == nil {
						c[name] = v
					}
				}
			}), unknown),
		wire("configurable-unknown-key-422", "An unknown key of a configurable is refused 422.",
			"422", refusedCreate(func(doc object) bool {
				c, _ := doc["configurable"].(object)
				before := len(tamper.Encode(c))
				unknownKeys(c, false)
				return hasConfigurable(doc) && len(tamper.Encode(c)) != before
			}, func(a *tamper.Answer) { a.Status = http.StatusUnprocessableEntity }), unknown),
		wire("configurable-dotted-key-accepted", "A dotted key of a configurable is read as the path it spells.",
			"201", configurable(func(c object) { unknownKeys(c, true) }), dotted),
		wire("configurable-dotted-key-500", "A dotted key of a configurable makes the host answer 500.",
			"500", refusedCreate(func(doc object) bool {
				c, _ := doc["configurable"].(object)
				before := len(tamper.Encode(c))
				unknownKeys(c, true)
				return hasConfigurable(doc) && len(tamper.Encode(c)) != before
			}, func(a *tamper.Answer) { a.Refuse(500, "internal_error", "cannot read property of undefined") }), dotted),
		limit("too-many-tags-accepted", "More than a hundred tags are cut to a hundred.", func(doc object) {
			if tags, ok := doc["tags"].([]any); ok && len(tags) > 100 {
				doc["tags"] = tags[:100]
			}
		}),
		limit("too-long-tag-accepted", "A tag of more than 256 characters is cut.", func(doc object) {
			tags, _ := doc["tags"].([]any)
			for i, v := range tags {
				if s, ok := v.(string); ok && utf8.RuneCountInString(s) > 256 {
					tags[i] = string([]rune(s)[:256])
				}
			}
		}),
		limit("run-timeout-out-of-range-accepted", "A runTimeoutMs that is out of range is dropped.", func(doc object) {
			c, _ := doc["configurable"].(object)
			run, _ := c["run"].(object)
			if n, ok := run["runTimeoutMs"].(json.Number); ok {
				if v, err := n.Int64(); err != nil || v <= 0 || v > 24*3600*1000 {
					delete(run, "runTimeoutMs")
				}
			}
		}),
		wire("tag-limit-off-by-one", "A hundred tags are refused.",
			"400 validation_error", tags(func(list []any) bool { return len(list) == 100 }), requirements.R0171RunOptionsLimits),
		wire("tag-length-in-bytes", "The length of a tag is counted in bytes, so that 256 characters beyond ASCII are refused.",
			"400 validation_error", tags(func(list []any) bool {
				for _, v := range list {
					if len(text(v)) > 256 && utf8.RuneCountInString(text(v)) <= 256 {
						return true
					}
				}
				return false
			}), requirements.R0171RunOptionsLimits),
		wire("tag-format-refused", "A tag that is no identifier is refused.",
			"400 validation_error", tags(func(list []any) bool {
				for _, v := range list {
					if strings.ContainsAny(text(v), " /:#<>\"'é✓\t\n") {
						return true
					}
				}
				return false
			}), requirements.R0171RunOptionsLimits, requirements.RunsRunOptionsSurfaced),
		wire("tags-lowercased", "A snapshot shows the tags in lower case.",
			"tags", snapshotTags(func(s string) string { return strings.ToLower(s) }), requirements.RunsRunOptionsSurfaced),
		wire("tags-trimmed", "A snapshot shows no tags.",
			"tags", snapshot(func(doc object) { delete(doc, "tags") }), requirements.RunsRunOptionsSurfaced),
		wire("metadata-dropped", "A snapshot shows no metadata.",
			"metadata", snapshot(func(doc object) { delete(doc, "metadata") }), requirements.RunsRunOptionsSurfaced),
		wire("metadata-flattened", "A snapshot shows the values of the metadata as text.",
			"metadata", snapshot(func(doc object) {
				m, _ := doc["metadata"].(object)
				for k, v := range m {
					if _, ok := v.(string); !ok {
						m[k] = string(tamper.Encode(v))
					}
				}
			}), requirements.RunsRunOptionsSurfaced),
	}
}

// limit is a fault that accepts what is over a limit.
func limit(id, summary string, edit func(doc object)) Fault {
	return wire(id, summary, "201", options(edit), requirements.R0171RunOptionsLimits)
}

// tags refuses a createRun whose tags meet a condition.
func tags(refused func(list []any) bool) tamper.Middleware {
	return refusedCreate(func(doc object) bool {
		list, _ := doc["tags"].([]any)
		return refused(list)
	}, func(a *tamper.Answer) {
		if a.Status == http.StatusCreated {
			a.Refuse(400, "validation_error", "tags")
		}
	})
}

func snapshotTags(edit func(string) string) tamper.Middleware {
	return snapshot(func(doc object) {
		list, _ := doc["tags"].([]any)
		for i, v := range list {
			list[i] = edit(text(v))
		}
	})
}

func keyOf(r *http.Request) string { return r.Header.Get("Idempotency-Key") }

// badKey selects requests whose key breaks the grammar in one way.
func badKey(bad func(key string) bool) tamper.Match {
	return func(r *http.Request) bool { return keyOf(r) != "" && bad(keyOf(r)) }
}

func idempotencyFaults() []Fault {
	invalid := requirements.R0170IdempotencyKeyGrammarInvalidRefused
	valid := requirements.R0170IdempotencyKeyGrammarValidAccepted
	replay := requirements.IdempotencyReplay
	mismatch := requirements.IdempotencyKeyMismatch
	ignore := func(bad func(string) bool) tamper.Middleware {
		return tamper.Requests(badKey(bad), func(r *http.Request) { r.Header.Del("Idempotency-Key") })
	}
	refuse := func(bad func(string) bool) tamper.Middleware {
		return tamper.Answers(tamper.And(tamper.CreateRun, badKey(bad)), func(_ *http.Request, a *tamper.Answer) {
			a.Refuse(400, "idempotency_key_invalid", "the key is malformed")
		})
	}
	outside := func(key string) bool {
		return strings.Trim(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~-") != ""
	}
	return []Fault{
		wire("short-key-accepted", "An Idempotency-Key of fewer than 22 characters is accepted.",
			"201", ignore(func(k string) bool { return len(k) < 22 }), invalid),
		wire("long-key-accepted", "An Idempotency-Key of more than 128 characters is accepted.",
			"201", ignore(func(k string) bool { return len(k) > 128 }), invalid),
		wire("key-alphabet-ignored", "An Idempotency-Key with a character outside the alphabet is accepted.",
			"201", ignore(outside), invalid),
		wire("invalid-key-other-code", "A malformed Idempotency-Key is refused with the general code.",
			"400 validation_error", tamper.JSON(tamper.Any, 400, func(_ *http.Request, doc map[string]any) {
				if doc["error"] == "idempotency_key_invalid" {
					doc["error"] = "validation_error"
				}
			}), invalid),
		wire("shortest-key-refused", "An Idempotency-Key of exactly 22 characters is refused.",
			"400 idempotency_key_invalid", refuse(func(k string) bool { return len(k) == 22 }), valid),
		wire("longest-key-refused", "An Idempotency-Key of exactly 128 characters is refused.",
			"400 idempotency_key_invalid", refuse(func(k string) bool { return len(k) == 128 }), valid),
		wire("key-punctuation-refused", "An Idempotency-Key with a tilde in it is refused.",
			"400 idempotency_key_invalid", refuse(func(k string) bool { return strings.Contains(k, "~") && !outside(k) && len(k) >= 22 && len(k) <= 128 }), valid),
		wire("replay-creates-again", "A createRun repeated with its key creates another run.",
			"runId", forgetful(true), replay),
		wire("replay-without-marker", "A replayed createRun does not say that it is one.",
			"OpenWOP-Idempotent-Replay", tamper.Answers(tamper.CreateRun, func(_ *http.Request, a *tamper.Answer) {
				a.Header.Del("OpenWOP-Idempotent-Replay")
			}), replay),
		wire("replay-answers-200", "A replayed createRun is answered 200 and not with the status of the first.",
			"200", tamper.Answers(tamper.CreateRun, func(_ *http.Request, a *tamper.Answer) {
				if a.Header.Get("OpenWOP-Idempotent-Replay") != "" {
					a.Status = http.StatusOK
				}
			}), replay),
		wire("replay-refused", "A createRun repeated with its key is refused as a conflict.",
			"409", tamper.Answers(tamper.CreateRun, func(_ *http.Request, a *tamper.Answer) {
				if a.Header.Get("OpenWOP-Idempotent-Replay") != "" {
					a.Header.Del("OpenWOP-Idempotent-Replay")
					a.Refuse(409, "idempotency_key_mismatch", "the key was used")
				}
			}), replay),
		wire("mismatch-gets-first-response", "A createRun with a used key and another body gets the first response.",
			"201", firstBody(), mismatch),
		wire("mismatch-creates-run", "A createRun with a used key and another body creates another run.",
			"201", forgetful(false), mismatch),
		wire("mismatch-422", "A createRun with a used key and another body is refused 422.",
			"422", onStatus(tamper.CreateRun, 409, func(a *tamper.Answer) { a.Refuse(422, "validation_error", "the key was used") }), mismatch),
	}
}

// bodies remembers the first body that came with each key.
type bodies struct {
	mu    sync.Mutex
	first map[string][]byte
}

func (b *bodies) seen(r *http.Request) (first []byte, again bool) {
	body := tamper.Body(r)
	id := r.Header.Get("Authorization") + " " + keyOf(r)
	b.mu.Lock()
	defer b.mu.Unlock()
	if f, ok := b.first[id]; ok {
		return f, true
	}
	b.first[id] = body
	return body, false
}

// forgetful drops the key of a repeated createRun: of one with the same body,
// or of one with another.
func forgetful(same bool) tamper.Middleware {
	return func(next http.Handler) http.Handler {
		known := &bodies{first: map[string][]byte{}}
		return tamper.Requests(tamper.And(tamper.CreateRun, tamper.HasHeader("Idempotency-Key")), func(r *http.Request) {
			if first, again := known.seen(r); again && (string(first) == string(tamper.Body(r))) == same {
				r.Header.Del("Idempotency-Key")
			}
		})(next)
	}
}

// firstBody gives a repeated createRun the body of the first.
func firstBody() tamper.Middleware {
	return func(next http.Handler) http.Handler {
		known := &bodies{first: map[string][]byte{}}
		return tamper.Requests(tamper.And(tamper.CreateRun, tamper.HasHeader("Idempotency-Key")), func(r *http.Request) {
			if first, again := known.seen(r); again {
				tamper.SetBody(r, first)
			}
		})(next)
	}
}
