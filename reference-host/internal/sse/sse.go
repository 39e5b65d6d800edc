// Package sse writes Server-Sent Events (WHATWG HTML §9.2) so that a slow or vanished reader costs only itself: frames
// are gathered into one buffer, and each write has a deadline.
package sse

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// ContentType is the media type of a stream.
const ContentType = "text/event-stream"

// flushAt is the buffer size at which frames are written without waiting for the rest of the backlog.
const flushAt = 32 << 10

// Writer gathers frames and writes them. It is for one goroutine.
type Writer struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	buffer  []byte
}

// Start writes the head of the response and returns the Writer for its body.
func Start(w http.ResponseWriter, timeout time.Duration) (*Writer, error) {
	header := w.Header()
	header.Set("Content-Type", ContentType)
	header.Set("Cache-Control", "no-store")
	header.Set("Connection", "close") // the end of the stream is the end of the connection (events.md §SSE frames)
	s := &Writer{w: w, control: http.NewResponseController(w), timeout: timeout}
	w.WriteHeader(http.StatusOK)
	return s, s.Flush()
}

// Frame adds one event. event and data must be free of line ends, except that data may hold LF.
func (s *Writer) Frame(id int64, event string, data []byte) error {
	s.buffer = append(s.buffer, "id: "...)
	s.buffer = strconv.AppendInt(s.buffer, id, 10)
	s.buffer = append(s.buffer, "\nevent: "...)
	s.buffer = append(s.buffer, event...)
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		s.buffer = append(s.buffer, "\ndata: "...)
		s.buffer = append(s.buffer, line...)
	}
	s.buffer = append(s.buffer, "\n\n"...)
	if len(s.buffer) >= flushAt {
		return s.Flush()
	}
	return nil
}

// Comment adds a comment, which clients ignore and proxies do not.
func (s *Writer) Comment(text string) {
	s.buffer = append(s.buffer, ": "...)
	s.buffer = append(s.buffer, text...)
	s.buffer = append(s.buffer, "\n\n"...)
}

// Flush writes what was added. A reader that does not take it within the timeout is given up.
func (s *Writer) Flush() error {
	if err := s.control.SetWriteDeadline(time.Now().Add(s.timeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if len(s.buffer) > 0 {
		if _, err := s.w.Write(s.buffer); err != nil {
			return err
		}
		s.buffer = s.buffer[:0]
	}
	return s.control.Flush()
}
