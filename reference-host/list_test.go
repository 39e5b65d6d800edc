package referencehost_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

// page reads one page of the list.
func (h *testHost) page(query string) (ids []string, cursor string) {
	h.t.Helper()
	r := h.call("GET", "/runs"+query, "")
	require.Equal(h.t, http.StatusOK, r.StatusCode, string(r.body))
	body := r.json(h.t)
	for _, run := range body["runs"].([]any) {
		ids = append(ids, run.(map[string]any)["runId"].(string))
	}
	cursor, _ = body["nextCursor"].(string)
	return ids, cursor
}

func TestListPagesNewestFirst(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *referencehost.Config) { c.Limits.MaxPageSize = 4 })
	ids, cursor := h.page("")
	assert.Empty(t, ids)
	assert.Empty(t, cursor)

	var created []string
	for i := range 10 {
		workflow := "conformance-noop"
		if i%2 == 1 {
			workflow = "conformance-failure"
		}
		id, path := h.create(`{"workflowId":"` + workflow + `"}`)
		h.finish(path)
		created = append([]string{id}, created...)
	}
	h.create(`{"workflowId":"conformance-noop"}`, h.as(referencehost.KeyTenantB)...)

	walk := func(query string) (all []string, pages int) {
		for cursor := ""; ; {
			next := query
			if cursor != "" {
				next += "&cursor=" + cursor
			}
			ids, after := h.page(next)
			all, pages = append(all, ids...), pages+1
			assert.LessOrEqual(t, len(ids), 4)
			if cursor = after; cursor == "" {
				return all, pages
			}
		}
	}
	all, pages := walk("?limit=100")
	assert.Equal(t, created, all, "the page size is clamped, and the other tenant's run is not there")
	assert.Equal(t, 3, pages)
	all, pages = walk("?limit=5")
	assert.Equal(t, created, all)
	assert.Equal(t, 3, pages)
	all, pages = walk("?limit=1")
	assert.Equal(t, created, all)
	assert.Equal(t, 10, pages)

	all, pages = walk("?workflowId=conformance-failure&limit=2")
	assert.Len(t, all, 5)
	assert.Equal(t, 3, pages)
	all, _ = walk("?status=completed&limit=2")
	assert.Len(t, all, 5)
	all, _ = walk("?status=completed&workflowId=conformance-failure&limit=2")
	assert.Empty(t, all)
	all, pages = walk("?status=failed&limit=5")
	assert.Len(t, all, 5)
	assert.Equal(t, 2, pages, "the page size is 4")
}

func TestAPageKeepsItsPlaceWhileRunsAreCreated(t *testing.T) {
	t.Parallel()
	h := start(t)
	first, _ := h.create(`{"workflowId":"conformance-noop"}`)
	second, _ := h.create(`{"workflowId":"conformance-noop"}`)
	ids, cursor := h.page("?limit=1")
	assert.Equal(t, []string{second}, ids)
	h.create(`{"workflowId":"conformance-noop"}`)
	ids, cursor = h.page("?limit=1&cursor=" + cursor)
	assert.Equal(t, []string{first}, ids)
	assert.Empty(t, cursor)
}

func TestListRefusals(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.create(`{"workflowId":"conformance-noop"}`)
	h.create(`{"workflowId":"conformance-noop"}`)
	_, cursor := h.page("?limit=1")
	require.NotEmpty(t, cursor)
	for _, query := range []string{
		"?limit=0", "?limit=-1", "?limit=x", "?limit=1.5", "?limit=", "?limit=1&limit=2",
		"?status=gone", "?status=", "?workflowId=a%20b", "?workflowId=",
		"?cursor=", "?cursor=x", "?cursor=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "?cursor=" + cursor[:len(cursor)-1], "?cursor=" + cursor + "A",
		"?cursor=" + cursor + "&status=completed", // minted for another list
		"?cursor=%zz",
	} {
		assert.Equal(t, "validation_error", h.call("GET", "/runs"+query, "").code(t), query)
	}
	r := h.call("GET", "/runs?cursor="+cursor, "", h.as(referencehost.KeyTenantB)...)
	assert.Equal(t, "validation_error", r.code(t), "minted for another tenant")
	assert.Equal(t, http.StatusOK, h.call("GET", "/runs?unknown=1&unknown=2", "").StatusCode)
}
