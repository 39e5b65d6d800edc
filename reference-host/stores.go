package referencehost

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"wopcert/corpus"
	"wopcert/reference-host/internal/boltstore"
	"wopcert/reference-host/internal/eventlog"
)

type (
	// FileStore is a Store in one file, which survives the death of the process. Close it when the host that uses it is
	// closed.
	FileStore = boltstore.Store
	// FileError is the refusal of OpenFileStore: what is wrong with the file, and what to do.
	FileError = boltstore.FileError
)

// NewMemoryStore returns the Store that DefaultConfig uses.
func NewMemoryStore() (Store, error) {
	contract, err := corpus.Load()
	if err != nil {
		return nil, err
	}
	return eventlog.NewMemory(follows(contract)), nil
}

// OpenFileStore opens the store in a file, and makes it when there is none. A file that is damaged, cut short, of a newer
// version, of another program or in use is refused with a *FileError.
func OpenFileStore(path string) (*FileStore, error) {
	contract, err := corpus.Load()
	if err != nil {
		return nil, err
	}
	return boltstore.Open(path, follows(contract))
}

// follows says which events may stand after the terminal one, whichever era's name they go by.
func follows(contract *corpus.Corpus) func(eventType string) bool {
	return func(eventType string) bool {
		return eventlog.MayFollowTerminal(eventType, func(name string) (string, bool) {
			if v2, ok := contract.EventFromV1(name); ok {
				return v2, true
			}
			_, registered := contract.Event(name)
			return name, registered
		})
	}
}

// The table an operator's settings are kept in, and the one row of it.
const (
	tableOperator = "operator"
	keySecrets    = "secrets"
)

// keptSecrets are the secrets of a host that have to outlive its process: credentials that clients hold, and what the
// tokens they hold were made with.
type keptSecrets struct {
	Keys         map[string]string `json:"keys"`
	TokenSecrets []TokenSecret     `json:"tokenSecrets"`
}

// KeepSecrets has a host on a FileStore come back with the same secrets: the keys and the token secrets an earlier start
// has left in the store replace those of the configuration, by name; what is new is left there. It belongs between
// DefaultConfig and Listen, and only where the store is as well guarded as the secrets.
func (c *Config) KeepSecrets(ctx context.Context) error {
	err := c.Store.Update(ctx, tableOperator, keySecrets, func(now []byte) ([]byte, error) {
		kept := keptSecrets{Keys: make(map[string]string)}
		if now != nil {
			if err := json.Unmarshal(now, &kept); err != nil {
				return nil, err
			}
		}
		for i := range c.Keys {
			key := &c.Keys[i]
			if old, ok := kept.Keys[key.Name]; ok {
				key.Key = old
			}
			kept.Keys[key.Name] = key.Key
		}
		if len(kept.TokenSecrets) == 0 {
			kept.TokenSecrets = c.TokenSecrets
		}
		c.TokenSecrets = kept.TokenSecrets
		return json.Marshal(kept)
	})
	if err != nil {
		return fmt.Errorf("the secrets in the store: %w", err)
	}
	return nil
}

// keptKey is a key of the host's own that is the same after a restart.
func (h *Host) keptKey(name string) (key [32]byte, err error) {
	err = h.store.Update(context.Background(), tableHost, "key/"+name, func(now []byte) ([]byte, error) {
		if now == nil {
			_, _ = rand.Read(key[:]) // never fails
			return key[:], nil
		}
		if copy(key[:], now) != len(key) {
			return nil, errors.New("the key " + name + " in the store is too short")
		}
		return now, nil
	})
	return key, err
}
