package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"wopcert/bundle/jcs"
)

// attestedMembers are the members of the object the attestation signs, and the value of signature.over. The dotted
// names are literal member names.
func attestedMembers() []string {
	return []string{"witnessSha256", "host.build", "suite.version", "discovery.sha256"}
}

// WitnessSHA256 is the witness digest of rows (conformance.md §Canonical JSON): SHA-256, in hex, over the RFC 8785
// bytes of the rows in UTF-16 order of their ids, or of an object that also carries the relaxations and the deployment
// where there are any. A string that is not UTF-8 is refused.
func WitnessSHA256(rows []Row, relaxations []Relaxation, deployment string) (string, error) {
	canonical := make([]canonicalRow, len(rows))
	for i, row := range rows {
		text, err := jcs.CanonicalizeValue(row)
		if err != nil {
			return "", fmt.Errorf("row %q: %w", row.ID, err)
		}
		canonical[i] = canonicalRow{row.ID, text}
	}
	return witnessDigest(canonical, relaxations, deployment)
}

// canonicalRow is a row's id and its canonical bytes, with the members it was received with.
type canonicalRow struct {
	id   string
	text []byte
}

func witnessDigest(rows []canonicalRow, relaxations []Relaxation, deployment string) (string, error) {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b canonicalRow) int { return jcs.CompareUTF16(a.id, b.id) })
	var list bytes.Buffer
	list.WriteByte('[')
	for i, row := range rows {
		if i > 0 {
			list.WriteByte(',')
		}
		list.Write(row.text)
	}
	list.WriteByte(']')
	preimage := list.Bytes()
	if len(relaxations) > 0 || deployment != "" {
		var err error
		preimage, err = jcs.CanonicalizeValue(struct {
			Rows        json.RawMessage `json:"rows"`
			Relaxations []Relaxation    `json:"relaxations,omitempty"`
			Deployment  string          `json:"deployment,omitempty"`
		}{preimage, relaxations, deployment})
		if err != nil {
			return "", fmt.Errorf("relaxations: %w", err)
		}
	}
	return hexDigest(preimage), nil
}

func hexDigest(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

// attestation is the bytes the attestation signs (conformance.md §Signature and attribution).
func attestation(b *Bundle) ([]byte, error) {
	return jcs.CanonicalizeValue(map[string]any{
		"witnessSha256":    b.WitnessSHA256,
		"host.build":       b.Host.Build,
		"suite.version":    b.Suite.Version,
		"discovery.sha256": b.Discovery.SHA256,
	})
}
