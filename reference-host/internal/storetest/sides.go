package storetest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/reference-host/internal/eventlog"
)

func testAnnotationsAreKeptInOrder(t *testing.T, store func() eventlog.Store) {
	m := store()
	held, err := m.Annotations(t.Context(), "t/1")
	require.NoError(t, err)
	assert.Empty(t, held)
	for i := range 5 {
		require.NoError(t, m.Annotate(t.Context(), "t/1", eventlog.Annotation{AnnotationID: fmt.Sprint(i)}))
	}
	held, err = m.Annotations(t.Context(), "t/1")
	require.NoError(t, err)
	for i, annotation := range held {
		assert.Equal(t, fmt.Sprint(i), annotation.AnnotationID)
	}
	held[0].AnnotationID = "mine"
	again, err := m.Annotations(t.Context(), "t/1")
	require.NoError(t, err)
	assert.Equal(t, "0", again[0].AnnotationID, "the list is a copy")
	other, err := m.Annotations(t.Context(), "t/2")
	require.NoError(t, err)
	assert.Empty(t, other)
}

func testAnnotationsFromManySides(t *testing.T, store func() eventlog.Store) {
	m := store()
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			assert.NoError(t, m.Annotate(t.Context(), "t/1", eventlog.Annotation{AnnotationID: fmt.Sprint(i)}))
			_, err := m.Annotations(t.Context(), "t/1")
			assert.NoError(t, err)
		})
	}
	group.Wait()
	held, err := m.Annotations(t.Context(), "t/1")
	require.NoError(t, err)
	assert.Len(t, held, 50)
}

func testArtifactsBelongToTenants(t *testing.T, store func() eventlog.Store) {
	m := store()
	require.NoError(t, m.PutArtifact(t.Context(), "a", eventlog.Artifact{ID: "x", Type: "first"}))
	require.ErrorIs(t, m.PutArtifact(t.Context(), "a", eventlog.Artifact{ID: "x", Type: "second"}), eventlog.ErrExists)
	require.NoError(t, m.PutArtifact(t.Context(), "b", eventlog.Artifact{ID: "x", Type: "other"}))
	for tenant, want := range map[string]string{"a": "first", "b": "other"} {
		artifact, err := m.Artifact(t.Context(), tenant, "x")
		require.NoError(t, err)
		assert.Equal(t, want, artifact.Type)
	}
	_, err := m.Artifact(t.Context(), "c", "x")
	require.ErrorIs(t, err, eventlog.ErrNotFound)
}
