package scenarios

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"wopcert/bundle/jcs"
	"wopcert/harness"
	"wopcert/harness/receiver"
)

// noticeWait is how long a host may take to deliver the notice of an interrupt.
const noticeWait = 15 * time.Second

// resumeToken is a token of the form ow2.alg.kid.payload.mac (identity.md §4).
type resumeToken struct {
	raw, alg, kid, payload, mac string
	claims                      object // what the payload says, nil when it is no base64url of a JSON object
	at                          receiver.Attempt
}

// tokenLike finds what begins like a token. A kid may hold dots, so that the
// parts are told from the end.
var tokenLike = regexp.MustCompile(`ow2\.[A-Za-z0-9._~=-]+`)

// readToken takes a token apart; ok is false for what has fewer parts.
func readToken(raw string) (tok resumeToken, ok bool) {
	parts := strings.Split(raw, ".")
	if len(parts) < 5 || parts[0] != "ow2" {
		return tok, false
	}
	n := len(parts)
	tok = resumeToken{raw: raw, alg: parts[1], kid: strings.Join(parts[2:n-2], "."), payload: parts[n-2], mac: parts[n-1]}
	plain, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(tok.payload, "="))
	if err == nil {
		v, _ := jcs.Decode(plain)
		tok.claims, _ = v.(object)
	}
	return tok, true
}

// with returns the token's text with parts replaced.
func (tok resumeToken) with(alg, kid, payload, mac string) string {
	return strings.Join([]string{"ow2", alg, kid, payload, mac}, ".")
}

// inspects reports whether a token says that it is for inspection only.
func (tok resumeToken) inspects() bool { return tok.claims["intent"] == "inspect" }

// path is the token surface of a token.
func (tok resumeToken) path() string { return tokenPath(tok.raw) }

func tokenPath(raw string) string { return "/interrupts/" + url.PathEscape(raw) }

// inspect sends inspectInterruptByToken, as anybody may who holds the token.
func inspect(t *harness.T, raw string) *harness.Response {
	return t.Do(harness.Request{Path: tokenPath(raw), As: harness.Anonymous})
}

// resolveBy sends resolveInterruptByToken without any credential.
func resolveBy(t *harness.T, raw string, value any) *harness.Response {
	return postResolve(t, harness.Anonymous, tokenPath(raw), object{"resumeValue": value}, newIdempotencyKey())
}

// tokensIn are the tokens that stand anywhere in an attempt, each once. What a
// notice looks like is the host's own.
func tokensIn(a receiver.Attempt) []resumeToken {
	texts := []string{string(a.Body), a.Path, a.Query}
	for _, values := range a.Header {
		texts = append(texts, values...)
	}
	var out []resumeToken
	for _, s := range texts {
		for _, spelling := range []string{s, unescaped(s)} {
			for _, raw := range tokenLike.FindAllString(spelling, -1) {
				tok, ok := readToken(strings.TrimRight(raw, "."))
				tok.at = a
				if ok && !slices.ContainsFunc(out, func(o resumeToken) bool { return o.raw == tok.raw }) {
					out = append(out, tok)
				}
			}
		}
	}
	return out
}

// unescaped undoes percent escapes where a text is made of them throughout.
func unescaped(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	plain, err := url.PathUnescape(s)
	if err != nil {
		return s
	}
	return plain
}

// delivers gates on a host that says it delivers notices of interrupts, which
// is the one way a token reaches the suite.
func delivers() harness.Gate {
	return harness.HostFact("the host does not advertise interrupt.callbackDelivery, and no other way to hand out a token is specified",
		func(d *harness.Discovery) bool { v, _ := d.Facet("interrupt", "callbackDelivery"); return v == true })
}

// notice is a suspended run and the tokens its callback received.
type notice struct {
	pending
	endpoint *receiver.Endpoint
	tokens   []resumeToken
}

// resolver is the first token that is not for inspection only.
func (n notice) resolver() (resumeToken, bool) {
	i := slices.IndexFunc(n.tokens, func(tok resumeToken) bool { return !tok.inspects() })
	if i < 0 {
		return resumeToken{}, false
	}
	return n.tokens[i], true
}

