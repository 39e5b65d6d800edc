package corpus

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
)

// StampError says that the contract files are not the ones CORPUS-STAMP.json
// describes. A program that gets one must not certify anything.
type StampError struct {
	// Path is the file at fault, relative to the corpus root.
	Path string
	// Reason is "missing", "changed", "not listed", or says what is wrong with
	// the stamp itself.
	Reason string
}

func (e *StampError) Error() string {
	return fmt.Sprintf("corpus: %s: %s (the contract files do not match %s; restore them or reinstall the program)",
		e.Path, e.Reason, stampName)
}

type stamp struct {
	SpecArtifactsVersion string            `json:"specArtifactsVersion"`
	Files                map[string]string `json:"files"`
}

// checkStamp compares the tree with its stamp both ways and returns the digest
// of the stamp file.
func checkStamp(fsys fs.FS) (string, error) {
	raw, err := fs.ReadFile(fsys, stampName)
	if err != nil {
		return "", &StampError{Path: stampName, Reason: "missing"}
	}
	var s stamp
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return "", &StampError{Path: stampName, Reason: "not a stamp: " + err.Error()}
	}
	if s.SpecArtifactsVersion != SpecArtifactsVersion {
		return "", &StampError{Path: stampName, Reason: fmt.Sprintf("states contract version %q, the program %q",
			s.SpecArtifactsVersion, SpecArtifactsVersion)}
	}
	for _, path := range slices.Sorted(maps.Keys(s.Files)) {
		data, err := fs.ReadFile(fsys, path)
		if err != nil {
			return "", &StampError{Path: path, Reason: "missing"}
		}
		if hexSHA256(data) != s.Files[path] {
			return "", &StampError{Path: path, Reason: "changed"}
		}
	}
	for _, root := range []string{"schemas", "registries", "api"} {
		err := fs.WalkDir(fsys, root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return &StampError{Path: path, Reason: "missing"}
			}
			if _, listed := s.Files[path]; !listed && !entry.IsDir() {
				return &StampError{Path: path, Reason: "not listed"}
			}
			return nil
		})
		if err != nil {
			return "", err
		}
	}
	return hexSHA256(raw), nil
}

func hexSHA256(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
