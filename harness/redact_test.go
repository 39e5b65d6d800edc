package harness

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRedactorForms(t *testing.T) {
	t.Parallel()
	key := `k"<y>/+ &%é-primary`
	r := newRedactor(map[string]string{"primary-key": key, "empty": ""})
	quoted, err := json.Marshal(key)
	require.NoError(t, err)
	for _, form := range []string{
		key,
		url.QueryEscape(key),
		url.PathEscape(key),
		strings.ReplaceAll(url.QueryEscape(key), "%2F", "%2f"),
		string(quoted[1 : len(quoted)-1]),
		`k\"<y>\/+ &%é-primary`,
		base64.StdEncoding.EncodeToString([]byte(key)),
		base64.RawURLEncoding.EncodeToString([]byte(key)),
	} {
		if strings.Contains(form, "%2f") {
			form = strings.ToLower(strings.ReplaceAll(form, "é", "é"))
		}
		got := r.text("a " + form + " z")
		assert.Equal(t, "a [redacted:primary-key] z", got, "%q", form)
	}
	assert.Empty(t, r.text(""))
	assert.Equal(t, "nothing", r.text("nothing"), "an empty secret replaces nothing")
}

func TestRedactorPrefersTheLonger(t *testing.T) {
	t.Parallel()
	r := newRedactor(map[string]string{"a": "secret-key", "b": "secret-key-longer"})
	assert.Equal(t, "[redacted:b] [redacted:a]", r.text("secret-key-longer secret-key"))
}

func TestRedactorMintedSecrets(t *testing.T) {
	t.Parallel()
	r := newRedactor(nil)
	assert.Equal(t, `{"token":"[redacted:minted-secret]"}`, r.text(`{"token":"ow2.hs256.legacy.eyJhIjoxfQ.c2lnbmF0dXJl"}`))
	assert.Equal(t, "[redacted:minted-secret]", r.text("whsec_0123456789abcdefABCDEF+/=="))
	assert.Equal(t, "ow2.hs256", r.text("ow2.hs256"))
}

// A host that echoes every credential it is sent, in every place it can: none
// may be found in anything the run hands out.
func TestNothingKeptHoldsACredential(t *testing.T) {
	t.Parallel()
	keys := Credentials{Primary: "primary-k&y<1>/x", OtherTenant: "other-tenant-key-22", ReadOnly: "read-only-key-333"}
	canary := "canary-4444-value"
	all := []string{keys.Primary, keys.OtherTenant, keys.ReadOnly, canary}
	host := newHost(t, nil, func(w http.ResponseWriter, r *http.Request) {
		for i, k := range all {
			w.Header().Set(fmt.Sprintf("X-Echo-%d", i), "got "+k+" and "+url.QueryEscape(k))
			http.SetCookie(w, &http.Cookie{Name: fmt.Sprintf("c%d", i), Value: "session-secret"})
		}
		body, _ := json.Marshal(map[string]any{"error": all[0], "echo": all, "b64": base64.StdEncoding.EncodeToString([]byte(all[1]))})
		switch r.URL.Path {
		case "/stream":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, ": hi %s\n\nid: %s\nevent: e\ndata: %s\n\nretry: 5\ndata: tail %s", all[3], all[1], body, all[2])
		case "/broken":
			w.Header().Set("Location", "http://elsewhere.invalid/?key="+url.QueryEscape(all[0]))
			w.WriteHeader(http.StatusFound)
		case "/binary":
			_, _ = w.Write(append([]byte{0xff, 0xfe}, all[0]...))
		case "/large":
			_, _ = w.Write([]byte(strings.Repeat("x", maxKept-5) + all[1] + strings.Repeat("y", 100)))
		default:
			_, _ = w.Write(body)
		}
	})
	results := measure(t, Options{BaseURL: host.URL, Credentials: keys, Canaries: map[string]string{"canary": canary}, Scenarios: []Scenario{oneTest(func(tt *T) {
		for i, who := range []Identity{Primary, OtherTenant, ReadOnly, Anonymous, Unknown} {
			r := tt.Do(Request{Method: "POST", Path: "/x/" + url.PathEscape(all[i%4]), Query: url.Values{"k": {all[i%4]}},
				Header: http.Header{"X-Sent": {all[i%4]}}, Body: map[string]any{"k": all[i%4]}, As: who})
			tt.Expect(idA, Equal("body", "else", string(r.Body)))
			tt.Expect(idA, r.HeaderIs("X-Echo-0", "else"))
			tt.Expect(idA, r.Refuses("validation_error"))
		}
		for _, path := range []string{"/broken", "/binary", "/large"} {
			tt.Expect(idA, tt.Do(Request{Path: path}).Is(418))
		}
		s := tt.Stream(Request{Path: "/stream"})
		for _, f := range s.Collect(nil, settleTime) {
			tt.Expect(idA, Equal("data", "else", f.Data))
		}
		tt.Expect(idA, tt.Do(Request{Path: "http://elsewhere.invalid/" + url.PathEscape(all[0])}).Is(200))
		tt.Should(idB, That(false, all[1], "%s", all[2]))
		tt.Blocked(idB, "lack of %s", all[0])
		tt.Abort("cannot go on: %s", all[3])
	}, idA, idB)}})

	kept, err := json.Marshal(map[string]any{
		"tapes": results.Capture.Tests(), "discovery": results.Capture.DiscoveryExchange(), "rows": results.Rows,
		"failures": results.Failures, "tests": results.Tests, "faults": results.SuiteFaults,
	})
	require.NoError(t, err)
	var plain strings.Builder // the strings themselves, so that JSON's escapes hide nothing
	var walk func(any)
	walk = func(v any) {
		switch x := v.(type) {
		case string:
			plain.WriteString(x + "\n")
			if raw, err := base64.StdEncoding.DecodeString(x); err == nil {
				plain.Write(raw)
			}
		case []any:
			for _, e := range x {
				walk(e)
			}
		case map[string]any:
			for k, e := range x {
				walk(k)
				walk(e)
			}
		}
	}
	var decoded any
	require.NoError(t, json.Unmarshal(kept, &decoded))
	walk(decoded)
	text := plain.String()
	for i, secret := range all {
		for _, form := range wireForms(secret) {
			assert.NotContains(t, text, form, "secret %d", i)
		}
	}
	assert.NotContains(t, text, "session-secret")
	assert.NotContains(t, text, "Bearer")
	assert.Contains(t, text, "[redacted:primary-key]")
	assert.Contains(t, text, "[redacted:canary]")
	require.Len(t, results.Capture.Tests(), 1)
	require.Len(t, results.Capture.Tests()[0].Exchanges, 9)
	require.NotNil(t, results.Capture.Tests()[0].Exchanges[8].Stream)
}

