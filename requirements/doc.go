// Package requirements holds what a host is measured against: the registry of
// requirements with a Go constant for each, the ids that were renamed, and the
// map from the obligations of the specification to the requirements that
// witness them.
//
// The tables are data files of the package, embedded: registry.json,
// aliases.json, ids.lock, obligations.tsv, beyond.tsv and upstream-ids.txt.
// They are read strictly and checked against each other once; [Load] says what
// is wrong with them, and the tests of the package fail on it.
package requirements

//go:generate go run ./internal/generate

// ID names one requirement, for instance openwop.requirement.0170.run-cancel.
// Its constants are generated, and they are the only form in which a scenario
// may name a requirement.
type ID string

// Prefix starts every requirement id. What follows is the area, a number or
// the name of a document, and the requirement's own name.
const Prefix = "openwop.requirement."
