// Package webhook is the subscriber's side of a delivery: both signature
// schemes, written from webhooks.md and from Standard Webhooks 1.0.0 alone.
package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Header names (webhooks.md §Headers). The second family is what version 1
// called the same headers, with the same values.
const (
	HeaderID        = "OpenWOP-Webhook-Id"
	HeaderType      = "OpenWOP-Event-Type"
	HeaderTimestamp = "OpenWOP-Timestamp"
	HeaderSignature = "OpenWOP-Signature"
	HeaderAlgorithm = "OpenWOP-Signature-Algorithm"

	StandardID        = "Webhook-Id"
	StandardTimestamp = "Webhook-Timestamp"
	StandardSignature = "Webhook-Signature"
)

// Headers returns the names of the five headers that every delivery carries.
func Headers() []string {
	return []string{HeaderID, HeaderType, HeaderTimestamp, HeaderSignature, HeaderAlgorithm}
}

// V1Name is the name of one of the five headers in the family of version 1.
func V1Name(name string) string { return "X-openwop-" + strings.TrimPrefix(name, "OpenWOP-") }

// Tolerance is how far a timestamp may be from the subscriber's clock
// (webhooks.md §Verification).
const Tolerance = 5 * time.Minute

// Refusal is why a subscriber rejects a delivery.
type Refusal string

// The refusals, in the order in which they are found.
const (
	MissingHeader      Refusal = "missing-header"
	UnknownAlgorithm   Refusal = "unknown-algorithm"
	MalformedTimestamp Refusal = "malformed-timestamp"
	OutsideTolerance   Refusal = "outside-tolerance"
	MalformedSecret    Refusal = "malformed-secret"
	WrongSignature     Refusal = "wrong-signature"
)

func (r Refusal) Error() string { return "delivery rejected: " + string(r) }

// Sign is the value of OpenWOP-Signature: HMAC-SHA256, under the bytes of the
// secret as it was given, over the timestamp, a dot and the exact body.
func Sign(secret, timestamp string, body []byte) string {
	return "sha256=" + hex.EncodeToString(mac([]byte(secret), timestamp+".", body))
}

// SignStandard is one entry of webhook-signature: HMAC-SHA256, under the
// decoded secret, over id, timestamp and exact body, joined by dots. The error
// is MalformedSecret.
func SignStandard(secret, id, timestamp string, body []byte) (string, error) {
	key, err := Key(secret)
	if err != nil {
		return "", err
	}
	return "v1," + base64.StdEncoding.EncodeToString(mac(key, id+"."+timestamp+".", body)), nil
}

func mac(key []byte, prefix string, body []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(prefix))
	h.Write(body)
	return h.Sum(nil)
}

// Key decodes a secret of Standard Webhooks: whsec_ and the base64, padded or
// not, of 24 to 64 bytes. The error is MalformedSecret.
func Key(secret string) ([]byte, error) {
	text, ok := strings.CutPrefix(secret, "whsec_")
	if !ok {
		return nil, MalformedSecret
	}
	key, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil || len(key) < 24 || len(key) > 64 {
		return nil, MalformedSecret
	}
	return key, nil
}

// Verify checks a delivery under the scheme v1, by the OpenWOP headers or,
// where the delivery has only those, by the family of version 1. It returns
// nil or a Refusal.
func Verify(h http.Header, body []byte, secret string, now time.Time) error {
	name := func(n string) string { return n }
	if h.Get(HeaderSignature) == "" {
		name = V1Name
	}
	for _, n := range Headers() {
		if h.Get(name(n)) == "" {
			return MissingHeader
		}
	}
	if h.Get(name(HeaderAlgorithm)) != "v1" {
		return UnknownAlgorithm
	}
	timestamp := h.Get(name(HeaderTimestamp))
	if err := fresh(timestamp, now); err != nil {
		return err
	}
	if !SameSignature(h.Get(name(HeaderSignature)), Sign(secret, timestamp, body)) {
		return WrongSignature
	}
	return nil
}

// SameSignature compares two values of OpenWOP-Signature in constant time. The
// hex digits may be of either case; anything else has to match.
func SameSignature(a, b string) bool {
	x, okX := digest(a)
	y, okY := digest(b)
	return okX && okY && hmac.Equal(x, y)
}

func digest(signature string) ([]byte, bool) {
	scheme, digits, _ := strings.Cut(signature, "=")
	sum, err := hex.DecodeString(digits)
	return sum, scheme == "sha256" && err == nil && len(sum) == sha256.Size
}

// VerifyStandard checks a delivery or a verification request under the
// symmetric scheme of Standard Webhooks: any one entry of webhook-signature
// has to match. It returns nil or a Refusal.
func VerifyStandard(h http.Header, body []byte, secret string, now time.Time) error {
	id, timestamp, list := h.Get(StandardID), h.Get(StandardTimestamp), h.Get(StandardSignature)
	if id == "" || timestamp == "" || list == "" {
		return MissingHeader
	}
	if err := fresh(timestamp, now); err != nil {
		return err
	}
	key, err := Key(secret)
	if err != nil {
		return err
	}
	want := mac(key, id+"."+timestamp+".", body)
	for _, entry := range strings.Fields(list) {
		text, ok := strings.CutPrefix(entry, "v1,")
		if !ok {
			continue // of another scheme
		}
		if got, err := base64.StdEncoding.DecodeString(text); err == nil && hmac.Equal(got, want) {
			return nil
		}
	}
	return WrongSignature
}

// fresh checks a timestamp in Unix seconds against a clock.
func fresh(timestamp string, now time.Time) error {
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || seconds < 0 || strconv.FormatInt(seconds, 10) != timestamp {
		return MalformedTimestamp
	}
	// In whole seconds, as the timestamp itself is.
	if d := now.Unix() - seconds; d > int64(Tolerance/time.Second) || -d > int64(Tolerance/time.Second) {
		return OutsideTolerance
	}
	return nil
}
