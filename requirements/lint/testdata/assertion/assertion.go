package assertion

import (
	"log"
	"os"
	"runtime"
	"testing" // want assertion "do not import testing"

	_ "github.com/stretchr/testify/assert" // want assertion "do not import github.com/stretchr/testify/assert"

	"wopcert/requirements"
	"wopcert/requirements/lint/testdata/harness"
)

func Scenarios() []harness.Scenario {
	return []harness.Scenario{{ID: "v2-one", Tests: []harness.Test{{
		Name:      "a",
		Witnesses: []requirements.ID{requirements.R0170RunCancel},
		Run: func(t *harness.T) {
			t.Expect(requirements.R0170RunCancel, harness.That(true))
			t.Fatalf("no")       // want assertion "names no requirement"
			t.RequireStatus(200) // want assertion "names no requirement"
			fail := t.Fatalf     // want assertion "names no requirement"
			fail("no")
			panic("no") // want assertion "panic is no verdict"
		},
	}}}}
}

func leave() {
	runtime.Goexit() // want assertion "no verdict"
	log.Fatal("no")  // want assertion "no verdict"
	os.Exit(1)       // want assertion "no verdict"
	_ = testing.Short()
}
