package boltstore

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	bolt "go.etcd.io/bbolt"

	"wopcert/reference-host/internal/eventlog"
)

// sealSize is what seal puts in front of a value.
const sealSize = 4

// seal is a checksum over key and value: a row that was damaged, or stands where it was not written, does not pass.
func seal(key, value []byte) []byte {
	sealed := make([]byte, sealSize, sealSize+len(value))
	binary.BigEndian.PutUint32(sealed, checksum(key, value))
	return append(sealed, value...)
}

func checksum(key, value []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(key, table), table, value)
}

// unseal returns the value of a row, which is valid for as long as the transaction.
func unseal(key, sealed []byte) ([]byte, error) {
	if len(sealed) < sealSize || binary.BigEndian.Uint32(sealed) != checksum(key, sealed[sealSize:]) {
		return nil, fmt.Errorf("the row %q is damaged", key)
	}
	return sealed[sealSize:], nil
}

func put(bucket *bolt.Bucket, key, value []byte) error { return bucket.Put(key, seal(key, value)) }

// runRecord is a run as it is stored. A run of this host is stamped with the era it writes; a run without a stamp is one
// a v1 host began (persistence.md §The era key).
type runRecord struct {
	EventLogSchemaVersion int          `json:"eventLogSchemaVersion,omitempty"`
	Run                   eventlog.Run `json:"run"`
}

func encodeRun(run *eventlog.Run) ([]byte, error) {
	record := runRecord{Run: *run}
	if run.Era != eventlog.EraV1 {
		record.EventLogSchemaVersion = eventlog.EraV2
	}
	record.Run.Era = 0
	return encode(record)
}

func readRun(tx *bolt.Tx, id string) (run eventlog.Run, err error) {
	sealed := tx.Bucket(bucketRuns).Get([]byte(id))
	if sealed == nil {
		return run, eventlog.ErrNotFound
	}
	value, err := unseal([]byte(id), sealed)
	if err != nil {
		return run, err
	}
	var record runRecord
	if err := json.Unmarshal(value, &record); err != nil {
		return run, fmt.Errorf("run %s: %w", id, err)
	}
	run = record.Run
	if record.EventLogSchemaVersion == 0 {
		run.Era = eventlog.EraV1
	}
	for _, object := range []*json.RawMessage{&run.Inputs, &run.Configurable, &run.Metadata} {
		if string(*object) == "null" {
			*object = nil // absent: these are objects
		}
	}
	return run, nil
}

// encode is json.Marshal with every byte of embedded JSON as it came.
func encode(value any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), nil
}

var errRow = errors.New("the row cannot be read")

// encodeEvent is the row of an event: its text members, each behind its length, then time, engine version and payload.
func encodeEvent(e *eventlog.Event) []byte {
	row := make([]byte, 0, 64+len(e.EventID)+len(e.Type)+len(e.NodeID)+len(e.CausationID)+len(e.Written)+len(e.Payload))
	for _, text := range []string{e.EventID, e.Type, e.NodeID, e.CausationID, e.Written} {
		row = binary.AppendUvarint(row, uint64(len(text)))
		row = append(row, text...)
	}
	row = binary.AppendVarint(row, e.Timestamp.Unix())
	row = binary.AppendUvarint(row, uint64(e.Timestamp.Nanosecond()))
	row = binary.AppendVarint(row, int64(e.EngineVersion))
	return append(row, e.Payload...)
}

func decodeEvent(row []byte) (e eventlog.Event, err error) {
	text := string(row) // one copy, which every text member shares
	rest := row
	for _, member := range []*string{&e.EventID, &e.Type, &e.NodeID, &e.CausationID, &e.Written} {
		length, n := binary.Uvarint(rest)
		if n <= 0 || length > uint64(len(rest)-n) {
			return e, errRow
		}
		from := len(row) - len(rest) + n
		*member = text[from : from+int(length)]
		rest = rest[n+int(length):]
	}
	seconds, n := binary.Varint(rest)
	if n <= 0 {
		return e, errRow
	}
	rest = rest[n:]
	nanos, n := binary.Uvarint(rest)
	if n <= 0 || nanos >= uint64(time.Second) {
		return e, errRow
	}
	rest = rest[n:]
	version, n := binary.Varint(rest)
	if n <= 0 {
		return e, errRow
	}
	e.Timestamp, e.EngineVersion = time.Unix(seconds, int64(nanos)).UTC(), int(version)
	e.Payload = bytes.Clone(rest[n:])
	return e, nil
}
