package evals_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/corpus"
	"wopcert/reference-host/internal/evals"
)

func TestBuiltin(t *testing.T) {
	t.Parallel()
	contract, err := corpus.Load()
	require.NoError(t, err)
	suites, err := evals.Builtin(contract)
	require.NoError(t, err)
	assert.Len(t, suites["core.wopcert.evals.golden"].Tasks, 2)
	assert.Len(t, suites["core.wopcert.evals.slow"].Tasks, 1)
}

const document = `{"suiteId":"a.evals.b","version":"1.0.0","modes":["golden"],%s"tasks":[{"taskId":"t","input":{},"expected":%s}]}`

func TestScore(t *testing.T) {
	t.Parallel()
	contract, err := corpus.Load()
	require.NoError(t, err)
	for _, c := range []struct {
		strategy, want, output string
		score                  float64
	}{
		{"exact", `"a"`, `"a"`, 1}, {"exact", `"a"`, `"a "`, 0}, {"exact", `"1"`, `1`, 1}, {"exact", `1`, `"2"`, 0},
		{"contains", `"b"`, `"abc"`, 1}, {"contains", `"B"`, `"abc"`, 0}, {"contains", `"x"`, `{"x":1}`, 1},
		{"json-match", `{"a":1,"b":2}`, `{ "b":2.0, "a":1 }`, 1}, {"json-match", `{"a":1}`, `{"a":1,"b":2}`, 0}, {"json-match", `"a"`, `"a"`, 1},
	} {
		suite, err := evals.Parse(contract, fmt.Appendf(nil, document, `"thresholds":{"passScore":1},`,
			`{"kind":"golden","match":{"strategy":"`+c.strategy+`","value":`+c.want+`}}`))
		require.NoError(t, err)
		score, err := suite.Tasks[0].Score(json.RawMessage(c.output))
		require.NoError(t, err)
		assert.InDelta(t, c.score, score, 0, "%+v", c)
		_, err = suite.Tasks[0].Score(json.RawMessage(`{`))
		assert.Equal(t, c.strategy == "json-match", err != nil)
	}
}

func TestSuitesThisHostCannotScore(t *testing.T) {
	t.Parallel()
	contract, err := corpus.Load()
	require.NoError(t, err)
	const golden = `{"kind":"golden","match":{"strategy":"exact","value":1}}`
	for _, bad := range []string{
		`{}`,
		fmt.Sprintf(document, ``, golden),
		fmt.Sprintf(document, `"thresholds":{},`, golden),
		fmt.Sprintf(document, `"thresholds":{"passScore":1},`, `{"kind":"golden"}`),
		fmt.Sprintf(document, `"thresholds":{"passScore":1},`, `{"kind":"rubric","rubric":[{"criterion":"c","weight":1}]}`),
	} {
		_, err := evals.Parse(contract, []byte(bad))
		require.ErrorContains(t, err, "eval suite", bad)
	}
}
