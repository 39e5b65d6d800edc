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

// The header families (webhooks.md §Headers, §Dual emission through the overlap).
const (
	family       = "OpenWOP-"
	legacyFamily = "X-openwop-"
)

// secretPrefix begins a secret of Standard Webhooks; the base64 of its bytes follows.
const secretPrefix = "whsec_"

// StandardKey is the key in a secret of Standard Webhooks: 24 to 64 bytes.
func StandardKey(secret string) ([]byte, bool) {
	text, ok := strings.CutPrefix(secret, secretPrefix)
	if !ok {
		return nil, false
	}
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	return key, err == nil && len(key) >= 24 && len(key) <= 64
}

// NewSecret makes a secret of random bytes, at least 24, in the form both schemes take.
func NewSecret(random [32]byte) string {
	return secretPrefix + base64.StdEncoding.EncodeToString(random[:])
}

func hmacSHA256(key []byte, parts ...string) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range parts {
		_, _ = mac.Write([]byte(part)) // a hash takes every byte
	}
	return mac.Sum(nil)
}

// signedHeader are the headers of one attempt. During the overlap after a rotation the v1 signature stays on the
// previous secret and the standard one has an entry for each.
func signedHeader(s *Subscription, messageID, eventType string, now time.Time, body []byte, legacy bool) http.Header {
	timestamp := strconv.FormatInt(now.Unix(), 10)
	current, previous := s.secrets(now)
	signing := current
	if previous != "" {
		signing = previous
	}
	values := map[string]string{
		"Webhook-Id":          s.ID,
		"Event-Type":          eventType,
		"Timestamp":           timestamp,
		"Signature":           "sha256=" + hex.EncodeToString(hmacSHA256([]byte(signing), timestamp, ".", string(body))),
		"Signature-Algorithm": SchemeV1,
	}
	header := http.Header{"Content-Type": {"application/json"}}
	for name, value := range values {
		header.Set(family+name, value)
		if legacy {
			header.Set(legacyFamily+name, value)
		}
	}
	if s.Standard {
		secrets := []string{current}
		if previous != "" {
			secrets = append(secrets, previous)
		}
		standardHeader(header, messageID, timestamp, body, secrets...)
	}
	return header
}

// standardHeader adds the headers of Standard Webhooks, with an entry for each secret.
func standardHeader(header http.Header, messageID, timestamp string, body []byte, secrets ...string) {
	var entries []string
	for _, secret := range secrets {
		key, _ := StandardKey(secret) // it was checked when it was taken
		entries = append(entries, "v1,"+base64.StdEncoding.EncodeToString(hmacSHA256(key, messageID, ".", timestamp, ".", string(body))))
	}
	header.Set("webhook-id", messageID)
	header.Set("webhook-timestamp", timestamp)
	header.Set("webhook-signature", strings.Join(entries, " "))
}

// tolerance is how far a timestamp may be from the receiver's clock (webhooks.md §Verification).
const tolerance = 5 * time.Minute

// Verify is the subscriber's side of scheme v1: it returns "" for a delivery that was signed with the secret, and else
// what is wrong with it. A delivery that carries the X-openwop family alone is as good as one of the OpenWOP family.
func Verify(header map[string]string, body []byte, secret string, now time.Time) (reason string) {
	folded := make(map[string]string, len(header))
	for name, value := range header {
		name = strings.ToLower(name)
		if _, twice := folded[name]; twice {
			return "a header is there twice"
		}
		folded[name] = value
	}
	prefix := strings.ToLower(family)
	if !carries(folded, prefix) {
		prefix = strings.ToLower(legacyFamily)
	}
	if algorithm, ok := folded[prefix+"signature-algorithm"]; !ok || algorithm != SchemeV1 {
		return "the signature algorithm is not v1"
	}
	timestamp := folded[prefix+"timestamp"]
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || strings.Trim(timestamp, "0123456789") != "" {
		return "there is no timestamp in Unix seconds"
	}
	if at := time.Unix(seconds, 0); at.Before(now.Add(-tolerance)) || at.After(now.Add(tolerance)) {
		return "the timestamp is more than five minutes from now"
	}
	text, ok := strings.CutPrefix(folded[prefix+"signature"], "sha256=")
	signature, err := hex.DecodeString(text)
	if !ok || err != nil || !hmac.Equal(signature, hmacSHA256([]byte(secret), timestamp, ".", string(body))) {
		return "the signature does not match"
	}
	return ""
}

// carries reports whether any of what makes a signature is there under the prefix.
func carries(header map[string]string, prefix string) bool {
	for _, name := range []string{"timestamp", "signature", "signature-algorithm"} {
		if _, ok := header[prefix+name]; ok {
			return true
		}
	}
	return false
}
