package referencehost

import (
	"strings"
)

const (
	maxTenantLength = 128
	minOpaqueLength = 16
	maxOpaqueLength = 128
)

// mintRunID binds an opaque segment to the tenant (identity.md §5).
func (h *Host) mintRunID(tenant string) string { return tenant + "/" + h.ids.Opaque() }

// project writes a tenant-bound id as one path segment: every byte outside A-Z a-z 0-9 . _ - becomes ~ and two
// uppercase hex digits (identity.md §5).
func project(id string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(id) + 8)
	for i := range len(id) {
		if c := id[i]; idByte(c) && c != '~' {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'~', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

// unproject reads a path segment, already percent-decoded, as an id. A segment with a slash came as tenant%2Fopaque
// and is the id itself; any other is projected. ok is false for a ~ that two uppercase hex digits do not follow.
func unproject(segment string) (id string, ok bool) {
	if strings.Contains(segment, "/") || !strings.Contains(segment, "~") {
		return segment, true
	}
	var b strings.Builder
	for i := 0; i < len(segment); i++ {
		if segment[i] != '~' {
			b.WriteByte(segment[i])
			continue
		}
		if i+2 >= len(segment) {
			return "", false
		}
		high, okHigh := hexDigit(segment[i+1])
		low, okLow := hexDigit(segment[i+2])
		if !okHigh || !okLow {
			return "", false
		}
		b.WriteByte(high<<4 | low)
		i += 2
	}
	return b.String(), true
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// idByte reports whether c may stand in a segment of an id.
func idByte(c byte) bool {
	return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '~' || c == '-'
}

func isSegment(s string, shortest, longest int) bool {
	if len(s) < shortest || len(s) > longest {
		return false
	}
	for i := range len(s) {
		if !idByte(s[i]) {
			return false
		}
	}
	return true
}

// runID reads the runId of a path and holds it to the caller's tenant before it is looked up, so that the answer for
// another tenant's id is the same whether or not there is such a run (runs.md §Identity). This host serves no 1.x, so
// the bare form is refused (identity.md §5).
func (h *Host) runID(segment string, p *principal) (string, error) {
	id, ok := unproject(segment)
	if !ok || !isRunID(id) {
		return "", h.codes.invalid("runId", "A runId is <tenantId>/<opaque>, as one path segment.")
	}
	if tenant, _, _ := strings.Cut(id, "/"); tenant != p.tenant() {
		return "", h.codes.foreignID()
	}
	return id, nil
}

// isRunID reports whether s matches the grammar of tenant-bound ids (identity.md §5).
func isRunID(s string) bool {
	tenant, opaque, bound := strings.Cut(s, "/")
	return bound && isSegment(strings.TrimPrefix(tenant, "anon:"), 1, maxTenantLength) && isSegment(opaque, minOpaqueLength, maxOpaqueLength)
}

// isAuthorID reports whether s matches the grammar of ids that authors choose (identity.md §5).
func isAuthorID(s string) bool {
	return isSegment(strings.ReplaceAll(s, ":", "."), 1, 128)
}
