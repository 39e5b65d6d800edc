package referencehost

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// familySet is what a host advertises: the facets of each family, as decoded JSON.
type familySet map[string]map[string]any

// ownFamilies are what this host keeps the whole obligation of. Every part of the host adds the families it serves;
// parts may each contribute facets to one family.
func (h *Host) ownFamilies() familySet {
	all := make(familySet)
	for _, part := range []familySet{h.coreFamilies(), h.controlFamilies(), h.contentFamilies(), h.interruptFamilies(), h.webhookFamilies(), h.replayFamilies()} {
		for family, facets := range part {
			all.lay(family, facets)
		}
	}
	return all
}

// lay puts facets over those the family has; a nil facet takes one out.
func (s familySet) lay(family string, facets map[string]any) {
	if s[family] == nil {
		s[family] = make(map[string]any)
	}
	for name, value := range facets {
		if value == nil {
			delete(s[family], name)
		} else {
			s[family][name] = value
		}
	}
}

// settleFamilies makes the effective set: the host's own with Config.Families over them. All that a family gates reads
// this set and nothing else, so that what is advertised and what is done cannot part.
func (h *Host) settleFamilies() error {
	all := h.ownFamilies()
	for family, facets := range h.config.Families {
		if facets == nil {
			delete(all, family)
		} else {
			all.lay(family, facets)
		}
	}
	h.families = make(familySet, len(all))
	for family, facets := range all {
		encoded, err := json.Marshal(facets)
		if err != nil {
			return fmt.Errorf("capability family %s: %w", family, err)
		}
		decoded := make(map[string]any)
		if err := json.Unmarshal(encoded, &decoded); err != nil {
			return fmt.Errorf("capability family %s: %w", family, err)
		}
		h.families[family] = decoded
	}
	limits := &h.config.Limits
	limits.MaxRequestBodyBytes = h.facetInt(limits.MaxRequestBodyBytes, "limits", "maxRequestBodyBytes")
	limits.MaxRunDuration = time.Duration(h.facetInt(limits.MaxRunDuration.Milliseconds(), "limits", "maxRunDurationMs")) * time.Millisecond
	limits.MaxNodeExecutions = int(h.facetInt(int64(limits.MaxNodeExecutions), "limits", "maxNodeExecutions"))
	limits.MaxLoopIterations = int(h.facetInt(int64(limits.MaxLoopIterations), "limits", "maxLoopIterations"))
	limits.MaxPageSize = int(h.facetInt(int64(limits.MaxPageSize), "runList", "maxPageSize"))
	return nil
}

// advertises reports whether the host advertises a family, or with a dotted name the facet of one, as gates name them
// (runs.md §Surface). A facet that is false, or null, is one the host says it does not have.
func (h *Host) advertises(gate string) bool {
	family, rest, nested := strings.Cut(gate, ".")
	facets, ok := h.families[family]
	if !ok || !nested {
		return ok
	}
	value := h.descend(facets, strings.Split(rest, "."))
	return value != nil && value != false
}

// facet is the value of a facet in the effective set, nil when it is not there. Numbers are float64.
func (h *Host) facet(family string, path ...string) any { return h.descend(h.families[family], path) }

func (h *Host) descend(facets map[string]any, path []string) (value any) {
	value = facets
	for _, step := range path {
		object, _ := value.(map[string]any)
		value = object[step]
	}
	return value
}

// facetInt is a facet that is a whole number, or fallback.
func (h *Host) facetInt(fallback int64, family string, path ...string) int64 {
	if number, ok := h.facet(family, path...).(float64); ok {
		return int64(number)
	}
	return fallback
}

// facetWords are the strings of a facet that is a list.
func (h *Host) facetWords(family string, path ...string) []string {
	list, _ := h.facet(family, path...).([]any)
	words := make([]string, 0, len(list))
	for _, item := range list {
		if word, ok := item.(string); ok {
			words = append(words, word)
		}
	}
	return words
}

// controlFamilies are those of run control: loops, children, and what bounds them.
func (h *Host) controlFamilies() familySet {
	return familySet{
		"limits":      {"maxLoopIterations": h.config.Limits.MaxLoopIterations},
		"agents":      {"orchestrator": true, "dispatch": true},
		"subWorkflow": nil,
	}
}
