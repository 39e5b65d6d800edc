package certify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"

	"wopcert/bundle"
	"wopcert/cmd/internal/supervised"
	"wopcert/harness/receiver"
	"wopcert/internal/testnet"
	referencehost "wopcert/reference-host"
)

// startReferenceHost starts the bundled host as a process of its own, on a store in
// a file and with a signing key that its discovery document publishes, and points the
// request at it. What is measured is what is killed and started again: the evidence
// is about one host.
func (q *Request) startReferenceHost(ctx context.Context, target *receiver.Server) (stop func(), err error) {
	config, err := referencehost.DefaultConfig()
	if err != nil {
		return nil, err
	}
	if q.SigningKey == nil {
		key, err := bundle.NewEphemeralKey()
		if err != nil {
			return nil, err
		}
		key.Ephemeral = false // this host publishes it
		q.SigningKey = &key
	}
	q.Credentials, q.Approver = testnet.Credentials(config), testnet.Approvers(config)
	if q.HostBuild == nil {
		if q.HostBuild, err = ownBuild(); err != nil {
			return nil, err
		}
	}
	process, err := supervised.Start(ctx, supervised.Settings{
		Keys: config.Keys, TokenSecrets: config.TokenSecrets, Receiver: testnet.PlaceOf(target),
		SigningKeys: []referencehost.SigningKey{{KeyID: q.SigningKey.ID, PublicKey: q.SigningKey.Public()}},
	})
	if err != nil {
		return nil, err
	}
	q.HostURL = process.URL()
	q.Recovery = testnet.Recovery(config)
	q.Recovery.Kill, q.Recovery.Restart = process.Kill, process.Restart
	return func() { _ = process.Close() }, nil
}

// ownBuild names the bundled host by the digest of the program it is part of.
func ownBuild() (*bundle.HostBuild, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("this program's own file: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("this program's own file: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil, fmt.Errorf("this program's own file: %w", err)
	}
	return &bundle.HostBuild{Kind: "artifact-sha256", ID: hex.EncodeToString(h.Sum(nil))}, nil
}
