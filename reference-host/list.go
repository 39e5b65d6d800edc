package referencehost

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"wopcert/reference-host/internal/eventlog"
)

// runList is the listRuns response.
type runList struct {
	Runs       []snapshot `json:"runs"`
	NextCursor string     `json:"nextCursor,omitempty"`
}

// listQuery is a listRuns request.
type listQuery struct {
	limit              int
	workflowID, status string
	before             int64
}

// listRuns pages through the runs of the caller's tenant, newest first (runs.md §List).
func (h *Host) listRuns(r *request) (*answer, error) {
	query, err := h.listQuery(r)
	if err != nil {
		return nil, err
	}
	page := runList{Runs: []snapshot{}}
	for before := query.before; ; {
		logs, err := h.store.List(r.Context(), r.principal.tenant(), before, query.limit+1)
		if err != nil {
			return nil, err
		}
		for _, log := range logs {
			before = log.Run().Position
			state, err := query.project(log)
			if err != nil {
				return nil, err
			}
			if state == nil {
				continue
			}
			if len(page.Runs) == query.limit {
				// One more matches, so there is a next page; it begins behind the last run of this one.
				page.NextCursor = h.mintCursor(r.principal.tenant(), query)
				return jsonAnswer(http.StatusOK, page), nil
			}
			shown, _, err := h.view(r.Context(), state)
			if err != nil {
				return nil, err
			}
			page.Runs = append(page.Runs, shown)
			query.before = before
		}
		if len(logs) <= query.limit {
			return jsonAnswer(http.StatusOK, page), nil
		}
	}
}

// project folds a log when the filters admit its run, else nil.
func (q *listQuery) project(log eventlog.Log) (*projection, error) {
	if q.workflowID != "" && log.Run().WorkflowID != q.workflowID {
		return nil, nil
	}
	state, err := projectLog(log)
	if unreadable(err) {
		state, err = newProjection(log.Run()), nil // the run is there, and one log does not take the list away
	}
	if err != nil || q.status != "" && state.status() != q.status {
		return nil, err
	}
	return state, nil
}

// runStatuses is the vocabulary a status filter is held to (runs.md §Snapshot).
func runStatuses() []string {
	return []string{
		"pending", "running", "paused", "waiting-approval", "waiting-input", "waiting-external",
		"completed", "failed", "cancelling", "cancelled",
	}
}

func (h *Host) listQuery(r *request) (listQuery, error) {
	// A filter the host does not advertise is ignored (runs.md §List).
	values, err := h.query(r, slices.Concat([]string{"limit", "cursor"}, h.facetWords("runList", "filters"))...)
	query := listQuery{limit: h.config.Limits.MaxPageSize}
	if err != nil {
		return query, err
	}
	if text, ok := values["limit"]; ok {
		wanted, ok := parseNumber(text)
		if !ok || wanted < 1 {
			return query, h.codes.invalid("limit", "The limit must be a whole number of at least 1.")
		}
		query.limit = int(min(wanted, uint64(h.config.Limits.MaxPageSize)))
	}
	query.workflowID, query.status = values["workflowId"], values["status"]
	if _, given := values["workflowId"]; given && !isAuthorID(query.workflowID) {
		return query, h.codes.invalid("workflowId", "The filter is not a workflowId.")
	}
	if _, given := values["status"]; given && !slices.Contains(runStatuses(), query.status) {
		return query, h.codes.invalid("status", "The filter is not a run status.")
	}
	if cursor, ok := values["cursor"]; ok {
		if query.before, ok = h.readCursor(r.principal.tenant(), query, cursor); !ok {
			return query, h.codes.invalid("cursor", "The cursor is not one this host minted for this list.")
		}
	}
	return query, nil
}

// query reads the named parameters, each at most once; others are ignored.
func (h *Host) query(r *request, names ...string) (map[string]string, error) {
	values := make(map[string]string, len(names))
	for pair := range strings.SplitSeq(r.URL.RawQuery, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if name = unescape(name); !slices.Contains(names, name) {
			continue
		}
		if _, twice := values[name]; twice {
			return nil, h.codes.invalid(name, "The parameter is given more than once.")
		}
		values[name] = unescape(value)
	}
	return values, nil
}

// unescape decodes one name or value of a query string. What is not an escape stands for itself, as in a browser, so
// that a malformed value is judged by the rule of its parameter.
func unescape(text string) string {
	if decoded, err := url.QueryUnescape(text); err == nil {
		return decoded
	}
	return text
}

// A cursor is a position and a tag over it, the tenant and the filters, under a key of this process: one the host did
// not mint, or minted for another tenant or another list, does not verify (runs.md §List).
const cursorTag = 16

func (h *Host) mintCursor(tenant string, query listQuery) string {
	position := binary.BigEndian.AppendUint64(nil, uint64(query.before))
	return base64.RawURLEncoding.EncodeToString(append(position, h.cursorMAC(tenant, query, position)...))
}

func (h *Host) readCursor(tenant string, query listQuery, cursor string) (int64, bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(raw) != 8+cursorTag || !hmac.Equal(raw[8:], h.cursorMAC(tenant, query, raw[:8])) {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(raw)), true
}

func (h *Host) cursorMAC(tenant string, query listQuery, position []byte) []byte {
	mac := hmac.New(sha256.New, h.cursorKey[:])
	_, _ = mac.Write(position) // a hash takes every byte
	for _, part := range []string{tenant, query.workflowID, query.status} {
		_, _ = mac.Write([]byte(strconv.Itoa(len(part)) + ":" + part))
	}
	return mac.Sum(nil)[:cursorTag]
}
