package harness

import (
	"io"
	"log"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

func TestChecks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		check Check
		want  Check
	}{
		{"that", That(true, "e", "o %d", 3), Check{OK: true, Expected: "e", Observed: "o 3"}},
		{"that without arguments keeps a percent sign", That(false, "e", "100%"), Check{Expected: "e", Observed: "100%"}},
		{"equal", Equal("n", 3, 3), Check{OK: true, Expected: "n 3", Observed: "n 3"}},
		{"not equal", Equal("n", "a", nil), Check{Expected: `n "a"`, Observed: "n absent"}},
		{"types count", Equal("n", "3", 3), Check{Expected: `n "3"`, Observed: "n 3"}},
		{"one of", OneOf("s", "b", "a", "b"), Check{OK: true, Expected: `s one of "a", "b"`, Observed: `s "b"`}},
		{"none of", OneOf("s", "c", "a", "b"), Check{Expected: `s one of "a", "b"`, Observed: `s "c"`}},
		{"all", All(That(true, "1", "1"), That(true, "2", "2")), Check{OK: true, Expected: "2", Observed: "2"}},
		{"the first that does not hold", All(That(true, "1", "1"), That(false, "2", "2"), That(false, "3", "3")), Check{Expected: "2", Observed: "2"}},
		{"all of nothing is not OK", All(), Check{}},
	} {
		assert.Equal(t, c.want, c.check, c.name)
	}
	assert.LessOrEqual(t, len(Equal("x", strings.Repeat("ü", 400), "").Expected), 310, "long values are cut")
}

func TestResponseChecks(t *testing.T) {
	t.Parallel()
	host := newHost(t, nil, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Two", "a")
		w.Header().Add("X-Two", "b")
		status, body := 400, ""
		switch r.URL.Path {
		case "/good":
			body = `{"error":"validation_error","message":"m"}`
		case "/status":
			status, body = 422, `{"error":"validation_error","message":"m"}`
		case "/code":
			body = `{"error":"not_found","message":"m"}`
		case "/open":
			body = `{"error":"validation_error","message":"m","extra":1}`
		case "/silent":
			body = `{"error":"validation_error"}`
		case "/twice":
			body = `{"error":"validation_error","message":"m","message":"n"}`
		case "/html":
			w.Header().Set("Content-Type", "text/html")
			body = "<p>validation_error</p>"
		case "/array":
			body = `["validation_error"]`
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	})
	during(t, host, Credentials{}, func(tt *T) {
		get := func(path string) *Response { return tt.Do(Request{Path: path}) }
		assert.True(t, get("/good").Refuses("validation_error").OK)
		for _, path := range []string{"/status", "/code", "/open", "/silent", "/twice", "/html", "/array", "/empty"} {
			c := get(path).Refuses("validation_error")
			assert.False(t, c.OK, path)
			assert.Equal(t, "400 validation_error in the error envelope", c.Expected)
		}
		assert.Equal(t, "422 validation_error", get("/status").Refuses("validation_error").Observed)
		assert.Equal(t, "400 text/html", get("/html").Refuses("validation_error").Observed)
		unregistered := get("/good").Refuses("no_such_code")
		assert.False(t, unregistered.OK)
		assert.Contains(t, unregistered.Observed, "not registered")

		good := get("/good")
		assert.True(t, good.Is(400).OK)
		assert.False(t, good.Is(200).OK)
		assert.Equal(t, "400 validation_error", good.Is(200).Observed)
		assert.Equal(t, "m", good.Text("message"))
		assert.Empty(t, good.Text("message", "deeper"))
		assert.Nil(t, good.Get("absent"))
		assert.True(t, good.Valid("error-envelope").OK)
		assert.False(t, good.Valid("run-snapshot").OK)
		assert.Contains(t, get("/html").Valid("error-envelope").Observed, "not I-JSON")
		assert.True(t, good.HeaderIs("x-two", "a").OK)
		assert.Equal(t, "X-Two: a, b", good.HeaderIs("X-Two", "c").Observed)
		assert.Equal(t, "no X-None header", good.HeaderIs("X-None", "c").Observed)
		require.NotNil(t, good.URL())
		assert.Equal(t, "/good", good.URL().Path)
	})
}
