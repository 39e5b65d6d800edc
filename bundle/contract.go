package bundle

import (
	"slices"
	"strconv"
	"strings"

	"wopcert/corpus"
)

// contractVersions are the versions of the contract a suite names: the unsigned one, and the one its signed version
// carries, "" for none (see [Suite]).
func (s Suite) contractVersions() (named, signed string) {
	signed = s.Version
	if s.Name != publishedSuite {
		_, signed, _ = strings.Cut(signed, "+")
	}
	return s.SpecArtifactsVersion, signed
}

// noteNewerContract says where a bundle names a contract this program does not know yet: a floor that grew since then
// cannot be asked for.
func noteNewerContract(c *collector, suite Suite) {
	known, _ := versionNumbers(corpus.SpecArtifactsVersion)
	named, signed := suite.contractVersions()
	for _, version := range slices.Compact([]string{named, signed}) {
		if numbers, ok := versionNumbers(version); ok && slices.Compare(numbers, known) > 0 {
			c.note("the bundle is of contract version %s; this verifier knows the contract up to its own version %s and applied its newest floor",
				version, corpus.SpecArtifactsVersion)
		}
	}
}

// versionNumbers reads MAJOR.MINOR.PATCH. Pre-release and build parts are dropped: a candidate counts as the release
// it leads to.
func versionNumbers(version string) ([]uint64, bool) {
	core, _, _ := strings.Cut(version, "+")
	core, _, _ = strings.Cut(core, "-")
	var numbers []uint64
	for part := range strings.SplitSeq(core, ".") {
		n, err := strconv.ParseUint(part, 10, 32)
		if err != nil {
			return nil, false
		}
		numbers = append(numbers, n)
	}
	return numbers, len(numbers) == 3
}
