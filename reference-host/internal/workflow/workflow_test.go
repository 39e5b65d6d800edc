package workflow_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/corpus"
	"wopcert/reference-host/internal/workflow"
)

// definition is a valid workflow of two nodes, a -> b, with members replaced.
func definition(replace map[string]string) []byte {
	members := map[string]string{
		"id": `"w"`, "name": `"W"`, "version": `"1"`,
		"nodes": `[` + node("a", "") + `,` + node("b", "") + `]`,
		"edges": `[{"id":"e","sourceNodeId":"a","targetNodeId":"b"}]`, "triggers": `[]`, "variables": `[]`, "metadata": `{}`, "settings": `{}`,
	}
	for name, value := range replace {
		members[name] = value
	}
	var parts []string
	for name, value := range members {
		parts = append(parts, fmt.Sprintf("%q:%s", name, value))
	}
	return []byte("{" + strings.Join(parts, ",") + "}")
}

func node(id, more string) string {
	return `{"id":"` + id + `","typeId":"core.noop","name":"N","position":{"x":0,"y":0},"config":{},"inputs":{}` + more + `}`
}

func parse(t *testing.T, document []byte) (*workflow.Definition, error) {
	t.Helper()
	contract, err := corpus.Load()
	require.NoError(t, err)
	return workflow.Parse(contract, document)
}

func TestParse(t *testing.T) {
	t.Parallel()
	def, err := parse(t, definition(nil))
	require.NoError(t, err)
	assert.Equal(t, "w", def.ID)
	assert.Equal(t, []int{1}, def.Nodes[0].Outgoing)
	assert.Equal(t, []workflow.Edge{{Source: 0, Output: "output", Input: "input"}}, def.Nodes[1].Incoming)
	assert.Equal(t, workflow.AllSuccess, def.Nodes[1].Rule)
	require.NoError(t, def.CheckConfigurable(map[string]any{"anything": true}))
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	edge := func(more string) string {
		return `[{"id":"e","sourceNodeId":"a","targetNodeId":"b"` + more + `}]`
	}
	withInput := func(port string) string {
		return `[` + node("a", "") + `,` + strings.Replace(node("b", ""), `"inputs":{}`, `"inputs":{"p":`+port+`}`, 1) + `]`
	}
	for name, c := range map[string]struct{ member, value, says string }{
		"no nodes":               {"nodes", `[]`, "workflow definition"},
		"unknown member":         {"extra", `1`, "workflow definition"},
		"two nodes of one id":    {"nodes", `[` + node("a", "") + `,` + node("a", "") + `]`, "two nodes"},
		"id no event carries":    {"nodes", `[` + node("a b", "") + `]`, "not one an event can carry"},
		"edge to nowhere":        {"edges", `[{"id":"e","sourceNodeId":"a","targetNodeId":"x"}]`, "edge e"},
		"loop":                   {"edges", `[{"id":"e","sourceNodeId":"a","targetNodeId":"b"},{"id":"f","sourceNodeId":"b","targetNodeId":"a"}]`, "loop"},
		"node before itself":     {"edges", `[{"id":"e","sourceNodeId":"a","targetNodeId":"a"}]`, "loop"},
		"expression condition":   {"edges", edge(`,"condition":{"type":"expression","expression":"1"}`), "expressions"},
		"condition without left": {"edges", edge(`,"condition":{"type":"truthy"}`), "left operand"},
		"condition, no right":    {"edges", edge(`,"condition":{"type":"equals","left":"x"}`), "right operand"},
		"bad regex":              {"edges", edge(`,"condition":{"type":"regex","left":"x","right":"("}`), "regex"},
		"regex is a number":      {"edges", edge(`,"condition":{"type":"regex","left":"x","right":1}`), "not text"},
		"no operator":            {"edges", edge(`,"condition":{"left":"x"}`), "operator"},
		"mixed rules": {"edges", `[{"id":"e","sourceNodeId":"a","targetNodeId":"b"},
			{"id":"f","sourceNodeId":"a","targetNodeId":"b","triggerRule":"any_failed"}]`, "different trigger rules"},
		"expression input":     {"nodes", withInput(`{"type":"expression","expression":"1"}`), "expressions"},
		"connection to nobody": {"nodes", withInput(`{"type":"connection","nodeId":"x","outputKey":"o"}`), "no node x"},
		"channels":             {"channels", `{"c":{"reducer":"append"}}`, "channels"},
		"retries":              {"settings", `{"maxRetries":1}`, "maxRetries"},
		"compensation":         {"settings", `{"compensation":{}}`, "compensation"},
		"sensitive variable":   {"variables", `[{"name":"v","type":"string","sensitive":true}]`, "sensitive"},
		"schema is no schema":  {"configurableSchema", `{"type":7}`, "configurableSchema"},
		"schema leads outside": {"configurableSchema", `{"$ref":"https://example.org/x"}`, "configurableSchema"},
		"schema reads a file":  {"configurableSchema", `{"$ref":"file:///etc/passwd"}`, "configurableSchema"},
	} {
		_, err := parse(t, definition(map[string]string{c.member: c.value}))
		require.Error(t, err, name)
		assert.Contains(t, err.Error(), c.says, name)
	}
	_, err := parse(t, []byte(`{"id":`))
	require.Error(t, err)
}

