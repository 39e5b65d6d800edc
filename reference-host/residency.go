package referencehost

import (
	"encoding/json"
	"slices"
)

// checkResidency takes a run only in a region the host advertises (runs.md §dataResidency). A host that advertises none
// honours none and says so, rather than to place the run anywhere. Where a run is shows nowhere on the wire.
func (h *Host) checkResidency(residency json.RawMessage) error {
	if residency == nil {
		return nil
	}
	var wanted struct {
		Region string `json:"region"`
	}
	if err := json.Unmarshal(residency, &wanted); err != nil {
		return h.codes.malformed(err)
	}
	if !slices.Contains(h.facetWords("dataResidency", "regions"), wanted.Region) {
		return h.codes.region()
	}
	return nil
}
