package vectorset

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"
)

// TokenFile is tokens/cases.json.
type TokenFile struct {
	Description string        `json:"description"`
	Now         time.Time     `json:"now"`
	Algs        []string      `json:"tokenAlgs"`
	Secrets     []TokenSecret `json:"secrets"`
	Interrupts  []Interrupt   `json:"interrupts"`
	Cases       []TokenCase   `json:"cases"`
}

// TokenSecret is a secret the host holds, which anybody can compute.
type TokenSecret struct {
	KeyID     string `json:"kid"`
	Label     string `json:"label"`
	SecretHex string `json:"secretHex"`
}

// Interrupt is an interrupt of the host and what has become of it.
type Interrupt struct {
	RunID       string `json:"runId"`
	NodeID      string `json:"nodeId"`
	InterruptID string `json:"interruptId"`
	State       string `json:"state"` // pending, resolved, run-cancelled or run-completed
}

// TokenCase is a token and what each operation answers to it at Now.
type TokenCase struct {
	ID          string      `json:"id"`
	Description string      `json:"description"`
	Token       string      `json:"token"`
	Inspect     TokenAnswer `json:"inspect"`
	Resolve     TokenAnswer `json:"resolve"`
}

// TokenAnswer is a status and, where the specification fixes it, the code.
type TokenAnswer struct {
	Status int    `json:"status"`
	Code   string `json:"code,omitempty"`
}

// tokenClaims is the payload of a token, in the member order of v1.
type tokenClaims struct {
	RunID       string `json:"runId"`
	NodeID      string `json:"nodeId"`
	InterruptID string `json:"interruptId"`
	ExpiresAt   string `json:"expiresAt"`
	Intent      string `json:"intent"`
}

// tokenSecretLabel is what a secret is the SHA-256 of.
func tokenSecretLabel(kid string) string { return "wopcert TEST-ONLY resume token secret " + kid }

func tokenSecret(kid string) []byte {
	sum := sha256.Sum256([]byte(tokenSecretLabel(kid)))
	return sum[:]
}

func unpadded(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// sealed is the payload and the MAC of claims under the secret of a kid.
func sealed(c tokenClaims, kid string) (payload, mac string) {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // strings alone
	}
	sum := hmac.New(sha256.New, tokenSecret(kid))
	sum.Write(text)
	return unpadded(text), unpadded(sum.Sum(nil))
}

func joined(parts ...string) string { return strings.Join(parts, ".") }

// token is a whole token.
func token(c tokenClaims, kid string) string {
	payload, mac := sealed(c, kid)
	return joined("ow2", "hs256", kid, payload, mac)
}

func resumeTokens() TokenFile {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	file := TokenFile{
		Description: "A host advertises tokenAlgs, holds secrets and has these interrupts. At now, GET and POST /interrupts/{token} answer as each case says; resumeValue is one the interrupt takes. TEST-ONLY secrets: secretHex is the SHA-256 of label.",
		Now:         now, Algs: []string{"hs256"},
	}
	for _, kid := range []string{"2026-11", "2026-10", "rotating.key.7", "legacy"} {
		file.Secrets = append(file.Secrets, TokenSecret{kid, tokenSecretLabel(kid), hex.EncodeToString(tokenSecret(kid))})
	}
	claims := map[string]tokenClaims{}
	for _, state := range []string{"pending", "resolved", "run-cancelled", "run-completed"} {
		i := Interrupt{RunID: "acme/run-0123456789-" + state, NodeID: "gate", InterruptID: "acme/interrupt-0123456789-" + state, State: state}
		file.Interrupts = append(file.Interrupts, i)
		claims[state] = tokenClaims{i.RunID, i.NodeID, i.InterruptID, now.Add(20 * time.Minute).Format(time.RFC3339), "resolve"}
	}
	file.Cases = append(acceptedTokens(claims, now), refusedTokens(claims["pending"])...)
	return file
}