// Wherever a cut falls, no part of a secret is left at the end of what is kept.
func TestCutsLeaveNoPartOfASecret(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("secret-", 6)
	r := newRedactor(map[string]string{"k": key})
	for _, filler := range []string{"x", key} { // with many replacements the text shrinks
		for shift := 0; shift < len(key); shift += 5 {
			body := strings.Repeat("y", shift) + strings.Repeat(filler, (maxKept+2*r.margin)/len(filler))
			body = body[:maxKept+r.margin-len(key)/2] + key + strings.Repeat("z", 3*r.margin)
			text, encoding := r.body([]byte(body))
			require.Empty(t, encoding)
			require.LessOrEqual(t, len(text), maxKept+100)
			require.NotContains(t, text, "secret", "shift %d", shift)
		}
	}
	whole, _ := r.body([]byte(strings.Repeat("x", maxKept)))
	assert.Len(t, whole, maxKept, "what fits is kept whole")
}

func TestCredentialsDoNotPrint(t *testing.T) {
	t.Parallel()
	c := Credentials{Primary: "p-key-1", OtherTenant: "o-key-1", ReadOnly: "r-key-1"}
	for _, s := range []string{fmt.Sprint(c), fmt.Sprintf("%v %+v %#v %s", c, c, c, c), fmt.Sprintf("%v", Options{Credentials: c}), fmt.Sprintf("%#v", Options{Credentials: c})} {
		assert.NotContains(t, s, "-key-1")
	}
}

// Where nothing is kept the exchanges are counted, and secrets that a host hands over
// are still learned.
func TestUnrecorded(t *testing.T) {
	t.Parallel()
	host := newHost(t, nil, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"secret":"made-by-the-host-itself"}`)
	})
	var carries bool
	r := measure(t, Options{BaseURL: host.URL, Unrecorded: true, Scenarios: []Scenario{oneTest(func(tt *T) {
		tt.Do(Request{Path: "/hooks"})
		second := tt.Do(Request{Path: "/again"})
		carries = tt.Carries("so it says made-by-the-host-itself")
		tt.Expect(idA, That(false, "a", "b").At(second))
	})}})
	assert.True(t, carries)
	require.Len(t, r.Failures, 1)
	assert.Equal(t, 2, r.Failures[0].Exchange)
	for _, tape := range r.Capture.Tests() {
		for _, e := range tape.Exchanges {
			assert.Empty(t, e.URL+e.Request.Body+e.Response.Body)
		}
	}
}
