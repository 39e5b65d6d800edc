package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"wopcert/bundle/jcs"
)

// Limits on what is judged, beyond the size and depth of package jcs. They are far above any real bundle, which has
// some hundred rows, and bound the time and memory a hostile one costs.
const (
	MaxValues = 250_000 // JSON values in the file
	MaxRows   = 20_000  // rows, and entries of detail
	MaxClaims = 1_000   // claimed profiles, relaxations, protocol versions
)

// ReadLimited reads a bundle from r. It stops one byte past jcs.MaxSize: Verify rejects so long a text as json-size,
// and nobody has to hold the rest of it. The error is that of r.
func ReadLimited(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, jcs.MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("reading a bundle: %w", err)
	}
	return data, nil
}

// parsed is a bundle in the three forms the rules need.
type parsed struct {
	Bundle
	value    map[string]any // as decoded, for the schema and the search for secrets
	rows     []canonicalRow // the rows as received
	document map[string]any // discovery.document, nil if there is none
}

// readValue reads any text as a JSON object, or rejects it.
func readValue(c *collector, data []byte) (canonical []byte, value map[string]any) {
	if n := countValues(data); len(data) <= jcs.MaxSize && n > MaxValues {
		c.reject(KindTooLarge, "the text holds more than %d values", MaxValues)
		return nil, nil
	}
	canonical, err := jcs.Canonicalize(data)
	var refused *jcs.Error
	if errors.As(err, &refused) {
		c.reject(textKind(refused.Kind), "%v", refused)
		return nil, nil
	}
	// Canonical bytes say the same, and an integer written as 1.0 has become 1 in them.
	dec := json.NewDecoder(bytes.NewReader(canonical))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		c.reject(textKind(jcs.KindSyntax), "%v", err)
		return nil, nil
	}
	value, ok := v.(map[string]any)
	if !ok {
		c.reject(KindNotABundle, "the text is JSON but no object; a bundle is one object with a bundleVersion")
		return nil, nil
	}
	return canonical, value
}

// countValues counts commas and opening brackets outside strings, which bounds the number of values from below and is
// right for valid JSON to within the number of containers. It stops past MaxValues.
func countValues(data []byte) int {
	n, inString := 0, false
	for i := 0; i < len(data) && n <= MaxValues; i++ {
		switch data[i] {
		case '"':
			inString = !inString
		case '\\':
			if inString {
				i++
			}
		case ',', '[', '{':
			if !inString {
				n++
			}
		}
	}
	return n
}

// tooMany rejects lists that are longer than any real bundle's before they are compared item by item.
func tooMany(c *collector, value map[string]any) bool {
	found := false
	for _, limit := range []struct {
		most int
		path []string
	}{
		{MaxRows, []string{"results", "requirements"}},
		{MaxRows, []string{"detail", "nonPass"}},
		{MaxClaims, []string{"claimedProfiles"}},
		{MaxClaims, []string{"host", "relaxations"}},
		{MaxClaims, []string{"discovery", "protocolVersions"}},
	} {
		var v any = value
		for _, name := range limit.path {
			record, _ := v.(map[string]any)
			v = record[name]
		}
		if list, ok := v.([]any); ok && len(list) > limit.most {
			c.reject(KindTooLarge, "/%s holds %d entries; at most %d are judged", joinPath(limit.path), len(list), limit.most)
			found = true
		}
	}
	return found
}

func joinPath(path []string) string {
	text := path[0]
	for _, name := range path[1:] {
		text += "/" + name
	}
	return text
}

// parse reads canonical bytes that satisfy the schema.
func parse(canonical []byte, value map[string]any) (*parsed, error) {
	p := &parsed{value: value}
	var raw struct {
		*Bundle
		// Shadows Bundle.Results: the rows are kept as they were received, because the digest is over exactly the
		// members they came with.
		Results struct {
			Totals       Totals            `json:"totals"`
			Requirements []json.RawMessage `json:"requirements"`
		} `json:"results"`
	}
	raw.Bundle = &p.Bundle
	if err := json.Unmarshal(canonical, &raw); err != nil {
		return nil, err
	}
	p.Results.Totals = raw.Results.Totals
	p.Results.Requirements = make([]Row, len(raw.Results.Requirements))
	p.rows = make([]canonicalRow, len(raw.Results.Requirements))
	for i, text := range raw.Results.Requirements {
		if err := json.Unmarshal(text, &p.Results.Requirements[i]); err != nil {
			return nil, err
		}
		p.rows[i] = canonicalRow{p.Results.Requirements[i].ID, text}
	}
	if discovery, ok := value["discovery"].(map[string]any); ok {
		p.document, _ = discovery["document"].(map[string]any)
	}
	return p, nil
}