func TestConditions(t *testing.T) {
	t.Parallel()
	values := map[string]any{
		"text": "hello world", "n": 3.0, "zero": 0.0, "list": []any{"a", 1.0}, "map": map[string]any{"k": nil}, "yes": true, "no": false, "empty": "",
	}
	for _, c := range []struct {
		condition string
		holds     bool
	}{
		{`{"type":"equals","left":"n","right":3}`, true},
		{`{"type":"equals","left":"n","right":"3"}`, false},
		{`{"type":"equals","left":"gone","right":null}`, true},
		{`{"type":"notEquals","left":"n","right":4}`, true},
		{`{"type":"contains","left":"text","right":"lo w"}`, true},
		{`{"type":"contains","left":"text","right":1}`, false},
		{`{"type":"contains","left":"list","right":1}`, true},
		{`{"type":"contains","left":"list","right":2}`, false},
		{`{"type":"contains","left":"map","right":"k"}`, true},
		{`{"type":"contains","left":"map","right":"x"}`, false},
		{`{"type":"contains","left":"map","right":1}`, false},
		{`{"type":"contains","left":"n","right":3}`, false},
		{`{"type":"regex","left":"text","right":"^hel+o"}`, true},
		{`{"type":"regex","left":"n","right":"3"}`, false},
		{`{"type":"truthy","left":"list.0"}`, true},
		{`{"type":"truthy","left":"list.7"}`, false},
		{`{"type":"truthy","left":"list.x"}`, false},
		{`{"type":"truthy","left":"map"}`, true},
		{`{"type":"truthy","left":"map.k"}`, false},
		{`{"type":"truthy","left":"yes"}`, true},
		{`{"type":"falsy","left":"no"}`, true},
		{`{"type":"falsy","left":"zero"}`, true},
		{`{"type":"falsy","left":"empty"}`, true},
		{`{"type":"falsy","left":"gone.too"}`, true},
		{`{"type":"falsy","left":"n","right":"ignored"}`, false},
	} {
		def, err := parse(t, definition(map[string]string{"edges": `[{"id":"e","sourceNodeId":"a","targetNodeId":"b","condition":` + c.condition + `}]`}))
		require.NoError(t, err, c.condition)
		holds := def.Nodes[1].Incoming[0].Condition.Holds(func(path []string) any { return workflow.Descend(values, path) })
		assert.Equal(t, c.holds, holds, c.condition)
	}
}

func TestSeed(t *testing.T) {
	t.Parallel()
	def, err := parse(t, definition(map[string]string{"variables": `[{"name":"s","type":"string","required":true},
		{"name":"n","type":"number","defaultValue":1},{"name":"o","type":"object"},{"name":"a","type":"array"},{"name":"b","type":"boolean"}]`}))
	require.NoError(t, err)
	seed := func(inputs string) (string, error) {
		var values map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(inputs), &values))
		variables, err := def.Seed(values)
		text, _ := json.Marshal(variables)
		return string(text), err
	}
	got, err := seed(`{"s":"x","undeclared":1}`)
	require.NoError(t, err)
	assert.JSONEq(t, `{"s":"x","n":1}`, got)
	got, err = seed(`{"s":"x","n":2.5,"o":{},"a":[],"b":false}`)
	require.NoError(t, err)
	assert.JSONEq(t, `{"s":"x","n":2.5,"o":{},"a":[],"b":false}`, got)
	for _, bad := range []string{`{}`, `{"s":1}`, `{"s":null}`, `{"s":"x","n":"1"}`, `{"s":"x","o":[]}`, `{"s":"x","a":{}}`, `{"s":"x","b":0}`} {
		_, err := seed(bad)
		var input *workflow.InputError
		require.ErrorAs(t, err, &input, bad)
	}
}

func TestConfigurableSchema(t *testing.T) {
	t.Parallel()
	def, err := parse(t, definition(map[string]string{"configurableSchema": `{"type":"object","required":["run"]}`}))
	require.NoError(t, err)
	require.NoError(t, def.CheckConfigurable(nil))
	require.NoError(t, def.CheckConfigurable(map[string]any{"run": map[string]any{}}))
	require.Error(t, def.CheckConfigurable(map[string]any{}))
}
