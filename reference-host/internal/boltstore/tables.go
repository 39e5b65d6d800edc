package boltstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"wopcert/reference-host/internal/eventlog"
)

// scanPage is how many rows a scan reads in one transaction: a long one would keep the file from being reused.
const scanPage = 256

// Get implements eventlog.Tables.
func (s *Store) Get(_ context.Context, table, key string) (value []byte, err error) {
	err = s.writer.view(func(tx *bolt.Tx) error {
		value, err = read(tx.Bucket(bucketTables).Bucket([]byte(table)), key)
		value = bytes.Clone(value)
		return err
	})
	if err == nil && value == nil {
		err = eventlog.ErrNotFound
	}
	return value, err
}

// read returns the value of a key, nil when it is absent, valid for as long as the transaction.
func read(table *bolt.Bucket, key string) ([]byte, error) {
	if table == nil || key == "" {
		return nil, nil
	}
	sealed := table.Get([]byte(key))
	if sealed == nil {
		return nil, nil
	}
	value, err := unseal([]byte(key), sealed)
	if value == nil && err == nil {
		value = []byte{}
	}
	return value, err
}

// Update implements eventlog.Tables.
func (s *Store) Update(_ context.Context, table, key string, change func(now []byte) ([]byte, error)) error {
	return s.writer.do(func(tx *bolt.Tx) error {
		bucket := tx.Bucket(bucketTables).Bucket([]byte(table))
		now, err := read(bucket, key)
		if err != nil {
			return refused{err}
		}
		value, err := guarded(change, now)
		if err != nil {
			return refused{err}
		}
		if bucket == nil {
			if value == nil {
				return nil
			}
			if bucket, err = tx.Bucket(bucketTables).CreateBucket([]byte(table)); err != nil {
				return err
			}
		}
		return putOrDelete(bucket, key, value)
	}, nil)
}

// guarded keeps a change that panics from taking down the writer, which everybody shares.
func guarded(change func([]byte) ([]byte, error), now []byte) (value []byte, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("the change panicked: %v", cause)
		}
	}()
	return change(now)
}

func putOrDelete(table *bolt.Bucket, key string, value []byte) error {
	if value == nil {
		return table.Delete([]byte(key))
	}
	return put(table, []byte(key), value)
}

// Scan implements eventlog.Tables.
func (s *Store) Scan(ctx context.Context, table, prefix string, visit func(key string, value []byte) error) error {
	return s.scan(ctx, func(tx *bolt.Tx) *bolt.Bucket { return tx.Bucket(bucketTables).Bucket([]byte(table)) }, []byte(prefix),
		func(key, value []byte) error { return visit(string(key), value) })
}

type row struct{ key, value []byte }

// errFull ends a page.
var errFull = errors.New("the page is full")

// scan visits the rows of a bucket, a page at a time and outside any transaction.
func (s *Store) scan(ctx context.Context, bucket func(*bolt.Tx) *bolt.Bucket, prefix []byte, visit func(key, value []byte) error) error {
	page := make([]row, 0, scanPage)
	for from := prefix; ; from = append(bytes.Clone(page[len(page)-1].key), 0) {
		page = page[:0]
		err := s.writer.view(func(tx *bolt.Tx) error { return pageOf(bucket(tx), from, prefix, &page) })
		if err != nil && !errors.Is(err, errFull) {
			return err
		}
		for _, r := range page {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := visit(r.key, r.value); err != nil {
				return err
			}
		}
		if err == nil {
			return nil
		}
	}
}

// pageOf copies the rows from a key on; errFull says that there may be more.
func pageOf(bucket *bolt.Bucket, from, prefix []byte, page *[]row) error {
	if bucket == nil {
		return nil
	}
	cursor := bucket.Cursor()
	for key, sealed := cursor.Seek(from); key != nil && bytes.HasPrefix(key, prefix); key, sealed = cursor.Next() {
		value, err := unseal(key, sealed)
		if err != nil {
			return err
		}
		if *page = append(*page, row{bytes.Clone(key), bytes.Clone(value)}); len(*page) == scanPage {
			return errFull
		}
	}
	return nil
}
