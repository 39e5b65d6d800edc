// Package testnet lays the network between a bundled host and the suite's
// receiver: the receiver has a public name and a public address there, so that
// the host's egress guard judges it as it judges any other destination, and
// connections to that address are carried to where the receiver listens.
package testnet

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"

	"wopcert/harness/receiver"
	referencehost "wopcert/reference-host"
)

// The receiver's place in the network. Nothing is ever sent to the address
// itself.
const (
	name    = "receiver.wopcert.example"
	address = "93.184.215.14"
)

// Config is the receiver to start for a bundled host.
func Config() *receiver.Config {
	return &receiver.Config{URL: "https://" + name, SelfMade: true}
}

// Place says where a receiver is, to a host of another process.
type Place struct {
	Addr string // HOST:PORT it listens on, "" for nowhere
	Root []byte // its root certificate, DER
}

// PlaceOf is the place of a receiver started with Config.
func PlaceOf(server *receiver.Server) Place {
	return Place{Addr: server.Addr(), Root: server.CA().Raw}
}

// Connect makes a host's network lead to a receiver started with Config. What
// else the host's policy says stays as it is.
func Connect(config *referencehost.Config, server *receiver.Server) {
	connect(config, server.Addr(), server.CA())
}

// Lead is Connect for a receiver of another process.
func Lead(config *referencehost.Config, to Place) error {
	root, err := x509.ParseCertificate(to.Root)
	if err != nil {
		return fmt.Errorf("the receiver's root certificate: %w", err)
	}
	connect(config, to.Addr, root)
	return nil
}

func connect(config *referencehost.Config, addr string, root *x509.Certificate) {
	policy := &config.Egress
	var others lookup = net.DefaultResolver
	if policy.Resolver != nil {
		others = policy.Resolver
	}
	policy.Resolver = resolver{others}
	routes := map[netip.AddrPort]string{netip.AddrPortFrom(netip.MustParseAddr(address), 443): addr}
	for from, to := range policy.Routes {
		routes[from] = to
	}
	policy.Routes = routes
	policy.ExtraRoots = append(policy.ExtraRoots, root)
}

// lookup resolves names, as net.Resolver does.
type lookup interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// resolver knows the receiver's name and leaves every other to another.
type resolver struct{ others lookup }

// LookupNetIP implements the policy's resolver.
func (r resolver) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if host == name {
		return []netip.Addr{netip.MustParseAddr(address)}, nil
	}
	return r.others.LookupNetIP(ctx, network, host)
}
