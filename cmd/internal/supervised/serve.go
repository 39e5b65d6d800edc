// Package supervised runs the bundled host as a process of its own, on a store in a
// file, so that it can be killed and started again while its evidence is taken.
package supervised

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"wopcert/internal/testnet"
	referencehost "wopcert/reference-host"
)

// Settings are what the process is told about the host it is to be. They hold keys
// and travel over its standard input.
type Settings struct {
	Addr         string                      // address to listen on
	Store        string                      // file of the store
	Keys         []referencehost.Credential  // as the host's operator would configure them
	TokenSecrets []referencehost.TokenSecret // of resume tokens
	SigningKeys  []referencehost.SigningKey  // published in discovery
	Receiver     testnet.Place               // where the suite's receiver is, zero for nowhere
	Directory    string                      // removed when whoever started the process is gone, "" for none
}

// ready is the line the process answers with once it serves.
type ready struct {
	URL   string `json:"url,omitempty"`
	Error string `json:"error,omitempty"`
}

// closeTimeout is how long the host may take to close once it serves nobody.
const closeTimeout = 2 * time.Second

// Serve is the whole life of the process: it reads its settings as one line of JSON,
// says on out where it serves, and serves until in ends, which it does when whoever
// started it is gone.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	r := bufio.NewReader(in)
	line, err := r.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("the settings are one line of JSON on standard input: %w", err)
	}
	var s Settings
	if err := json.Unmarshal(line, &s); err != nil {
		err = fmt.Errorf("the settings cannot be read: %w", err)
		return errors.Join(err, json.NewEncoder(out).Encode(ready{Error: err.Error()}))
	}
	server, store, err := start(ctx, s)
	if err != nil {
		return errors.Join(err, json.NewEncoder(out).Encode(ready{Error: err.Error()}))
	}
	if err := json.NewEncoder(out).Encode(ready{URL: server.URL()}); err != nil {
		return errors.Join(err, server.Close(), store.Close())
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, r)
	}()
	select {
	case <-gone:
	case <-ctx.Done():
	}
	closed := make(chan error, 1)
	go func() { closed <- errors.Join(server.Close(), store.Close()) }()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case err = <-closed:
	case <-timer.C: // nobody is left to wait for the rest: the process ends
	}
	if s.Directory != "" {
		err = errors.Join(err, os.RemoveAll(s.Directory))
	}
	return err
}

// start makes the host and begins to serve.
func start(ctx context.Context, s Settings) (*referencehost.Server, *referencehost.FileStore, error) {
	config, err := referencehost.DefaultConfig()
	if err != nil {
		return nil, nil, err
	}
	config.Keys, config.TokenSecrets, config.SigningKeys, config.Seams = s.Keys, s.TokenSecrets, s.SigningKeys, true
	if s.Receiver.Addr != "" {
		if err := testnet.Lead(&config, s.Receiver); err != nil {
			return nil, nil, err
		}
	}
	store, err := referencehost.OpenFileStore(s.Store)
	if err != nil {
		return nil, nil, err
	}
	config.Store = store
	// The host ends with Close alone: what an interrupt finds under way still ends
	// with the suite's own deadline.
	server, err := referencehost.Listen(context.WithoutCancel(ctx), s.Addr, config)
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return server, store, nil
}
