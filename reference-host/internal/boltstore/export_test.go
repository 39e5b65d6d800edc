package boltstore

import (
	"encoding/json"

	bolt "go.etcd.io/bbolt"
)

// Held is the number of logs somebody holds.
func (s *Store) Held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.logs)
}

// WriteFormat writes a store of another format version.
func WriteFormat(path string, version int) error {
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		value, err := json.Marshal(format{Name: formatName, Version: version})
		if err != nil {
			return err
		}
		bucket, err := tx.CreateBucket(bucketMeta)
		if err != nil {
			return err
		}
		return put(bucket, formatKey, value)
	})
	if err != nil {
		return err
	}
	return db.Close()
}

// Used is how much of a file its head says is in use.
func Used(content []byte) int {
	used := 0
	for _, at := range []int{0, 4096} {
		if m, err := readMeta(readerAt(content), int64(at)); err == nil {
			used = max(used, int(m.pages)*int(m.pageSize))
		}
	}
	return used
}

type readerAt []byte

func (r readerAt) ReadAt(p []byte, at int64) (int, error) { return copy(p, r[at:]), nil }
