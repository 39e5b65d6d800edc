package boltstore

import (
	"bytes"
	"context"
	"encoding/json"

	bolt "go.etcd.io/bbolt"

	"wopcert/reference-host/internal/eventlog"
)

// Annotate implements eventlog.Sides.
func (s *Store) Annotate(_ context.Context, runID string, annotation eventlog.Annotation) error {
	value, err := encode(annotation)
	if err != nil {
		return err
	}
	return s.writer.do(func(tx *bolt.Tx) error {
		bucket := tx.Bucket(bucketAnnotations)
		number, err := bucket.NextSequence()
		if err != nil {
			return err
		}
		return put(bucket, eventKey(runID, int64(number)), value)
	}, nil)
}

// Annotations implements eventlog.Sides.
func (s *Store) Annotations(_ context.Context, runID string) (list []eventlog.Annotation, err error) {
	err = s.writer.view(func(tx *bolt.Tx) error {
		prefix := append([]byte(runID), 0)
		cursor := tx.Bucket(bucketAnnotations).Cursor()
		for key, sealed := cursor.Seek(prefix); bytes.HasPrefix(key, prefix); key, sealed = cursor.Next() {
			value, err := unseal(key, sealed)
			if err != nil {
				return err
			}
			var annotation eventlog.Annotation
			if err := json.Unmarshal(value, &annotation); err != nil {
				return err
			}
			list = append(list, annotation)
		}
		return nil
	})
	return list, err
}

// PutArtifact implements eventlog.Sides.
func (s *Store) PutArtifact(_ context.Context, tenant string, artifact eventlog.Artifact) error {
	value, err := encode(artifact)
	if err != nil {
		return err
	}
	key := artifactKey(tenant, artifact.ID)
	return s.writer.do(func(tx *bolt.Tx) error {
		bucket := tx.Bucket(bucketArtifacts)
		if bucket.Get(key) != nil {
			return refused{eventlog.ErrExists}
		}
		return put(bucket, key, value)
	}, nil)
}

// Artifact implements eventlog.Sides.
func (s *Store) Artifact(_ context.Context, tenant, artifactID string) (artifact eventlog.Artifact, err error) {
	key := artifactKey(tenant, artifactID)
	err = s.writer.view(func(tx *bolt.Tx) error {
		sealed := tx.Bucket(bucketArtifacts).Get(key)
		if sealed == nil {
			return eventlog.ErrNotFound
		}
		value, err := unseal(key, sealed)
		if err != nil {
			return err
		}
		return json.Unmarshal(value, &artifact)
	})
	return artifact, err
}

func artifactKey(tenant, id string) []byte { return []byte(tenant + "\x00" + id) }
