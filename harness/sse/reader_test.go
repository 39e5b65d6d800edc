package sse

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// read feeds chunks one by one, each a second after the one before.
func read(chunks ...string) *Reader {
	r := &Reader{}
	for i, c := range chunks {
		r.Feed([]byte(c), at.Add(time.Duration(i)*time.Second))
	}
	return r
}

func TestFields(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		stream string
		want   Frame
	}{
		{"all fields", "id: 7\nevent: run.started\ndata: {}\nretry: 1500\n\n",
			Frame{ID: "7", HasID: true, Event: "run.started", HasEvent: true, Data: "{}", HasData: true, Retry: 1500 * time.Millisecond, HasRetry: true}},
		{"no space after the colon", "data:x\n\n", Frame{Data: "x", HasData: true}},
		{"one space is stripped, not two", "data:  x\n\n", Frame{Data: " x", HasData: true}},
		{"a tab is not stripped", "data:\tx\n\n", Frame{Data: "\tx", HasData: true}},
		{"a colon in the value", "data: a:b\n\n", Frame{Data: "a:b", HasData: true}},
		{"a field without a colon", "data\n\n", Frame{HasData: true}},
		{"two data fields", "data: a\ndata: b\n\n", Frame{Data: "a\nb", HasData: true}},
		{"three empty data fields", "data\ndata\ndata\n\n", Frame{Data: "\n\n", HasData: true}},
		{"an empty id is an id", "id\ndata: x\n\n", Frame{HasID: true, Data: "x", HasData: true}},
		{"the last id counts", "id: 1\nid: 2\ndata: x\n\n", Frame{ID: "2", HasID: true, Data: "x", HasData: true}},
		{"an id with NUL is no id", "id: 1\x002\ndata: x\n\n", Frame{Data: "x", HasData: true}},
		{"an id with NUL leaves the id before it", "id: 1\nid: \x00\ndata: x\n\n", Frame{ID: "1", HasID: true, Data: "x", HasData: true}},
		{"the last event counts", "event: a\nevent: b\ndata: x\n\n", Frame{Event: "b", HasEvent: true, Data: "x", HasData: true}},
		{"retry of digits alone", "retry: 10x\ndata: x\n\n", Frame{Data: "x", HasData: true}},
		{"no signed retry", "retry: +10\ndata: x\n\n", Frame{Data: "x", HasData: true}},
		{"no negative retry", "retry: -10\ndata: x\n\n", Frame{Data: "x", HasData: true}},
		{"no empty retry", "retry:\ndata: x\n\n", Frame{Data: "x", HasData: true}},
		{"names are case-sensitive", "Data: a\nDATA: b\ndata: x\n\n", Frame{Data: "x", HasData: true}},
		{"a space before the colon is part of the name", "data : a\ndata: x\n\n", Frame{Data: "x", HasData: true}},
		{"unknown fields are ignored", "wopcert: a\ndata: x\n\n", Frame{Data: "x", HasData: true}},
		{"an id alone", "id: 3\n\n", Frame{ID: "3", HasID: true}},
		{"an event alone", "event: ping\n\n", Frame{Event: "ping", HasEvent: true}},
		{"a byte order mark at the start", "\xEF\xBB\xBFdata: x\n\n", Frame{Data: "x", HasData: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := read(c.stream)
			require.Len(t, r.Frames(), 1)
			c.want.Raw, c.want.At = []byte(c.stream), at
			assert.Equal(t, c.want, r.Frames()[0])
			assert.Empty(t, r.Tail())
			assert.Equal(t, len(c.stream), r.Size())
		})
	}
}

func TestByteOrderMarkCountsOnlyAtTheStart(t *testing.T) {
	t.Parallel()
	r := read("data: a\n\n\xEF\xBB\xBFdata: b\n\n\xEF\xBB\xBF\xEF\xBB\xBFdata: c\n\n")
	require.Len(t, r.Frames(), 1, "a later mark is part of a field name nobody knows")
	assert.Equal(t, "a", r.Frames()[0].Data)
	assert.Empty(t, read("\xEF\xBB\xBF\xEF\xBB\xBFdata: x\n\n").Frames(), "only one mark is stripped")
	assert.Len(t, read("\xEF\xBB\xBF\n\ndata: x\n\n").Frames(), 1, "a line with the mark alone is blank")
}

func TestIDsAreNotInherited(t *testing.T) {
	t.Parallel()
	r := read("id: 1\ndata: a\n\ndata: b\n\n")
	require.Len(t, r.Frames(), 2)
	assert.True(t, r.Frames()[0].HasID)
	assert.False(t, r.Frames()[1].HasID)
	assert.Empty(t, r.Frames()[1].ID)
}

