package workflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// Schema is a JSON Schema that came with a workflow, compiled.
type Schema struct {
	what   string
	schema *jsonschema.Schema
}

// CompileSchema compiles a schema, nil for none; what names it in errors. It may refer to nothing outside itself.
func CompileSchema(what string, raw json.RawMessage) (_ *Schema, err error) {
	if len(raw) == 0 {
		return nil, nil
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: %v", what, r)
		}
	}()
	const url = "mem:schema"
	compiler := jsonschema.NewCompiler()
	compiler.Draft = jsonschema.Draft2020
	compiler.LoadURL = func(string) (io.ReadCloser, error) {
		return nil, fmt.Errorf("a %s may refer to nothing outside itself", what)
	}
	if err := compiler.AddResource(url, bytes.NewReader(raw)); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	schema, err := compiler.Compile(url)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return &Schema{what, schema}, nil
}

// Check validates a decoded value. A nil Schema accepts every value.
func (s *Schema) Check(value any) (err error) {
	if s == nil {
		return nil
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the %s cannot judge the value: %v", s.what, r)
		}
	}()
	if err := s.schema.Validate(value); err != nil {
		return errors.New("it does not match the " + s.what)
	}
	return nil
}
