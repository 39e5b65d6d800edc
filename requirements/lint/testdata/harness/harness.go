// Package harness has the shapes of the real one that the rules look at, so
// that the sources beside it stand on nothing else.
package harness

import "wopcert/requirements"

type Scenario struct {
	ID    string
	Title string
	Tests []Test
}

type Test struct {
	Name      string
	Witnesses []requirements.ID
	Run       func(*T)
}

type Check struct{ OK bool }

func That(ok bool) Check { return Check{OK: ok} }

type T struct{}

func (*T) Expect(requirements.ID, Check) bool             { return true }
func (*T) Should(requirements.ID, Check) bool             { return true }
func (*T) Inapplicable(requirements.ID, string, ...any)   {}
func (*T) Blocked(requirements.ID, string, ...any)        {}
func (*T) Abort(string, ...any)                           {}
func (*T) Do() bool                                       { return true }
func (*T) Fatalf(string, ...any)                          {}
func (*T) RequireStatus(int)                              {}
func ExpectAll(id requirements.ID, t *T, checks ...Check) {}
