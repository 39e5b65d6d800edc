package webhook_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/reference-host/internal/engine"
	"wopcert/reference-host/internal/eventlog"
	"wopcert/reference-host/internal/webhook"
)

var (
	standardSecret = "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 24)))
	secondSecret   = "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("l", 64)))
	thirdSecret    = "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("m", 32)))
)

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func v1(secret, timestamp string, body []byte) string {
	return "sha256=" + hex.EncodeToString(mac([]byte(secret), timestamp+"."+string(body)))
}

func standard(t *testing.T, secret string, e engine.Effect) string {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	require.NoError(t, err)
	return "v1," + base64.StdEncoding.EncodeToString(mac(key, get(e, "webhook-id")+"."+get(e, "webhook-timestamp")+"."+string(e.Body)))
}

func TestHeadersOfV1(t *testing.T) {
	t.Parallel()
	for _, legacy := range []bool{false, true} {
		w := newWorld(t, status(200), func(c *webhook.Config) { c.Legacy = legacy })
		s := w.subscribe("hook")
		w.run("run")
		sent := w.sink.wait(1)[0]
		timestamp := strconv.FormatInt(w.clock.Now().Unix(), 10)
		want := map[string]string{
			"Webhook-Id": s.ID, "Event-Type": eventlog.RunStarted, "Timestamp": timestamp, "Signature-Algorithm": "v1", "Signature": v1(secret, timestamp, sent.Body),
		}
		for name, value := range want {
			assert.Equal(t, value, get(sent, "OpenWOP-"+name), name)
			if !legacy {
				value = ""
			}
			assert.Equal(t, value, get(sent, "X-openwop-"+name), name)
		}
		assert.Equal(t, "application/json", get(sent, "Content-Type"))
		for name := range sent.Header {
			assert.False(t, strings.HasPrefix(name, "Webhook-"), name)
		}
	}
}

func TestStandardWebhooksAndRotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, status(200))
	s := w.subscribe("hook", func(s *webhook.Subscription) { s.Standard, s.Secret = true, standardSecret })
	plain := w.subscribe("plain", func(s *webhook.Subscription) { s.Events = []string{"no.such-event"} })
	n := 0
	next := func() engine.Effect {
		n++
		w.run("run-" + strconv.Itoa(n))
		return w.sink.wait(n)[n-1]
	}
	check := func(e engine.Effect, v1Secret string, entries ...string) {
		t.Helper()
		assert.Equal(t, get(e, "OpenWOP-Timestamp"), get(e, "webhook-timestamp"))
		assert.Equal(t, v1(v1Secret, get(e, "OpenWOP-Timestamp"), e.Body), get(e, "OpenWOP-Signature"))
		assert.Equal(t, "v1", get(e, "OpenWOP-Signature-Algorithm"))
		assert.Regexp(t, "^[A-Za-z0-9_-]{16,128}$", get(e, "webhook-id"))
		assert.NotEqual(t, s.ID, get(e, "webhook-id"))
		var want []string
		for _, secret := range entries {
			want = append(want, standard(t, secret, e))
		}
		assert.Equal(t, strings.Join(want, " "), get(e, "webhook-signature"))
	}
	check(next(), standardSecret, standardSecret)

	at, until, err := w.Rotate(t.Context(), s.ID, secondSecret)
	require.NoError(t, err)
	assert.Equal(t, w.clock.Now(), at)
	assert.Equal(t, at.Add(time.Hour), until)
	check(next(), standardSecret, secondSecret, standardSecret)

	_, _, err = w.Rotate(t.Context(), s.ID, thirdSecret) // the clock stands still
	require.NoError(t, err)
	check(next(), secondSecret, thirdSecret, secondSecret)
	w.Close()
	w.start()
	check(next(), secondSecret, thirdSecret, secondSecret)
	w.clock.Advance(time.Hour - time.Second)
	check(next(), secondSecret, thirdSecret, secondSecret)
	w.clock.Advance(time.Second)
	check(next(), thirdSecret, thirdSecret)

	_, _, err = w.Rotate(t.Context(), plain.ID, secondSecret)
	require.ErrorIs(t, err, webhook.ErrNotStandard)
	_, _, err = w.Rotate(t.Context(), id("tenant-a", "nobody"), secondSecret)
	require.ErrorIs(t, err, eventlog.ErrNotFound)
}

