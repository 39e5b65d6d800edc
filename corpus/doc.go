// Package corpus is the OpenWOP v2 contract as data: the registries (error codes,
// event types, capability families, profiles, operations) and the JSON Schemas
// of the wire, embedded in the program and digest-checked before first use.
//
// Nothing here talks to a host. The harness asks it what the specification
// registers; the reference host asks it the same questions from the other side
// of the wire; the bundle verifier asks it which floor a contract version had.
package corpus

import "embed"

//go:generate go run ./internal/generate

// SpecArtifactsVersion is the contract version these files state. Bundles carry
// it as suite.specArtifactsVersion (conformance.md §Bundle v3).
const SpecArtifactsVersion = "2.44.6"

// ProtocolVersion is the protocol version of the contract, as it appears in
// protocolVersions and preferredVersion of a discovery document.
const ProtocolVersion = "2.0"

// stampName is the file that lists the digest of every other embedded file.
const stampName = "CORPUS-STAMP.json"

//go:embed schemas/*.json registries/*.json api/*.json CORPUS-STAMP.json
var embedded embed.FS
