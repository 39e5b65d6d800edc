package sse_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/reference-host/internal/sse"
)

func TestFrames(t *testing.T) {
	t.Parallel()
	recorder := httptest.NewRecorder()
	w, err := sse.Start(recorder, time.Second)
	require.NoError(t, err)
	assert.True(t, recorder.Flushed, "the head goes out at once")
	require.NoError(t, w.Frame(0, "a.b", []byte(`{}`)))
	w.Comment("still here")
	require.NoError(t, w.Frame(12, "c", []byte("two\nlines")))
	assert.Empty(t, recorder.Body.String(), "frames are gathered")
	require.NoError(t, w.Flush())
	assert.Equal(t, "id: 0\nevent: a.b\ndata: {}\n\n: still here\n\nid: 12\nevent: c\ndata: two\ndata: lines\n\n", recorder.Body.String())
	assert.Equal(t, "text/event-stream", recorder.Header().Get("Content-Type"))
}

func TestALongBacklogIsWrittenOnTheWay(t *testing.T) {
	t.Parallel()
	recorder := httptest.NewRecorder()
	w, err := sse.Start(recorder, time.Second)
	require.NoError(t, err)
	require.NoError(t, w.Frame(0, "a", []byte(strings.Repeat("x", 40<<10))))
	assert.Greater(t, recorder.Body.Len(), 40<<10)
}

type goneWriter struct{ http.ResponseWriter }

func (goneWriter) Write([]byte) (int, error) { return 0, errors.New("gone") }
func (goneWriter) Flush()                    {}

func TestAReaderThatIsGoneIsAnError(t *testing.T) {
	t.Parallel()
	w, err := sse.Start(goneWriter{httptest.NewRecorder()}, time.Second)
	require.NoError(t, err)
	require.NoError(t, w.Frame(0, "a", nil))
	require.Error(t, w.Flush())
}
