package sse

import "bytes"

// Message adds an event without an id: one that cannot be resumed from. event must be free of line ends.
func (s *Writer) Message(event string, data []byte) {
	s.buffer = append(s.buffer, "event: "...)
	s.buffer = append(s.buffer, event...)
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		s.buffer = append(s.buffer, "\ndata: "...)
		s.buffer = append(s.buffer, line...)
	}
	s.buffer = append(s.buffer, "\n\n"...)
}
