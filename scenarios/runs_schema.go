package scenarios

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"wopcert/harness"
	"wopcert/requirements"
)

const schemaBound = "conformance-configurable-schema"

// configurableSchema: runs.md, "Validation and persistence".
func configurableSchema() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-configurable-schema",
		Title:    "The configurableSchema of a workflow is shown, and creates are held to it",
		Document: "runs.md",
		Section:  "Validation and persistence",
		Gates:    []harness.Gate{harness.NeedsFixture(schemaBound)},
		Tests: []harness.Test{
			{
				Name:      "getWorkflow of a workflow that has one",
				Witnesses: []requirements.ID{requirements.RunsConfigurableSchemaSurfaced},
				Run: func(t *harness.T) {
					r := getWorkflow(t, schemaBound)
					if !holds(r, schemaBound).OK {
						t.Abort("the host does not show the workflow %s: %s", schemaBound, answered(r))
					}
					schema, _ := r.Get("configurableSchema").(object)
					t.Expect(requirements.RunsConfigurableSchemaSurfaced, harness.That(len(schema) > 0,
						"a configurableSchema that states something", "configurableSchema %s", show(r.Get("configurableSchema"))).At(r))
				},
			},
			{
				Name:      "creates inside and outside the schema",
				Witnesses: []requirements.ID{requirements.RunsConfigurableSchemaEnforced},
				Run:       schemaEnforced,
			},
		},
	}
}

// schemaEnforced takes the schema as the host shows it, so that a host may
// word the workflow in its own way.
func schemaEnforced(t *harness.T) {
	r := getWorkflow(t, schemaBound)
	schema, err := compile(r.Get("configurableSchema"))
	if err != nil {
		t.Abort("the configurableSchema of %s cannot be read: %v", schemaBound, err)
	}
	var inside, outside object
	for _, configurable := range soundConfigurables() {
		switch fits := schema.Validate(plain(configurable)) == nil; {
		case fits && inside == nil:
			inside = configurable
		case !fits && outside == nil:
			outside = configurable
		}
	}
	if inside == nil || outside == nil {
		t.Abort("the configurableSchema of %s does not tell the configurables of the contract apart: it admits all of them or none", schemaBound)
	}
	body := object{"workflowId": schemaBound}
	accepted := create(t, with(body, "configurable", inside))
	if t.Expect(requirements.RunsConfigurableSchemaEnforced, admitted("a configurable that the schema admits", accepted)) {
		t.Expect(requirements.RunsConfigurableSchemaEnforced, completes(readLog(t, accepted.Text("runId"), settle)))
	}
	body, tag := tagged(with(body, "configurable", outside))
	t.Expect(requirements.RunsConfigurableSchemaEnforced, create(t, body).Refuses("validation_error"))
	t.Expect(requirements.RunsConfigurableSchemaEnforced, noRunTagged(t, harness.Primary, tag))
}

// soundConfigurables satisfy the contract and need no capability; those that a
// workflow is likeliest to speak of come first.
func soundConfigurables() []object {
	run := func(name string, value any) object { return object{"version": 1, "run": object{name: value}} }
	ai := func(name string, value any) object { return object{"version": 1, "ai": object{name: value}} }
	return []object{
		run("recursionLimit", 3), run("runTimeoutMs", 5000), run("escalationThreshold", 0.5),
		ai("temperature", 0.5), ai("maxTokens", 16), ai("maxRefusals", 1), ai("reasoningVerbosity", "none"),
		{"version": 1},
	}
}

// compile reads a schema that a host wrote. It may name no other document.
func compile(schema any) (*jsonschema.Schema, error) {
	if _, ok := schema.(object); !ok {
		return nil, errors.New("it is not an object")
	}
	data, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.LoadURL = func(string) (io.ReadCloser, error) { return nil, errors.New("it refers to another document") }
	const at = "urn:wopcert:configurable-schema"
	if err := c.AddResource(at, bytes.NewReader(data)); err != nil {
		return nil, err
	}
	return c.Compile(at)
}

// plain is a value as a JSON decoder would give it.
func plain(v any) any {
	data, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var out any
	if d.Decode(&out) != nil {
		return nil
	}
	return out
}

// metadataInert: runs.md, "tags and metadata".
func metadataInert() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-metadata-inert",
		Title:    "Metadata decides nothing about a run",
		Document: "runs.md",
		Section:  "tags and metadata",
		Gates:    []harness.Gate{harness.NeedsFixture(multiNode)},
		Tests: []harness.Test{{
			Name:      "metadata named like options and commands",
			Witnesses: []requirements.ID{requirements.RunsMetadataInert},
			Run: func(t *harness.T) {
				body := object{"workflowId": multiNode}
				harmless := object{"note": "nothing in particular", "of": object{"parts": object{"one": 1}}, "flag": true, "count": 3}
				control(t, harness.Primary, body)
				plain := create(t, with(body, "metadata", harmless))
				if !t.Expect(requirements.RunsMetadataInert, admitted("metadata of no meaning", plain)) {
					return
				}
				plainID := plain.Text("runId")
				plainLog := readLog(t, plainID, settle)
				without := snapshot(t, plainID)
				if len(eventsOfType(plainLog.events, "run.completed")) == 0 || !same("metadata", harmless, without.Get("metadata")).OK {
					t.Abort("no completed run with its metadata to compare with: status %q", plainLog.status)
				}
				commands := commandingMetadata()
				made := create(t, with(body, "metadata", commands))
				if !t.Expect(requirements.RunsMetadataInert, admitted("such metadata", made)) {
					return
				}
				id := made.Text("runId")
				defer endRun(t, id)
				l := readLog(t, id, settle)
				r := snapshot(t, id)
				t.Expect(requirements.RunsMetadataInert, harness.All(
					completes(l),
					harness.Equal("the course of the run", course(plainLog), course(l)),
					harness.Equal("workflowId", without.Get("workflowId"), r.Get("workflowId")),
					harness.Equal("engineVersion", without.Get("engineVersion"), r.Get("engineVersion")),
					same("metadata", commands, r.Get("metadata")),
				).At(r))
			},
		}},
	}
}

func commandingMetadata() object {
	return object{
		"recursionLimit": 1, "runTimeoutMs": 1, "maxLoopIterations": 1,
		"configurable": object{"version": 1, "run": object{"recursionLimit": 1, "runTimeoutMs": 1}},
		"status":       "failed", "cancel": true, "pause": true, "delayMs": 60_000,
		"inputs": object{"x": 1}, "workflowId": failure, "engineVersion": 99, "mode": "eval",
		"residency": object{"region": "wopcert-nowhere-1"}, "scopeId": "wopcert",
	}
}

// course is what a run did: the events of the run and of its nodes, in order.
func course(l log) []string {
	var out []string
	for _, e := range l.events {
		typ := text(e, "type")
		if len(typ) < 4 || typ[:4] != "run." && typ[:4] != "node" {
			continue
		}
		out = append(out, typ+" "+nodeOf(e))
	}
	return out
}
