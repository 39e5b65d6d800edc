// Package vectorset holds the cases the published vectors are written from. What a case expects is stated by hand, from
// the texts of RFC 8785, RFC 7493 and conformance.md; nothing expected is computed by the code under test.
package vectorset

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Files gives every vector file by its path below vectors/.
func Files() map[string][]byte {
	files := map[string][]byte{
		"jcs/accept.json":        encode(jcsAccept()),
		"jcs/refuse.json":        encode(jcsRefuse()),
		"jcs/numbers.json":       encode(jcsNumbers()),
		"attestation/keys.json":  encode(attestationKeys()),
		"attestation/cases.json": encode(attestationCases()),
		"webhooks/cases.json":    encode(webhookCases()),
		"tokens/cases.json":      encode(resumeTokens()),
	}
	for path, data := range bundleFiles() {
		files["bundles/"+path] = data
	}
	return files
}

func encode(v any) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return buf.Bytes()
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
