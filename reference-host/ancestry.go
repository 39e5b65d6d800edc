package referencehost

import "net/http"

// ancestry is the getRunAncestry response. Every parent is on this host, so none has an address.
type ancestry struct {
	RunID  string    `json:"runId"`
	HostID string    `json:"hostId"`
	Parent *ancestor `json:"parent"`
}

type ancestor struct {
	RunID  string `json:"runId"`
	HostID string `json:"hostId"`
	Cause  string `json:"cause"`
}

// getRunAncestry names the run that started this one; the run a fork came from is no parent (execution.md
// §subWorkflow).
func (h *Host) getRunAncestry(r *request) (*answer, error) {
	log, err := h.openRun(r)
	if err != nil {
		return nil, err
	}
	host, _ := h.facet("multiAgent", "executionModel", "crossHostCausation", "hostId").(string)
	if host == "" {
		host = h.config.Implementation.Name
	}
	response := ancestry{RunID: r.id, HostID: host}
	if parent := log.Run().Parent; parent != nil {
		response.Parent = &ancestor{RunID: parent.RunID, HostID: host, Cause: parent.Cause}
	}
	return jsonAnswer(http.StatusOK, response), nil
}
