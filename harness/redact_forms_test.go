package harness

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/harness/sse"
)

const echoed = "wop_test_q7xk2mvzp4tdr9ycn5hw8j"

// A host can echo a key in any spelling; none of them is kept.
func TestNoSpellingOfAKeyIsKept(t *testing.T) {
	t.Parallel()
	r := newRedactor(map[string]string{"primary-key": echoed})
	escapeAll, percentAll := "", ""
	for _, c := range []byte(echoed) {
		escapeAll += fmt.Sprintf(`\u%04X`, c)
		percentAll += fmt.Sprintf("%%%02x", c)
	}
	half := len(echoed) / 2
	for name, text := range map[string]string{
		"plain":                echoed,
		"in a word":            "x" + echoed + "y",
		"upper case":           strings.ToUpper(echoed),
		"as a header name":     http.CanonicalHeaderKey(echoed),
		"hex":                  hex.EncodeToString([]byte(echoed)),
		"base64":               base64.StdEncoding.EncodeToString([]byte(echoed)),
		"base64 of the header": base64.StdEncoding.EncodeToString([]byte("Bearer " + echoed)),
		"base64, one before":   base64.URLEncoding.EncodeToString([]byte("x" + echoed + "zz")),
		"base64, two before":   base64.RawURLEncoding.EncodeToString([]byte("xy" + echoed + "z")),
		"every character":      escapeAll,
		"one character":        `{"a":"wop\u005F` + echoed[4:] + `"}`,
		"percent":              percentAll,
		"query":                url.QueryEscape(echoed),
		"two array members":    `["` + echoed[:half] + `","` + echoed[half:] + `"]`,
		"two data lines":       "data: " + echoed[:half] + "\ndata: " + echoed[half:] + "\n\n",
		"two comment lines":    ": " + echoed[:half] + "\r\n: " + echoed[half:] + "\r\n\r\n",
		"two lines":            echoed[:half] + "\n" + echoed[half:],
	} {
		kept := r.text(text)
		assert.NotEqual(t, text, kept, name)
		assert.True(t, strings.Contains(kept, "redacted") || kept == withheld, "%s: %s", name, kept)
	}
	for _, harmless := range []string{"", "{}", `{"a":"\u00e9","b":"100%"}`, "data: {}\n\n", "wop_test_", strings.Repeat("eyJ", 50)} {
		assert.Equal(t, harmless, r.text(harmless))
	}
}

// Frames that each look harmless are withheld when together they spell a key.
func TestAKeyDividedOverFramesIsNotKept(t *testing.T) {
	t.Parallel()
	c := &Capture{redact: newRedactor(map[string]string{"primary-key": echoed})}
	tp := c.tape("s", "t")
	tp.exchanges = []Exchange{{Number: 1}}
	s := &Stream{closure: ClosedByHost, ended: time.Now()}
	half := len(echoed) / 2
	s.reader = sse.Reader{}
	s.reader.Feed([]byte("data: "+echoed[:half]+"\n\ndata: "+echoed[half:]+"\n\n"), time.Now())
	tp.open.Add(1)
	tp.streamed(1, s)
	require.Len(t, tp.exchanges[0].Stream.Frames, 2)
	for _, f := range tp.exchanges[0].Stream.Frames {
		assert.Equal(t, withheld, f.Raw)
	}
}