// notified creates a run with a callbackUrl and waits until it waits and its
// notice came. The test ends when either does not happen.
func notified(t *harness.T, body object) notice {
	e := t.Endpoint(nil)
	n := notice{pending: suspend(t, with(body, "callbackUrl", e.URL())), endpoint: e}
	n.tokens = awaitTokens(t, e, noticeWait)
	if _, ok := n.resolver(); !ok {
		endRun(t, n.run)
		t.Abort("no token to observe: %d callbacks within %s and %d tokens in them", e.Count(), noticeWait, len(n.tokens))
	}
	return n
}

// awaitTokens waits for the first attempts that hold a token to resolve with,
// and returns all the tokens that came.
func awaitTokens(t *harness.T, e *receiver.Endpoint, within time.Duration) []resumeToken {
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	var tokens []resumeToken
	e.WaitUntil(ctx, func(all []receiver.Attempt) bool {
		tokens = nil
		for _, a := range all {
			tokens = append(tokens, tokensIn(a)...)
		}
		return slices.ContainsFunc(tokens, func(tok resumeToken) bool { return !tok.inspects() })
	})
	return tokens
}

// mustToken is the token to resolve with, which notified has made sure of.
func (n notice) mustToken() resumeToken {
	tok, _ := n.resolver()
	return tok
}

// invalidToken checks a refusal of a token by both operations: inspection
// first, so that a resolve that goes through is seen by what follows.
func invalidToken(t *harness.T, what, raw string, value any) harness.Check {
	for _, send := range []struct {
		op string
		do func() *harness.Response
	}{
		{"inspection", func() *harness.Response { return inspect(t, raw) }},
		{"a resolve", func() *harness.Response { return resolveBy(t, raw, value) }},
	} {
		check := send.do().Refuses("interrupt_token_invalid")
		check.Observed = send.op + " with " + what + " was answered " + check.Observed
		if !check.OK || send.op == "a resolve" {
			return check
		}
	}
	return harness.Check{}
}

// spentToken checks that a token of an interrupt that is over is refused as
// such by both operations.
func spentToken(t *harness.T, state string, tok resumeToken, value any) harness.Check {
	inspected := inspect(t, tok.raw).Refuses("interrupt_already_resolved")
	inspected.Observed = "inspection " + state + " was answered " + inspected.Observed
	if !inspected.OK {
		return inspected
	}
	resolved := resolveBy(t, tok.raw, value).Refuses("interrupt_already_resolved")
	resolved.Observed = "a resolve " + state + " was answered " + resolved.Observed
	return resolved
}

// works checks that a token inspects its interrupt.
func works(t *harness.T, tok resumeToken) harness.Check {
	r := inspect(t, tok.raw)
	check := r.Is(http.StatusOK)
	check.Observed = "inspection with the token as it was handed out was answered " + check.Observed
	return check
}

// mustWork ends a test whose token does not work, since a refusal of another
// one would show nothing.
func mustWork(t *harness.T, tok resumeToken) {
	if check := works(t, tok); !check.OK {
		t.Abort("the token that was handed out does not work, so that a refusal of another one shows nothing: %s", check.Observed)
	}
}

// expiry is when a token says it expires. The text fixes no form: a date-time,
// or a number of seconds or milliseconds since 1970.
func (tok resumeToken) expiry() (time.Time, bool) {
	v := tok.claims["expiresAt"]
	if s, ok := v.(string); ok {
		at, err := time.Parse(time.RFC3339Nano, s)
		return at, err == nil
	}
	n, ok := numeric(v)
	if !ok || n <= 0 {
		return time.Time{}, false
	}
	if n > 1e11 { // as seconds it would lie beyond the year 5000
		return time.UnixMilli(int64(n)), true
	}
	return time.Unix(int64(n), 0), true
}

// tokenOf waits for a token that inspects a given interrupt, of a run that
// waits on several.
func tokenOf(t *harness.T, e *receiver.Endpoint, p pending) (resumeToken, bool) {
	ctx, cancel := context.WithTimeout(t.Context(), noticeWait)
	defer cancel()
	tried := map[string]bool{}
	var found resumeToken
	_, ok := e.WaitUntil(ctx, func(all []receiver.Attempt) bool {
		for _, a := range all {
			for _, tok := range tokensIn(a) {
				if tried[tok.raw] || tok.inspects() {
					continue
				}
				tried[tok.raw] = true
				r := inspect(t, tok.raw)
				if r.Is(http.StatusOK).OK && r.Get("key") == p.payload()["key"] {
					found = tok
					return true
				}
			}
		}
		return false
	})
	return found, ok
}
