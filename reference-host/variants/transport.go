package variants

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

// respaced writes a JSON value in another legal way: members in descending
// order, white space between tokens, and escapes where a string does not need
// them.
func respaced(data []byte) string {
	var b strings.Builder
	writeValue(&b, tamper.Decode(data), "\n")
	return b.String()
}

func writeValue(b *strings.Builder, v any, indent string) {
	deeper := indent + "\t "
	switch x := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(x))
		for name := range x {
			names = append(names, name)
		}
		slices.Sort(names)
		slices.Reverse(names)
		b.WriteString("{")
		for i, name := range names {
			if i > 0 {
				b.WriteString(" ,")
			}
			b.WriteString(deeper)
			writeString(b, name)
			b.WriteString(" : ")
			writeValue(b, x[name], deeper)
		}
		b.WriteString(indent + "}")
	case []any:
		b.WriteString("[")
		for i, e := range x {
			if i > 0 {
				b.WriteString(",")
			}
			b.WriteString(deeper)
			writeValue(b, e, deeper)
		}
		b.WriteString(" ]")
	case string:
		writeString(b, x)
	case json.Number:
		b.WriteString(x.String())
	default:
		b.Write(tamper.Encode(v))
	}
}

// writeString escapes what is beyond ASCII and every slash.
func writeString(b *strings.Builder, s string) {
	const hex = "0123456789ABCDEF"
	quoted := string(tamper.Encode(s))
	for _, r := range quoted {
		switch {
		case r == '/':
			b.WriteString(`\/`)
		case r < 0x80:
			b.WriteRune(r)
		default:
			for _, u := range utf16Units(r) {
				b.WriteString(`\u`)
				for shift := 12; shift >= 0; shift -= 4 {
					b.WriteByte(hex[u>>shift&0xF])
				}
			}
		}
	}
}

func utf16Units(r rune) []uint16 {
	if r < 0x10000 {
		return []uint16{uint16(r)}
	}
	r -= 0x10000
	return []uint16{0xD800 + uint16(r>>10), 0xDC00 + uint16(r&0x3FF)}
}

// headers edits the headers of every answer.
func headers(edit func(h http.Header)) tamper.Middleware {
	return tamper.Answers(tamper.Any, func(_ *http.Request, a *tamper.Answer) { edit(a.Header) })
}

func transportVariants() []Variant {
	const http9110, http9112, json8259 = "RFC 9110", "RFC 9112", "RFC 8259"
	return []Variant{
		grant("json-respaced", json8259, "2. JSON Grammar", "Bodies have white space, another order of members and escapes.",
			tamper.Answers(tamper.Any, func(_ *http.Request, a *tamper.Answer) {
				if _, ok := a.JSON(); ok {
					a.Body = []byte(" \r\n" + respaced(a.Body) + "\n\n")
				}
			})),
		grant("json-charset", json8259, "11. IANA Considerations", "The type of a body names its character set.",
			headers(func(h http.Header) {
				if h.Get("Content-Type") == "application/json" {
					h.Set("Content-Type", "Application/JSON; charset=utf-8")
				}
			})),
		grant("header-case", http9110, "5.1. Field Names", "Names of headers are in lower case.",
			headers(func(h http.Header) {
				for name, values := range h {
					if lower := strings.ToLower(name); lower != name && name != "Content-Length" && name != "Content-Type" {
						delete(h, name)
						h[lower] = values
					}
				}
			})),
		grant("extra-headers", http9110, "5.1. Field Names", "Answers carry headers of other specifications.",
			headers(func(h http.Header) {
				h.Set("Server", "wonder/1.0")
				h.Set("X-Request-Id", "3f2c")
				h.Set("Strict-Transport-Security", "max-age=1")
				h.Set("RateLimit", `"default";r=50;t=30`)
				h.Add("Set-Cookie", "lb=1; Path=/")
				h.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
			})),
		grant("gzip-when-asked", "runs.md", "Caching and encoding", "Bodies are compressed for a client that asks for it.", tamper.Gzip(tamper.Any)).
			opening(requirements.RunsCompressedEncoding),
		grant("content-encoding-identity", http9110, "8.4. Content-Encoding", "Answers say that they are not encoded.",
			headers(func(h http.Header) { h.Set("Content-Encoding", "identity") })),
		grant("split-bytes", http9112, "7.1. Chunked Transfer Coding", "Everything is sent byte by byte.", tamper.Split(tamper.Any, 1, 0)),
		grant("slow-bytes", http9112, "7.1. Chunked Transfer Coding", "Everything is sent slowly, in small pieces.", tamper.Split(tamper.Any, 96, time.Millisecond)),
		grant("slow-answers", "runs.md", "Surface", "Every answer takes a while.",
			tamper.Instead(tamper.Any, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				tamper.Pause(r.Context(), 40*time.Millisecond)
				next.ServeHTTP(w, r)
			})),
		grant("connection-close", http9112, "9.6. Tear-down", "Every connection is closed after one answer.",
			headers(func(h http.Header) { h.Set("Connection", "close") })),
		{
			ID: "base-path", Document: "runs.md", Section: "Response",
			Summary: "The host is served below a path, and its links say so.", BasePath: "/api/openwop",
			Wrap: mounted("/api/openwop"),
		},
	}
}

// mounted serves the host below a path. What is outside belongs to somebody
// else.
func mounted(base string) tamper.Middleware {
	return func(next http.Handler) http.Handler {
		inner := relinked(func(_, path string) string { return base + path })(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rest, ok := strings.CutPrefix(r.URL.EscapedPath(), base)
			if !ok || !strings.HasPrefix(rest, "/") {
				http.Error(w, "another site", http.StatusNotFound)
				return
			}
			r = r.Clone(r.Context())
			tamper.SetPath(r, rest)
			inner.ServeHTTP(w, r)
		})
	}
}
