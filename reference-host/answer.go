package referencehost

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// answer is a whole response, so that it can be stored and replayed (idempotency.md §Layer 1).
type answer struct {
	status int
	header http.Header
	body   []byte
}

// contentTypeJSON is shared by every JSON answer; nobody changes it.
const contentTypeJSON = "application/json"

func jsonAnswer(status int, value any) *answer {
	body, err := encode(value)
	if err != nil {
		// Every value is made of text, numbers and JSON that was decoded before.
		panic(err)
	}
	return rawAnswer(status, body)
}

func rawAnswer(status int, body []byte) *answer {
	return &answer{status: status, header: http.Header{"Content-Type": {contentTypeJSON}}, body: body}
}

// encode is json.Marshal without the HTML escapes.
func encode(value any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), nil
}

func (a *answer) write(w http.ResponseWriter, head bool) {
	header := w.Header()
	for name, values := range a.header {
		if name == "Vary" {
			values = append(header[name], values...)
		}
		header[name] = values
	}
	if a.status != http.StatusNotModified {
		header.Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(a.status)
	if !head && a.status != http.StatusNotModified {
		_, _ = w.Write(a.body) // the reader is gone: there is nobody to tell
	}
}

// conditional turns a 200 with this entity tag into a 304 when the request names the tag.
func (a *answer) conditional(r *http.Request, etag string) *answer {
	a.header.Set("ETag", etag)
	if a.status == http.StatusOK && matchesETag(r.Header.Values("If-None-Match"), etag) {
		a.status, a.body = http.StatusNotModified, nil
		a.header.Del("Content-Type")
	}
	return a
}

// matchesETag is the weak comparison of RFC 9110 §13.1.2.
func matchesETag(fields []string, etag string) bool {
	for _, field := range fields {
		for candidate := range strings.SplitSeq(field, ",") {
			candidate = strings.TrimSpace(candidate)
			if candidate == "*" || strings.TrimPrefix(candidate, "W/") == etag {
				return true
			}
		}
	}
	return false
}

// minCompressed is the size below which gzip makes a body no smaller.
const minCompressed = 1024

// compressible codes the body when the request admits gzip (runs.md §Caching and encoding).
func (a *answer) compressible(r *http.Request, writers *sync.Pool) *answer {
	a.header.Add("Vary", "Accept-Encoding")
	if a.status != http.StatusOK || len(a.body) < minCompressed || !admitsGzip(r.Header.Values("Accept-Encoding")) {
		return a
	}
	var buffer bytes.Buffer
	writer := writers.Get().(*gzip.Writer)
	defer writers.Put(writer)
	writer.Reset(&buffer)
	if _, err := writer.Write(a.body); err != nil || writer.Close() != nil {
		return a
	}
	a.body = buffer.Bytes()
	a.header.Set("Content-Encoding", "gzip")
	return a
}

// admitsGzip reads Accept-Encoding (RFC 9110 §12.5.3): gzip, or * where gzip is not named, with a weight above 0.
func admitsGzip(fields []string) bool {
	wildcard := false
	for _, field := range fields {
		for item := range strings.SplitSeq(field, ",") {
			coding, parameters, _ := strings.Cut(item, ";")
			admitted := true
			if name, value, ok := strings.Cut(strings.TrimSpace(parameters), "="); ok && strings.EqualFold(strings.TrimSpace(name), "q") {
				weight, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
				admitted = err == nil && weight > 0
			}
			switch coding = strings.TrimSpace(coding); {
			case strings.EqualFold(coding, "gzip"), strings.EqualFold(coding, "x-gzip"):
				return admitted
			case coding == "*":
				wildcard = admitted
			}
		}
	}
	return wildcard
}