func TestDispatches(t *testing.T) {
	t.Parallel()
	for stream, want := range map[string]bool{
		"data: x\n\n":     true,
		"data\n\n":        true,
		"id: 1\n\n":       false,
		"event: x\n\n":    false,
		"retry: 10\n\n":   false,
		": comment\n\n":   false,
		"id: 1\ndata\n\n": true,
	} {
		r := read(stream)
		require.Len(t, r.Frames(), 1, "%q", stream)
		assert.Equal(t, want, r.Frames()[0].Dispatches(), "%q", stream)
	}
}

// A stream in each of the three line ends, at every split, gives the same
// fields, and raw bytes that are exactly those sent.
func TestLineEndsAtEverySplit(t *testing.T) {
	t.Parallel()
	lines := []string{": hello", "", "id: 1", "event: a", "data: x", "data: y", "", "", ": between", "id: 2", "data: zü", ""}
	for _, c := range []struct {
		end  string
		name LineEnd
	}{{"\n", LF}, {"\r", CR}, {"\r\n", CRLF}} {
		stream := strings.Join(lines, c.end) + c.end
		whole := read(stream)
		require.Len(t, whole.Frames(), 3, "%s", c.name)
		assert.Equal(t, "x\ny", whole.Frames()[1].Data)
		assert.Equal(t, "zü", whole.Frames()[2].Data)
		for _, f := range whole.Frames() {
			assert.Equal(t, []LineEnd{c.name}, f.LineEnds())
			assert.True(t, bytes.HasSuffix(f.Raw, []byte(c.end+c.end)), "%q ends its block with one blank line", f.Raw)
		}
		want := strings.Join(lines[:2], c.end) + c.end
		assert.Equal(t, want, string(whole.Frames()[0].Raw), "%s", c.name)
		for cut := range len(stream) + 1 {
			requireSame(t, whole, read(stream[:cut], stream[cut:]), "%s cut at %d", c.name, cut)
		}
		single := &Reader{}
		for i := range len(stream) {
			single.Feed([]byte{stream[i]}, at)
		}
		requireSame(t, whole, single, "%s byte by byte", c.name)
	}
}

// requireSame compares everything of two readers but the times.
func requireSame(t *testing.T, want, got *Reader, msg string, args ...any) {
	t.Helper()
	timeless := func(r *Reader) []Frame {
		var out []Frame
		for _, f := range r.Frames() {
			f.At = time.Time{}
			for i := range f.Comments {
				f.Comments = append([]Comment(nil), f.Comments...)
				f.Comments[i].At = time.Time{}
			}
			out = append(out, f)
		}
		return out
	}
	note := append([]any{msg}, args...)
	require.Equal(t, timeless(want), timeless(got), note...)
	require.Equal(t, string(want.Tail()), string(got.Tail()), note...)
	require.Equal(t, len(want.Comments()), len(got.Comments()), note...)
	require.Equal(t, want.ValidUTF8(), got.ValidUTF8(), note...)
	require.Equal(t, want.Size(), got.Size(), note...)
}

func TestMixedLineEnds(t *testing.T) {
	t.Parallel()
	r := read("id: 1\rdata: a\r\ndata: b\n\r\ndata: c\n\r\n\r")
	require.Len(t, r.Frames(), 2)
	assert.Equal(t, []LineEnd{CR, CRLF, LF}, r.Frames()[0].LineEnds())
	assert.Equal(t, "a\nb", r.Frames()[0].Data)
	assert.Equal(t, "c", r.Frames()[1].Data)
	// LF then CR are two line ends, so the second is a blank line.
	r = read("data: a\n\rdata: b\n\n")
	require.Len(t, r.Frames(), 2)
	assert.Equal(t, "data: a\n\r", string(r.Frames()[0].Raw))
}

// The LF of a CRLF goes to the block its CR ended, and to no other.
func TestRawIsExact(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		chunks []string
		want   []string
	}{
		{"blank lines after a frame are nobody's", []string{"data: a\n\n\r\n\r\ndata: b\n\n"}, []string{"data: a\n\n", "data: b\n\n"}},
		{"also when split", []string{"data: a\n\n\r", "\n\r", "\ndata: b\n\n"}, []string{"data: a\n\n", "data: b\n\n"}},
		{"the LF comes with later bytes", []string{"data: a\r\n\r", "\n", "data: b\r\n\r\n"}, []string{"data: a\r\n\r\n", "data: b\r\n\r\n"}},
		{"no LF comes", []string{"data: a\r\r", "data: b\r\r"}, []string{"data: a\r\r", "data: b\r\r"}},
		{"an LF that is a line of its own", []string{"data: a\r\r", "\n", "\n", "data: b\n\n"}, []string{"data: a\r\r\n", "data: b\n\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var raw []string
			for _, f := range read(c.chunks...).Frames() {
				raw = append(raw, string(f.Raw))
			}
			assert.Equal(t, c.want, raw)
		})
	}
}

