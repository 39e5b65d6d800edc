package testnet

import (
	"wopcert/bundle"
	referencehost "wopcert/reference-host"
)

// Relaxations are what a bundled host is said to run under.
func Relaxations(config referencehost.Config) []bundle.Relaxation {
	var out []bundle.Relaxation
	for _, r := range config.Relaxations {
		out = append(out, bundle.Relaxation{Obligation: r.Obligation, Durability: r.Durability, Reason: r.Reason})
	}
	return out
}
