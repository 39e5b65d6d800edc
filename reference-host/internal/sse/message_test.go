package sse_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/reference-host/internal/sse"
)

func TestMessagesHaveNoID(t *testing.T) {
	t.Parallel()
	recorder := httptest.NewRecorder()
	w, err := sse.Start(recorder, time.Second)
	require.NoError(t, err)
	w.Message("a.b", []byte("{\n}"))
	require.NoError(t, w.Flush())
	assert.Equal(t, "event: a.b\ndata: {\ndata: }\n\n", recorder.Body.String())
}