func TestStandardKey(t *testing.T) {
	t.Parallel()
	of := func(n int) string {
		return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", n)))
	}
	for _, good := range []string{of(24), of(25), of(26), of(64)} {
		_, ok := webhook.StandardKey(good)
		assert.True(t, ok, good)
	}
	for _, bad := range []string{of(23), of(65), of(8), "", "whsec_", strings.TrimPrefix(of(24), "whsec_"), strings.ToUpper(of(24)), strings.TrimRight(of(25), "="), of(32) + "!", "whsec_" + strings.Repeat("-_", 20)} {
		_, ok := webhook.StandardKey(bad)
		assert.False(t, ok, bad)
	}
	key, ok := webhook.StandardKey(webhook.NewSecret([32]byte{1}))
	assert.True(t, ok)
	assert.Len(t, key, 32)
}

func TestVerify(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	body := []byte(`{"x":1}`)
	at := func(d time.Duration) string { return strconv.FormatInt(now.Add(d).Unix(), 10) }
	signed := func(prefix string, d time.Duration) map[string]string {
		return map[string]string{
			prefix + "Webhook-Id": "t/x", prefix + "Event-Type": "run.started", prefix + "Timestamp": at(d),
			prefix + "Signature-Algorithm": "v1", prefix + "Signature": v1(secret, at(d), body),
		}
	}
	for name, header := range map[string]map[string]string{
		"own family": signed("OpenWOP-", 0), "legacy family": signed("X-openwop-", 0), "lower case": signed("x-openwop-", 0), "upper case": signed("OPENWOP-", 0),
		"old": signed("OpenWOP-", -5*time.Minute), "early": signed("OpenWOP-", 5*time.Minute),
	} {
		assert.Empty(t, webhook.Verify(header, body, secret, now), name)
	}
	change := func(f func(map[string]string)) map[string]string {
		h := signed("X-openwop-", 0)
		f(h)
		return h
	}
	both := signed("OpenWOP-", 0)
	for name, value := range signed("X-openwop-", 0) {
		both[name] = value
	}
	assert.Empty(t, webhook.Verify(both, body, secret, now))
	both["OpenWOP-Signature"] = "sha256=00"
	assert.NotEmpty(t, webhook.Verify(both, body, secret, now), "the family that counts is the newer one")
	for name, c := range map[string]struct {
		header map[string]string
		body   []byte
		secret string
	}{
		"other body":    {signed("OpenWOP-", 0), []byte(`{"x":2}`), secret},
		"other secret":  {signed("OpenWOP-", 0), body, secret + "x"},
		"too old":       {signed("OpenWOP-", -5*time.Minute-time.Second), body, secret},
		"too early":     {signed("OpenWOP-", 5*time.Minute+time.Second), body, secret},
		"none":          {nil, body, secret},
		"no algorithm":  {change(func(h map[string]string) { delete(h, "X-openwop-Signature-Algorithm") }), body, secret},
		"v2":            {change(func(h map[string]string) { h["X-openwop-Signature-Algorithm"] = "v2" }), body, secret},
		"standard":      {change(func(h map[string]string) { h["X-openwop-Signature-Algorithm"] = "standard-webhooks-1" }), body, secret},
		"no timestamp":  {change(func(h map[string]string) { delete(h, "X-openwop-Timestamp") }), body, secret},
		"text for time": {change(func(h map[string]string) { h["X-openwop-Timestamp"] = "now" }), body, secret},
		"signed time":   {change(func(h map[string]string) { h["X-openwop-Timestamp"] = "+" + at(0) }), body, secret},
		"no signature":  {change(func(h map[string]string) { delete(h, "X-openwop-Signature") }), body, secret},
		"no prefix":     {change(func(h map[string]string) { h["X-openwop-Signature"] = h["X-openwop-Signature"][7:] }), body, secret},
		"cut":           {change(func(h map[string]string) { h["X-openwop-Signature"] = h["X-openwop-Signature"][:69] }), body, secret},
		"empty":         {change(func(h map[string]string) { h["X-openwop-Signature"] = "sha256=" }), body, secret},
		"twice":         {change(func(h map[string]string) { h["x-openwop-timestamp"] = at(0) }), body, secret},
	} {
		assert.NotEmpty(t, webhook.Verify(c.header, c.body, c.secret, now), name)
	}
}

