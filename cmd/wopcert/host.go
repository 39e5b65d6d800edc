package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"syscall"

	"github.com/spf13/cobra"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/faults"
	"wopcert/reference-host/variants"
)

func hostCommand(s streams) *cobra.Command {
	var addr string
	var faultIDs, variantIDs []string
	c := &cobra.Command{
		Use:   "host",
		Short: "Run the reference host until it is interrupted",
		Long:  "Prints its URL, test keys and fixtures, and serves until Ctrl-C. Everything is in memory and gone afterwards.",
		Args:  cobra.NoArgs,
	}
	c.Flags().StringVar(&addr, "addr", "127.0.0.1:8080", "address to listen on; port 0 picks a free one")
	c.Flags().StringArrayVar(&faultIDs, "fault", nil, "break the host in this named way (repeatable)")
	c.Flags().StringArrayVar(&variantIDs, "variant", nil, "use this named freedom of the specification (repeatable)")
	f := formatFlag(c)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		config, err := hostConfig(faultIDs, variantIDs)
		if err != nil {
			return err
		}
		config.AllowNonLoopback = cmd.Flags().Changed("addr") // an address that was typed is meant
		config.Logger = slog.New(slog.NewTextHandler(s.err, nil))
		server, err := referencehost.Listen(cmd.Context(), addr, config)
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			return usageError("give another --addr; port 0 picks a free one", "%s is in use", addr)
		case err != nil:
			return usageError("", "%v", err)
		}
		if err := announce(s, server, config, f.json()); err != nil {
			_ = server.Close()
			return err
		}
		if !loopback(server.URL()) {
			fmt.Fprintln(s.err, "wopcert: warning: other machines reach this address, and whoever sees the keys can use it")
		}
		<-cmd.Context().Done()
		return server.Close()
	}
	return c
}

// loopback reports whether a URL's host is this machine alone.
func loopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// hostConfig is the default host with the chosen variants and faults applied.
func hostConfig(faultIDs, variantIDs []string) (referencehost.Config, error) {
	config, err := referencehost.DefaultConfig()
	if err != nil {
		return config, err
	}
	for _, id := range variantIDs {
		v, ok := variants.Get(id)
		if !ok {
			return config, usageError("run wopcert list variants for the ids", "no variant %q", id)
		}
		change(&config, v.Decorate, v.Wrap)
	}
	for _, id := range faultIDs {
		x, ok := faults.Get(id)
		if !ok {
			return config, usageError("run wopcert list faults for the ids", "no fault %q", id)
		}
		change(&config, x.Decorate, x.Wrap)
	}
	return config, nil
}

// change applies what a fault or a variant consists of, either part of which
// may be missing.
func change(config *referencehost.Config, decorate func(*referencehost.Config), wrap func(http.Handler) http.Handler) {
	if decorate != nil {
		decorate(config)
	}
	if wrap != nil {
		config.Wrap = append(config.Wrap, wrap)
	}
}

func announce(s streams, server *referencehost.Server, config referencehost.Config, asJSON bool) error {
	keys := map[string]string{}
	for _, k := range config.Keys {
		keys[k.Name] = k.Key
	}
	held := make([]string, len(config.Fixtures))
	for i, w := range config.Fixtures {
		held[i] = w.ID
	}
	if asJSON {
		return writeJSON(s.out, map[string]any{"url": server.URL(), "keys": keys, "fixtures": held})
	}
	fmt.Fprintf(s.out, "reference host at %s\n\nkeys (test keys, new at every start)\n", server.URL())
	for _, k := range config.Keys {
		fmt.Fprintf(s.out, "  %-20s %s\n", k.Name, k.Key)
	}
	fmt.Fprintln(s.out, "\nfixtures")
	for _, id := range held {
		fmt.Fprintf(s.out, "  %s\n", id)
	}
	fmt.Fprintf(s.out, "\ntry it\n  curl -s -H 'OpenWOP-Version: 2' %s/.well-known/openwop\n  curl -s -H 'OpenWOP-Version: 2' -H 'Authorization: Bearer %s' -H 'Content-Type: application/json' \\\n    -d '{\"workflowId\":\"conformance-noop\"}' %s/runs\n\nCtrl-C stops it\n",
		server.URL(), keys[referencehost.KeyTenantA], server.URL())
	return nil
}
