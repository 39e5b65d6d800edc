package report

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"wopcert/harness"
)

// The HTTP archive format, version 1.2, with the members browsers add for event streams.
type (
	harFile struct {
		Log harLog `json:"log"`
	}
	harLog struct {
		Version string     `json:"version"`
		Creator harCreator `json:"creator"`
		Pages   []harPage  `json:"pages"`
		Entries []harEntry `json:"entries"`
	}
	harCreator struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	harPage struct {
		Started string   `json:"startedDateTime"`
		ID      string   `json:"id"`
		Title   string   `json:"title"`
		Timings struct{} `json:"pageTimings"`
	}
	harEntry struct {
		Page         string       `json:"pageref"`
		Started      string       `json:"startedDateTime"`
		Time         float64      `json:"time"`
		Request      harRequest   `json:"request"`
		Response     harResponse  `json:"response"`
		Cache        struct{}     `json:"cache"`
		Timings      harTimings   `json:"timings"`
		Comment      string       `json:"comment,omitempty"`
		ResourceType string       `json:"_resourceType,omitempty"`
		Messages     []harMessage `json:"_eventSourceMessages,omitempty"`
	}
	harRequest struct {
		Method      string     `json:"method"`
		URL         string     `json:"url"`
		HTTPVersion string     `json:"httpVersion"`
		Cookies     []struct{} `json:"cookies"`
		Headers     []harPair  `json:"headers"`
		Query       []harPair  `json:"queryString"`
		PostData    *harPost   `json:"postData,omitempty"`
		HeadersSize int        `json:"headersSize"`
		BodySize    int        `json:"bodySize"`
	}
	harResponse struct {
		Status      int        `json:"status"`
		StatusText  string     `json:"statusText"`
		HTTPVersion string     `json:"httpVersion"`
		Cookies     []struct{} `json:"cookies"`
		Headers     []harPair  `json:"headers"`
		Content     harContent `json:"content"`
		RedirectURL string     `json:"redirectURL"`
		HeadersSize int        `json:"headersSize"`
		BodySize    int        `json:"bodySize"`
		Error       string     `json:"_error,omitempty"`
	}
	harPair struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	harPost struct {
		MimeType string `json:"mimeType"`
		Text     string `json:"text"` // in place of params: the format has one or the other
	}
	harContent struct {
		Size     int    `json:"size"`
		MimeType string `json:"mimeType"`
		Text     string `json:"text,omitempty"`
		Encoding string `json:"encoding,omitempty"`
	}
	harTimings struct {
		Send    float64 `json:"send"`
		Wait    float64 `json:"wait"`
		Receive float64 `json:"receive"`
	}
	harMessage struct {
		Time      float64 `json:"time"` // seconds since the epoch
		EventName string  `json:"eventName"`
		EventID   string  `json:"eventId"`
		Data      string  `json:"data"`
	}
)

// harVersion is what HAR asks for and the capture does not keep.
const harVersion = "HTTP/1.1"

// HAR writes the exchanges of one scenario, a page per test. A capture file that cannot be read is named in the
// archive's own words and costs no other one.
func (e *Evidence) HAR(w io.Writer, scenario string) error {
	tapes, err := e.Tapes(scenario)
	file := harFile{Log: harLog{Version: "1.2", Creator: harCreator{Name: "wopcert", Version: Clean(e.Results.Suite)}, Pages: []harPage{}, Entries: []harEntry{}}}
	if err != nil {
		file.Log.Pages = append(file.Log.Pages, harPage{ID: "unreadable", Title: Clean(err.Error()), Started: harTime(e.GeneratedAt)})
	}
	for i, tape := range tapes {
		page := harPage{ID: fmt.Sprintf("test-%d", i+1), Title: tape.Scenario + ": " + tape.Test, Started: harTime(e.GeneratedAt)}
		if len(tape.Exchanges) > 0 {
			page.Started = harTime(tape.Exchanges[0].Started)
		}
		file.Log.Pages = append(file.Log.Pages, page)
		for _, x := range tape.Exchanges {
			file.Log.Entries = append(file.Log.Entries, harOf(page.ID, x))
		}
	}
	return json.NewEncoder(w).Encode(file) // not indented: an archive is large, and for programs to read
}

func harTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func harOf(page string, x harness.Exchange) harEntry {
	request, response := pairs(x.Request.Headers), pairs(x.Response.Headers)
	entry := harEntry{
		Page: page, Started: harTime(x.Started), Time: x.Millis,
		Request: harRequest{
			Method: x.Method, URL: x.URL, HTTPVersion: harVersion, Cookies: []struct{}{}, Headers: request, Query: query(x.URL),
			HeadersSize: -1, BodySize: size(x.Request),
		},
		Response: harResponse{
			Status: x.Status, StatusText: http.StatusText(x.Status), HTTPVersion: harVersion, Cookies: []struct{}{}, Headers: response,
			Content: harContent{Size: size(x.Response), MimeType: header(response, "Content-Type"), Text: x.Response.Body, Encoding: x.Response.Encoding},
			// The archive wants a number where nothing was measured: -1.
			RedirectURL: header(response, "Location"), HeadersSize: -1, BodySize: -1, Error: x.Error,
		},
		Timings: harTimings{Send: 0, Wait: x.Millis, Receive: 0},
	}
	if x.Request.Body != "" {
		entry.Request.PostData = &harPost{MimeType: header(request, "Content-Type"), Text: x.Request.Body}
		if x.Request.Encoding != "" {
			entry.Comment = "the request body is in " + x.Request.Encoding + ". "
		}
	}
	if x.Inbound {
		entry.Comment += "a call of the host to the suite's receiver"
	}
	if x.Stream != nil {
		entry.stream(x)
	}
	return entry
}

// stream adds the frames, as messages and as the body they were.
func (entry *harEntry) stream(x harness.Exchange) {
	entry.ResourceType = "eventsource"
	entry.Time = max(entry.Time, x.Stream.ClosedMs)
	entry.Timings.Receive = max(entry.Time-x.Millis, 0)
	var body strings.Builder
	for _, frame := range x.Stream.Frames {
		raw := frameText(frame)
		body.WriteString(raw)
		name, id, data := fields(raw)
		entry.Messages = append(entry.Messages, harMessage{
			Time: float64(x.Started.UnixMicro())/1e6 + frame.AtMs/1e3, EventName: name, EventID: id, Data: data,
		})
	}
	body.WriteString(x.Stream.Tail)
	entry.Response.Content.Text, entry.Response.Content.Size = body.String(), body.Len()
}

// fields reads the fields of a frame for show; a comment is data that begins with a colon.
func fields(raw string) (name, id, data string) {
	name = "message"
	var lines []string
	for _, line := range strings.FieldsFunc(raw, func(r rune) bool { return r == '\n' || r == '\r' }) {
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			name = value
		case "id":
			id = value
		case "data":
			lines = append(lines, value)
		case "":
			lines = append(lines, line)
		}
	}
	return name, id, strings.Join(lines, "\n")
}

// size is how many bytes were kept of a body.
func size(m harness.Message) int {
	if m.Encoding == "base64" {
		return base64.StdEncoding.DecodedLen(len(strings.TrimRight(m.Body, "=")))
	}
	return len(m.Body)
}

func pairs(headers []string) []harPair {
	out := make([]harPair, 0, len(headers))
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		out = append(out, harPair{name, value})
	}
	return out
}

func header(headers []harPair, name string) string {
	for _, h := range headers {
		if strings.EqualFold(h.Name, name) {
			return h.Value
		}
	}
	return ""
}

func query(raw string) []harPair {
	out := []harPair{}
	u, err := url.Parse(raw)
	if err != nil {
		return out
	}
	for part := range strings.SplitSeq(u.RawQuery, "&") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		out = append(out, harPair{unescape(name), unescape(value)})
	}
	return out
}

func unescape(text string) string {
	if plain, err := url.QueryUnescape(text); err == nil {
		return plain
	}
	return text
}