func TestVerifyEndpoint(t *testing.T) {
	t.Parallel()
	answers := map[string]struct {
		answer func(asked string) (*engine.Outcome, error)
		ok     bool
	}{
		"echo": {func(asked string) (*engine.Outcome, error) {
			return &engine.Outcome{Status: 200, Body: []byte(`{"challenge":"` + asked + `"}`)}, nil
		}, true},
		"echo more": {func(asked string) (*engine.Outcome, error) {
			return &engine.Outcome{Status: 299, Body: []byte(`{"ok":true,"challenge":"` + asked + `"}`)}, nil
		}, true},
		"nothing": {func(string) (*engine.Outcome, error) { return &engine.Outcome{Status: 200}, nil }, false},
		"empty":   {func(string) (*engine.Outcome, error) { return &engine.Outcome{Status: 200, Body: []byte(`{}`)}, nil }, false},
		"wrong": {func(string) (*engine.Outcome, error) {
			return &engine.Outcome{Status: 200, Body: []byte(`{"challenge":"x"}`)}, nil
		}, false},
		"null": {func(string) (*engine.Outcome, error) {
			return &engine.Outcome{Status: 200, Body: []byte(`{"challenge":null}`)}, nil
		}, false},
		"text": {func(asked string) (*engine.Outcome, error) {
			return &engine.Outcome{Status: 200, Body: []byte(asked)}, nil
		}, false},
		"string": {func(asked string) (*engine.Outcome, error) {
			return &engine.Outcome{Status: 200, Body: []byte(`"` + asked + `"`)}, nil
		}, false},
		"case": {func(asked string) (*engine.Outcome, error) {
			return &engine.Outcome{Status: 200, Body: []byte(`{"Challenge":"` + asked + `"}`)}, nil
		}, false},
		"redirect": {func(asked string) (*engine.Outcome, error) {
			return &engine.Outcome{Status: 307, Body: []byte(`{"challenge":"` + asked + `"}`)}, nil
		}, false},
		"failure": {func(asked string) (*engine.Outcome, error) {
			return &engine.Outcome{Status: 500, Body: []byte(`{"challenge":"` + asked + `"}`)}, nil
		}, false},
		"nobody": {func(string) (*engine.Outcome, error) { return nil, errors.New("refused") }, false},
		"broken": {func(asked string) (*engine.Outcome, error) {
			return &engine.Outcome{Status: 200, Body: []byte(`{"challenge":"` + asked + `"}`)}, errors.New("cut")
		}, false},
	}
	challenges := map[string]bool{}
	for name, c := range answers {
		var asked struct{ Type, Challenge string }
		w := newWorld(t, newSink(func(_ context.Context, e engine.Effect, _ int) (*engine.Outcome, error) {
			if err := json.Unmarshal(e.Body, &asked); err != nil {
				return nil, err
			}
			return c.answer(asked.Challenge)
		}))
		err := w.VerifyEndpoint(t.Context(), "tenant-a", "https://hooks.example.org/", standardSecret)
		if c.ok {
			require.NoError(t, err, name)
		} else {
			require.ErrorIs(t, err, webhook.ErrUnverified, name)
		}
		sent := w.sink.wait(1)
		require.Len(t, sent, 1, name)
		assert.Equal(t, "openwop.webhook.verification", asked.Type)
		assert.Regexp(t, "^[A-Za-z0-9_-]{43}$", asked.Challenge)
		assert.False(t, challenges[asked.Challenge])
		challenges[asked.Challenge] = true
		assert.Equal(t, standard(t, standardSecret, sent[0]), get(sent[0], "webhook-signature"))
		assert.Empty(t, get(sent[0], "OpenWOP-Event-Type"))
		assert.Len(t, sent[0].Header, 4)
	}
}
