package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// run writes every derived file under root.
func run(root string) error {
	files, err := render(root)
	if err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(root, filepath.FromSlash(name)), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// render computes every derived file under root without writing it. The stamp is
// last: it covers the others.
func render(root string) (map[string][]byte, error) {
	files := map[string][]byte{}
	envelope, err := renderErrorEnvelope(root)
	if err != nil {
		return nil, err
	}
	files["schemas/error-envelope.schema.json"] = envelope
	event, err := renderRunEvent(root)
	if err != nil {
		return nil, err
	}
	files["schemas/run-event.schema.json"] = event
	if files[stampName], err = renderStamp(root, files); err != nil {
		return nil, err
	}
	return files, nil
}

// object keeps its members in the order they are written, which a Go map does not.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON writes the members in order, without escaping what HTML would need.
func (o object) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			out.WriteByte(',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := marshal(m.value)
		if err != nil {
			return nil, err
		}
		out.Write(name)
		out.WriteByte(':')
		out.Write(value)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

func marshal(value any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimRight(out.Bytes(), "\n"), nil
}

// document renders a schema file: header, body, two-space indent, final newline.
func document(name, title, description string, body object) ([]byte, error) {
	schema := append(object{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"$id", "https://wopcert.invalid/schemas/" + name + ".schema.json"},
		{"title", title},
		{"description", description},
	}, body...)
	compact, err := marshal(schema)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, compact, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

func readJSON(root, name string, into any) error {
	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
