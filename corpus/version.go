package corpus

import (
	"fmt"
	"strconv"
	"strings"
)

// FloorAt returns the scenarios of the profile's floor that count at the given
// contract version (a bundle's suite.specArtifactsVersion, "2.42.7"), in registry
// order. A release candidate counts as the release it leads to, because the floor
// of a candidate is the floor it proposes. The error says what is wrong with a
// version that is not MAJOR.MINOR.PATCH.
func (p Profile) FloorAt(version string) ([]string, error) {
	at, err := parseVersion(version)
	if err != nil {
		return nil, err
	}
	var scenarios []string
	for _, f := range p.Floor {
		since, err := parseVersion(f.Since)
		if err != nil {
			return nil, fmt.Errorf("profile %s, scenario %s: %w", p.ID, f.Scenario, err)
		}
		if since.atMost(at) {
			scenarios = append(scenarios, f.Scenario)
		}
	}
	return scenarios, nil
}

type contractVersion [3]uint64

func (v contractVersion) atMost(other contractVersion) bool {
	for i := range v {
		if v[i] != other[i] {
			return v[i] < other[i]
		}
	}
	return true
}

// parseVersion reads a semantic version and drops its pre-release and build parts.
func parseVersion(s string) (contractVersion, error) {
	var v contractVersion
	core, _, _ := strings.Cut(s, "+")
	core, pre, hasPre := strings.Cut(core, "-")
	parts := strings.Split(core, ".")
	if len(parts) != 3 || (hasPre && pre == "") {
		return v, fmt.Errorf("contract version %q is not MAJOR.MINOR.PATCH", s)
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 32)
		if err != nil || (len(part) > 1 && part[0] == '0') {
			return v, fmt.Errorf("contract version %q is not MAJOR.MINOR.PATCH", s)
		}
		v[i] = n
	}
	return v, nil
}
