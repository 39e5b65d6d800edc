// Package vectors stands for the published test vectors in this folder: canonical JSON, attestations and certification
// bundles. They are plain files, described in README.md, and need neither Go nor this program.
package vectors

//go:generate go run ./internal/generate
