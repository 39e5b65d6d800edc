package scenarios

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"wopcert/harness"
)

// versionPattern is <major>.<minor> in decimal without leading zeros
// (versioning.md §1.1).
var versionPattern = regexp.MustCompile(`^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$`)

// isVersion reports whether s is a protocol version.
func isVersion(s string) bool { return versionPattern.MatchString(s) }

// majorOf is the major of a protocol version, "" when s is none.
func majorOf(s string) string {
	if !isVersion(s) {
		return ""
	}
	major, _, _ := strings.Cut(s, ".")
	return major
}

// compareVersions orders two protocol versions, of whatever length.
func compareVersions(a, b string) int {
	aMajor, aMinor, _ := strings.Cut(a, ".")
	bMajor, bMinor, _ := strings.Cut(b, ".")
	return cmp.Or(compareDecimals(aMajor, bMajor), compareDecimals(aMinor, bMinor))
}

// compareDecimals orders decimals without leading zeros without reading them
// into a number they might not fit.
func compareDecimals(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// versionBelow is a protocol version smaller than v, "" when there is none or
// v is too large to step down from.
func versionBelow(v string) string {
	major, minor, _ := strings.Cut(v, ".")
	if n, err := strconv.ParseUint(minor, 10, 63); err == nil && n > 0 {
		return fmt.Sprintf("%s.%d", major, n-1)
	}
	if n, err := strconv.ParseUint(major, 10, 63); err == nil && n > 0 {
		return fmt.Sprintf("%d.0", n-1)
	}
	return ""
}

// versionAbove is a protocol version of the same major larger than v.
func versionAbove(v string) string {
	major, minor, _ := strings.Cut(v, ".")
	n, err := strconv.ParseUint(minor, 10, 62)
	if err != nil {
		return v
	}
	return fmt.Sprintf("%s.%d", major, n+1)
}

// listedVersion is the first version of a major that the host lists.
func listedVersion(d *harness.Discovery, major string) string {
	for _, v := range d.Versions() {
		if majorOf(v) == major {
			return v
		}
	}
	return ""
}

// unlistedMajor is a major the host does not list.
func unlistedMajor(d *harness.Discovery) string {
	for n := 9; ; n++ {
		if major := strconv.Itoa(n); !d.ListsMajor(major) {
			return major
		}
	}
}
