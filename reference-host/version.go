package referencehost

import (
	"net/http"
	"strconv"
	"strings"

	"wopcert/corpus"
	"wopcert/reference-host/internal/eventlog"
)

// The axes of this host (versioning.md §2).
const (
	engineVersion         = 1
	minForcedEngine       = 0
	maxForcedEngine       = 2
	eventLogSchemaVersion = eventlog.EraV2 // what a v2 host stamps on every run it creates (§2.2)
)

// protocolVersions are the versions this host serves. With a single major there is no overlap and no v1 path.
func protocolVersions() []string { return []string{corpus.ProtocolVersion} }

// negotiate reads OpenWOP-Version. The major alone and a listed version select the major; anything else the host does
// not list is refused (headers.md §Request headers, versioning.md §1.3).
func (h *Host) negotiate(r *http.Request) error {
	wanted := strings.TrimSpace(strings.Join(r.Header.Values("OpenWOP-Version"), ","))
	if path := r.URL.Path; path == "/v1" || strings.HasPrefix(path, "/v1/") {
		if wanted != "" && wanted != "1" && !strings.HasPrefix(wanted, "1.") {
			return h.codes.pathVersion()
		}
	}
	if wanted == "" {
		return nil
	}
	for _, served := range h.versions {
		if major, _, _ := strings.Cut(served, "."); wanted == served || wanted == major {
			return nil
		}
	}
	return h.codes.unservedVersion(h.versions)
}

// checkClient compares OpenWOP-Client-Version with minClientVersion on major and minor. A value that is not a version
// is as good as none (headers.md §Request headers).
func (h *Host) checkClient(r *http.Request) error {
	fields := r.Header.Values("OpenWOP-Client-Version")
	if h.minClient == nil || len(fields) != 1 {
		return nil
	}
	client, ok := parseVersion(strings.TrimSpace(fields[0]))
	if ok && client.less(*h.minClient) {
		return h.codes.oldClient(h.minClient.String())
	}
	return nil
}

type version struct{ major, minor uint64 }

func (v version) less(other version) bool {
	return v.major < other.major || v.major == other.major && v.minor < other.minor
}

func (v version) String() string {
	return strconv.FormatUint(v.major, 10) + "." + strconv.FormatUint(v.minor, 10)
}

// parseVersion reads <major>.<minor> without leading zeros.
func parseVersion(text string) (version, bool) {
	majorText, minorText, found := strings.Cut(text, ".")
	major, okMajor := parseNumber(majorText)
	minor, okMinor := parseNumber(minorText)
	return version{major, minor}, found && okMajor && okMinor
}

func parseNumber(text string) (uint64, bool) {
	if text == "" || len(text) > 1 && text[0] == '0' || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil
}
