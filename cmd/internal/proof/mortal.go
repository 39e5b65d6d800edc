package proof

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"wopcert/harness"
	"wopcert/internal/testnet"
	referencehost "wopcert/reference-host"
	"wopcert/requirements"
)

// onlyAfterKills are the requirements that nothing but a killed host shows: those
// whose tests all kill it or look at what is declared of its recovery.
func onlyAfterKills(suite []harness.Scenario) map[requirements.ID]bool {
	only := map[requirements.ID]bool{requirements.R0158BoundIsDerived: true}
	for _, s := range suite {
		for _, test := range s.Tests {
			for _, id := range test.Witnesses {
				if seen, ok := only[id]; !ok || seen {
					only[id] = test.Last || id == requirements.R0158BoundIsDerived
				}
			}
		}
	}
	return only
}

// kills reports whether a change says something of what a host does after it was
// killed. Only such a change is measured on a host that is killed: a kill takes
// longer than all else, and no test runs beside it.
func (p *prover) kills(lists ...[]requirements.ID) bool {
	return slices.ContainsFunc(slices.Concat(lists...), func(id requirements.ID) bool { return p.afterKills[id] })
}

// mortal is a host on a store in a file that dies and comes back within this process:
// its store is taken away before it is closed, so that nothing it does at its end is
// kept.
type mortal struct {
	configure configure
	directory string
	addr      string
	store     *referencehost.FileStore
	server    *referencehost.Server
}

func startMortal(ctx context.Context, configure configure) (*mortal, error) {
	directory, err := os.MkdirTemp("", "wopcert-proof-")
	if err != nil {
		return nil, err
	}
	m := &mortal{configure: configure, directory: directory}
	if err := m.restart(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(directory))
	}
	m.addr = strings.TrimPrefix(m.server.URL(), "http://")
	return m, nil
}

// restart starts the host on what its store holds.
func (m *mortal) restart(ctx context.Context) error {
	store, err := referencehost.OpenFileStore(filepath.Join(m.directory, "store.db"))
	if err != nil {
		return err
	}
	config, err := m.configure(store)
	if err != nil {
		return errors.Join(err, store.Close())
	}
	server, err := referencehost.Listen(context.WithoutCancel(ctx), m.addr, config)
	if err != nil {
		return errors.Join(err, store.Close())
	}
	m.store, m.server = store, server
	return nil
}

// kill ends the host. What it says at its end is of no interest: it has lost its store.
func (m *mortal) kill(context.Context) error {
	err := m.store.Close()
	_ = m.server.Close()
	m.server = nil
	return err
}

func (m *mortal) close() {
	if m.server != nil {
		_ = m.kill(context.Background())
	}
	_ = os.RemoveAll(m.directory)
}

// recovery is what is claimed of the host, and the means to kill it.
func (m *mortal) recovery(config referencehost.Config) *harness.Recovery {
	r := testnet.Recovery(config)
	r.Kill, r.Restart = m.kill, m.restart
	return r
}
