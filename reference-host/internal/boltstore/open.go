package boltstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
	"weak"

	bolt "go.etcd.io/bbolt"

	"wopcert/reference-host/internal/eventlog"
)

// The format of the file, which the bucket bucketMeta names.
const (
	formatName    = "wopcert-store"
	formatVersion = 1
)

var formatKey = []byte("format")

// format is the one row of bucketMeta.
type format struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
}

// smallest is the size of a file that holds nothing.
const smallest = 4 * 4096

// lockWait is how long Open waits for another process to let go of the file.
const lockWait = time.Second

// FileError is the refusal to open a file. Its text says what is wrong with it and what to do.
type FileError struct {
	Path   string
	Reason string
	Advice string
	Err    error
}

func (e *FileError) Error() string {
	text := fmt.Sprintf("store %s: %s; %s", e.Path, e.Reason, e.Advice)
	if e.Err != nil {
		text += fmt.Sprintf(" (%v)", e.Err)
	}
	return text
}

func (e *FileError) Unwrap() error { return e.Err }

// Open opens a store, and makes it when there is no file or an empty one. Every row of the file is read and checked
// before anything is served from it, so that a damaged file is refused and never served in part; the error is then a
// *FileError. follows says whether an event of a type may stand after the terminal one.
func Open(path string, follows func(eventType string) bool) (*Store, error) {
	info, err := os.Stat(path)
	fresh := errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().IsRegular() && info.Size() == 0
	if err != nil && !fresh {
		return nil, &FileError{path, "it cannot be read", "check the path and its permissions", err}
	}
	if !fresh {
		if !info.Mode().IsRegular() {
			return nil, &FileError{path, "it is not a regular file", "name a file", nil}
		}
		if info.Size() < smallest {
			return nil, damaged(path, fmt.Errorf("it has %d bytes and a store has at least %d", info.Size(), smallest))
		}
		if info.Mode().Perm()&0o077 != 0 {
			return nil, &FileError{path, "other users may open it", "take their permissions away: chmod 600 " + path, nil}
		}
		if err := inspect(path); err != nil {
			return nil, err
		}
	}
	db, err := openFile(path, false)
	if err != nil {
		return nil, err
	}
	if err := db.Update(prepare); err != nil {
		return nil, errors.Join(&FileError{path, "it cannot be written", "check its permissions and the space on the disk", err}, db.Close())
	}
	s := &Store{db: db, follows: follows, writer: newWriter(db), logs: make(map[string]weak.Pointer[log])}
	s.claimed = make(map[eventlog.RecordKey]*claim)
	return s, nil
}

// openFile opens and locks the file.
func openFile(path string, readOnly bool) (*bolt.DB, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{
		Timeout: lockWait, ReadOnly: readOnly, NoFreelistSync: true, FreelistType: bolt.FreelistMapType,
	})
	switch {
	case err == nil:
		return db, nil
	case errors.Is(err, bolt.ErrTimeout):
		return nil, &FileError{path, "another process has it open", "stop that process, or name another file", nil}
	case errors.Is(err, bolt.ErrInvalid), errors.Is(err, bolt.ErrVersionMismatch), errors.Is(err, bolt.ErrChecksum):
		return nil, &FileError{path, "it is not a store of this program, or its beginning is damaged", "name another file, or restore this one from a copy", err}
	}
	return nil, &FileError{path, "it cannot be opened", "check the path and its permissions, or restore it from a copy", err}
}

// prepare writes the format and the buckets of a new file.
func prepare(tx *bolt.Tx) error {
	if tx.Bucket(bucketMeta) != nil {
		return nil
	}
	for _, name := range buckets() {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	value, err := json.Marshal(format{Name: formatName, Version: formatVersion})
	if err != nil {
		return err
	}
	return put(tx.Bucket(bucketMeta), formatKey, value)
}

func buckets() [][]byte {
	return [][]byte{
		bucketMeta, bucketRuns, bucketEvents, bucketTenants, bucketActive, bucketScopes, bucketRecords, bucketExpiries,
		bucketAnnotations, bucketArtifacts, bucketTables,
	}
}

// inspect refuses a file that is not a whole store of a version this program reads. The file is locked meanwhile, so
// that nobody writes to it.
func inspect(path string) (err error) {
	locked, err := openFile(path, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locked.Close()) }()
	file, err := os.Open(path)
	if err != nil {
		return &FileError{path, "it cannot be read", "check its permissions", err}
	}
	defer file.Close()
	w, err := newWalk(file)
	if err != nil {
		return damaged(path, err)
	}
	names, err := w.top()
	if err != nil {
		return damaged(path, err)
	}
	if len(names) == 0 {
		return nil // its maker died before it wrote anything, and it is made anew
	}
	if err := w.checkFormat(path); err != nil {
		return err
	}
	for _, name := range buckets() {
		if !names[string(name)] {
			return damaged(path, fmt.Errorf("the part %q is missing", name))
		}
	}
	if err := w.checkRows(); err != nil {
		return damaged(path, err)
	}
	return nil
}

func damaged(path string, err error) error {
	return &FileError{path, "it is cut short or damaged", "restore it from a copy, or name another file", err}
}
