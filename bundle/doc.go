// Package bundle makes and judges certification bundles of version 3 (conformance.md §Bundle v3): the signed record of
// what a conformance run observed on a host.
//
// [Build] turns rows, a captured discovery document and the facts of the run into a [Bundle], [Sign] attests it,
// [Encode] gives the bytes to write. [Verify] takes any bytes at all and answers three questions apart from each
// other: is the evidence sound, is it attributable, which of the claimed profiles does it certify. Build and Verify
// share every rule, so that what this package emits is what it accepts.
//
// # What the signature covers
//
// The attestation is over four values: the witness digest (every row, and the relaxations and the deployment where
// there are any), the host's build, the suite's version and the digest of the captured discovery document. Everything
// else in the file can be rewritten by whoever holds it: the claims and their certified flags, the totals, the reasons
// in detail, the discovery URL, the host's name, the durability rung. Verify therefore derives all it reports from the
// four, and refuses a file in which the rest contradicts them.
package bundle
