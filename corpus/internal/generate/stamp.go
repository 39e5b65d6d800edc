package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
)

// specArtifactsVersion has to equal corpus.SpecArtifactsVersion; the corpus refuses
// a stamp that states another. It is repeated because this command writes a file
// that package corpus embeds.
const specArtifactsVersion = "2.44.6"

const stampName = "CORPUS-STAMP.json"

// renderStamp lists the digest of every contract file under root, the freshly
// rendered ones in place of those on disk.
func renderStamp(root string, rendered map[string][]byte) ([]byte, error) {
	files := map[string]string{}
	for _, pattern := range []string{"schemas/*.json", "registries/*.json", "api/*.json"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			name, err := filepath.Rel(root, path)
			if err != nil {
				return nil, err
			}
			name = filepath.ToSlash(name)
			data, fresh := rendered[name]
			if !fresh {
				if data, err = os.ReadFile(path); err != nil {
					return nil, err
				}
			}
			files[name] = digest(data)
		}
	}
	for name, data := range rendered {
		files[name] = digest(data)
	}
	out, err := json.MarshalIndent(map[string]any{
		"specArtifactsVersion": specArtifactsVersion,
		"files":                files,
	}, "", "  ")
	return append(out, '\n'), err
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
