package testnet

import (
	"wopcert/bundle"
	"wopcert/harness"
	referencehost "wopcert/reference-host"
)

// Recovery is what a bundled host claims of its durability, without the means to kill
// it.
func Recovery(config referencehost.Config) *harness.Recovery {
	r := &harness.Recovery{MaxAttempts: config.Recovery.MaxAttempts}
	for _, b := range config.Recovery.Bounds() {
		bound := bundle.RecoveryBound{Class: b.Class, Bound: b.Bound().Milliseconds()}
		for _, term := range b.Terms {
			bound.Terms = append(bound.Terms, bundle.BoundTerm{Name: term.Name, MS: term.Limit.Milliseconds()})
		}
		r.Bounds = append(r.Bounds, bound)
	}
	return r
}