// A frame is there with its blank line's CR: nothing waits for an LF that may
// never come.
func TestFrameIsNotHeldBackByCR(t *testing.T) {
	t.Parallel()
	r := read("data: a\r\n\r")
	require.Len(t, r.Frames(), 1)
	assert.Equal(t, "a", r.Frames()[0].Data)
}

func TestTimes(t *testing.T) {
	t.Parallel()
	r := read(": one\n", "data: a\n", "\n", ": two\n")
	require.Len(t, r.Frames(), 1)
	f := r.Frames()[0]
	assert.Equal(t, at.Add(2*time.Second), f.At, "a frame arrives with its blank line")
	assert.Equal(t, []Comment{{" one", at}}, f.Comments, "a comment arrives with its own line")
	assert.Equal(t, []Comment{{" one", at}, {" two", at.Add(3 * time.Second)}}, r.Comments(), "that of an incomplete block too")
	assert.Equal(t, ": two\n", string(r.Tail()))
}

func TestTail(t *testing.T) {
	t.Parallel()
	for stream, tail := range map[string]string{
		"":                            "",
		"data: a\n\n":                 "",
		"data: a\n\ndata: b":          "data: b",
		"data: a\n\ndata: b\n":        "data: b\n",
		"data: a\n\ndata: b\r\nid: 1": "data: b\r\nid: 1",
		"data: a\r":                   "data: a\r",
	} {
		assert.Equal(t, tail, string(read(stream).Tail()), "%q", stream)
	}
	r := read("data: b\n")
	assert.Empty(t, r.Frames(), "an incomplete block is no frame")
	tail := r.Tail()
	tail[0] = 'X'
	assert.Equal(t, "data: b\n", string(r.Tail()), "the tail is a copy")
}

func TestValidUTF8(t *testing.T) {
	t.Parallel()
	assert.True(t, read("data: gr", "\xC3", "\xBCn\n\n").ValidUTF8(), "a rune may be split between reads")
	assert.False(t, read("data: \xC3\n\n").ValidUTF8())
	assert.False(t, read(": \xFF\n").ValidUTF8(), "in a comment too")
	assert.True(t, read("data: \xC3").ValidUTF8(), "an incomplete line is not judged")
}

// Many small fields must not cost the square of their number.
func TestManyDataFields(t *testing.T) {
	t.Parallel()
	began := time.Now()
	r := read(strings.Repeat("data:\n", 1<<20) + "\n")
	require.Len(t, r.Frames(), 1)
	assert.Len(t, r.Frames()[0].Data, 1<<20-1)
	assert.Less(t, time.Since(began), 20*time.Second)
}

// FuzzSplits feeds a stream whole and in pieces: where it was cut must not
// show.
func FuzzSplits(f *testing.F) {
	for _, seed := range []string{
		"id: 1\nevent: a\ndata: {}\n\n", "data: a\r\n\r\ndata: b\r\n\r\n", "data: a\r\rdata: b\r\r", "\xEF\xBB\xBFdata: x\n\n",
		": ping\n\n", "id: \x00\ndata\n\n", "retry: 10\n\n", "data: \xC3\xBC\n\ndata", "\r\n\r\n\n\r\r", "data: a\n\n\r\ndata: b",
	} {
		f.Add([]byte(seed), uint8(1), uint8(3))
		f.Add([]byte(seed), uint8(7), uint8(2))
	}
	f.Fuzz(func(t *testing.T, stream []byte, first, step uint8) {
		whole := &Reader{}
		whole.Feed(stream, at)
		split := &Reader{}
		size := int(first)
		for rest := stream; len(rest) > 0; size = int(step)%16 + 1 {
			n := min(max(size, 1), len(rest))
			split.Feed(rest[:n], at)
			rest = rest[n:]
		}
		requireSame(t, whole, split, "%q", stream)
		kept := len(whole.Tail())
		for _, fr := range whole.Frames() {
			require.True(t, bytes.Contains(stream, fr.Raw), "raw bytes are bytes of the stream")
			kept += len(fr.Raw)
		}
		require.LessOrEqual(t, kept, len(stream))
	})
}