// acceptedTokens are those whose MAC is good.
func acceptedTokens(claims map[string]tokenClaims, now time.Time) []TokenCase {
	ok, spent := TokenAnswer{Status: 200}, TokenAnswer{409, "interrupt_already_resolved"}
	expired, forbidden := TokenAnswer{410, "interrupt_expired"}, TokenAnswer{Status: 403}
	pending := claims["pending"]
	looking, late, just := pending, pending, pending
	looking.Intent = "inspect"
	late.ExpiresAt = now.Add(-time.Second).Format(time.RFC3339)
	just.ExpiresAt = now.Add(time.Second).Format(time.RFC3339)
	v1 := func(c tokenClaims) string {
		payload, mac := sealed(c, "legacy")
		return joined(payload, mac)
	}
	return []TokenCase{
		{"valid", "made with the newest secret", token(pending, "2026-11"), ok, ok},
		{"valid-older-secret", "made before the secrets were rotated", token(pending, "2026-10"), ok, ok},
		{"valid-dotted-kid", "the kid holds dots, so that the parts are counted from both ends", token(pending, "rotating.key.7"), ok, ok},
		{"valid-last-second", "a second before its expiresAt", token(just, "2026-11"), ok, ok},
		{"valid-inspect", "of intent inspect; the code that goes with 403 is the host's", token(looking, "2026-11"), ok, forbidden},
		{"valid-v1", "issued under v1: no prefix, checked with the secret of kid legacy", v1(pending), ok, ok},
		{"expired", "a second past its expiresAt, and the interrupt still pending", token(late, "2026-11"), expired, expired},
		{"expired-v1", "issued under v1 and past its expiresAt", v1(late), expired, expired},
		{"resolved", "its interrupt was resolved, and the run goes on", token(claims["resolved"], "2026-11"), spent, spent},
		{"run-cancelled", "its run was cancelled", token(claims["run-cancelled"], "2026-11"), spent, spent},
		{"run-completed", "its run has completed", token(claims["run-completed"], "2026-11"), spent, spent},
	}
}

// refusedTokens are made from the token of a pending interrupt.
func refusedTokens(pending tokenClaims) []TokenCase {
	const kid = "2026-11"
	payload, mac := sealed(pending, kid)
	flip := map[byte]string{'A': "B"}[mac[3]]
	if flip == "" {
		flip = "A"
	}
	foreign, longer, other := pending, pending, pending
	foreign.RunID, foreign.InterruptID = strings.Replace(pending.RunID, "acme/", "other/", 1), strings.Replace(pending.InterruptID, "acme/", "other/", 1)
	longer.ExpiresAt = strings.Replace(pending.ExpiresAt, "2026", "2027", 1)
	other.NodeID = "another"
	foreignPayload, _ := sealed(foreign, kid)
	longerPayload, _ := sealed(longer, kid)
	_, otherMAC := sealed(other, kid)
	_, unheldMAC := sealed(pending, "2024-01")
	var out []TokenCase
	for _, c := range [][3]string{
		{"mac-flipped", "one character of the MAC is another", joined("ow2", "hs256", kid, payload, mac[:3]+flip+mac[4:])},
		{"mac-truncated", "half the MAC", joined("ow2", "hs256", kid, payload, mac[:len(mac)/2])},
		{"mac-empty", "an empty MAC", joined("ow2", "hs256", kid, payload, "")},
		{"mac-of-another", "the MAC of another payload", joined("ow2", "hs256", kid, payload, otherMAC)},
		{"truncated", "cut off after the payload", joined("ow2", "hs256", kid, payload)},
		{"re-signed", "signed with a secret the host does not hold, under a kid it does", joined("ow2", "hs256", kid, payload, unheldMAC)},
		{"unheld-kid", "signed with a secret the host does not hold, under that secret's kid", joined("ow2", "hs256", "2024-01", payload, unheldMAC)},
		{"other-held-kid", "the MAC of one secret under the kid of another", joined("ow2", "hs256", "2026-10", payload, mac)},
		{"alg-unadvertised", "an alg that tokenAlgs does not list", joined("ow2", "hs512", kid, payload, mac)},
		{"alg-none", "the alg none, and no MAC", joined("ow2", "none", kid, payload, "")},
		{"alg-case", "the alg in upper case", joined("ow2", "HS256", kid, payload, mac)},
		{"wrong-tenant", "the ids of another tenant under the MAC it had", joined("ow2", "hs256", kid, foreignPayload, mac)},
		{"postponed", "a later expiresAt under the MAC it had", joined("ow2", "hs256", kid, longerPayload, mac)},
		{"prefix-missing", "a token of v2 without its prefix", joined("hs256", kid, payload, mac)},
		{"prefix-other", "the prefix of a scheme that does not exist", joined("ow9", "hs256", kid, payload, mac)},
		{"v1-wrong-secret", "two segments, signed with another secret than that of kid legacy", joined(payload, mac)},
	} {
		refused := TokenAnswer{401, "interrupt_token_invalid"}
		out = append(out, TokenCase{c[0], c[1], c[2], refused, refused})
	}
	return out
}
