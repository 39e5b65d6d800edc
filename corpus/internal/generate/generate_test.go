package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// corpusRoot is the package folder seen from here.
const corpusRoot = "../.."

func TestGeneratedFilesAreCurrent(t *testing.T) {
	t.Parallel()
	files, err := render(corpusRoot)
	require.NoError(t, err)
	require.Len(t, files, 3)
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(corpusRoot, filepath.FromSlash(name)))
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), "%s is stale: run go generate ./corpus", name)
	}
}

// The annotations of the envelope mirror the registry, code by code.
func TestErrorEnvelopeMirrorsTheRegistry(t *testing.T) {
	t.Parallel()
	var registry struct {
		Codes []errorRow `json:"codes"`
	}
	require.NoError(t, readJSON(corpusRoot, "registries/errors.json", &registry))
	files, err := render(corpusRoot)
	require.NoError(t, err)
	var envelope struct {
		Status    map[string]int `json:"x-openwop-http-status"`
		Retriable []string       `json:"x-openwop-retriable"`
		AllOf     []any          `json:"allOf"`
		Defs      struct {
			Code struct {
				Enum []string `json:"enum"`
			} `json:"registeredCode"`
		} `json:"$defs"`
	}
	require.NoError(t, json.Unmarshal(files["schemas/error-envelope.schema.json"], &envelope))
	require.Len(t, envelope.Status, len(registry.Codes))
	var codes, retriable []string
	detailed := 0
	for _, row := range registry.Codes {
		require.Equal(t, row.HTTPStatus, envelope.Status[row.Code], row.Code)
		codes = append(codes, row.Code)
		if row.Retriable {
			retriable = append(retriable, row.Code)
		}
		if row.Details != "" {
			detailed++
		}
	}
	require.Equal(t, codes, envelope.Defs.Code.Enum)
	require.Equal(t, retriable, envelope.Retriable)
	require.Len(t, envelope.AllOf, detailed)
}

func TestRunWritesWhatRenderComputes(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	require.NoError(t, os.CopyFS(root, os.DirFS(corpusRoot)))
	registry := filepath.Join(root, "registries", "orgs.json")
	require.NoError(t, os.WriteFile(registry, []byte(`{"orgs":["example"],"reserved":["openwop","later"]}`), 0o644))
	before, err := os.ReadFile(filepath.Join(root, stampName))
	require.NoError(t, err)
	require.NoError(t, run(root))
	event, err := os.ReadFile(filepath.Join(root, "schemas", "run-event.schema.json"))
	require.NoError(t, err)
	require.Contains(t, string(event), "|later|", "a reserved organisation reaches the vendor branch")
	after, err := os.ReadFile(filepath.Join(root, stampName))
	require.NoError(t, err)
	require.NotEqual(t, before, after)
	require.NoError(t, run(root))
	again, err := os.ReadFile(filepath.Join(root, stampName))
	require.NoError(t, err)
	require.Equal(t, after, again, "a second run changes nothing")
}

func TestRenderNamesTheFileItCannotRead(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	_, err := render(root)
	require.ErrorContains(t, err, "errors.json")
	require.NoError(t, os.MkdirAll(filepath.Join(root, "registries"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "registries", "errors.json"), []byte("{"), 0o644))
	require.ErrorContains(t, run(root), "registries/errors.json")
}
