package referencehost

import (
	"fmt"
	"maps"
	"net/http"

	"wopcert/corpus"
)

// seamsProfile is what conformance.seamsProfile advertises while the seams are served (conformance.md §The seams
// profile).
const seamsProfile = "openwop-conformance-seams-v2"

// seamRoutes are the seams this host has, by the operation id of the seams profile. Every area adds its own part.
func (h *Host) seamRoutes() map[string]route {
	all := make(map[string]route)
	for _, part := range []map[string]route{h.effectSeamRoutes(), h.eraSeams(), h.webhookSeams()} {
		maps.Copy(all, part)
	}
	return all
}

// seams are the routes of the seams profile, none unless Config.Seams asks for them: without it their paths are as
// unknown as any other. They are no operations of the canonical API, so they have no scope there; whoever may create
// runs may use them.
func (h *Host) seams(contract *corpus.Corpus) ([]route, error) {
	if !h.config.Seams {
		return nil, nil
	}
	var routes []route
	for id, entry := range h.seamRoutes() {
		seam, ok := contract.SeamOperation(id)
		if !ok {
			return nil, fmt.Errorf("the seams profile has no operation %s", id)
		}
		entry.operation = corpus.Operation{
			ID: seam.ID, Method: seam.Method, Path: seam.Path, Authenticated: true, RequestBody: seam.Method != http.MethodGet,
			Scope: ScopeRunsCreate, Gate: seam.Gate, Success: seam.Success, Errors: seam.Errors,
		}
		entry.segments = parsePath(seam.Path)
		if entry.operation.RequestBody {
			entry.answer = h.withBody(entry.answer)
		}
		routes = append(routes, entry)
	}
	return routes, nil
}

// withBody reads the body for an operation that Layer 1 does not wrap.
func (h *Host) withBody(operation func(*request) (*answer, error)) func(*request) (*answer, error) {
	return func(r *request) (*answer, error) {
		body, err := h.readBody(r.Request)
		if err != nil {
			return nil, err
		}
		r.body = body
		return operation(r)
	}
}
