package workflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// optionsSchema is a workflow's configurableSchema, compiled.
type optionsSchema struct{ schema *jsonschema.Schema }

func compileOptions(raw json.RawMessage) (_ *optionsSchema, err error) {
	if len(raw) == 0 {
		return nil, nil
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("configurableSchema: %v", r)
		}
	}()
	const url = "mem:configurable-schema"
	compiler := jsonschema.NewCompiler()
	compiler.Draft = jsonschema.Draft2020
	compiler.LoadURL = func(string) (io.ReadCloser, error) {
		return nil, errors.New("a configurableSchema may refer to nothing outside itself")
	}
	if err := compiler.AddResource(url, bytes.NewReader(raw)); err != nil {
		return nil, fmt.Errorf("configurableSchema: %w", err)
	}
	schema, err := compiler.Compile(url)
	if err != nil {
		return nil, fmt.Errorf("configurableSchema: %w", err)
	}
	return &optionsSchema{schema}, nil
}

// check validates a decoded configurable; an absent one is as good as an empty object to a schema that requires
// nothing, so it is not checked at all.
func (o *optionsSchema) check(configurable any) (err error) {
	if configurable == nil {
		return nil
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the workflow's configurableSchema cannot judge the value: %v", r)
		}
	}()
	if err := o.schema.Validate(configurable); err != nil {
		return errors.New("it does not match the workflow's configurableSchema")
	}
	return nil
}
