package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	referencehost "wopcert/reference-host"
	"wopcert/reference-host/faults"
	"wopcert/reference-host/variants"
)

func hostCommand(s streams) *cobra.Command {
	var addr, store string
	var seams, env bool
	var faultIDs, variantIDs []string
	c := &cobra.Command{
		Use:   "host",
		Short: "Run the reference host until it is interrupted",
		Long: `Prints its URL, test keys and fixtures, and serves until Ctrl-C. Everything is in memory and gone afterwards.

With --store everything is in one file, keys included, and is there again at the next start, however the last one ended:
runs that had not ended go on by themselves.`,
		Args: cobra.NoArgs,
	}
	c.Flags().StringVar(&addr, "addr", "127.0.0.1:8080", "address to listen on; port 0 picks a free one")
	c.Flags().StringArrayVar(&faultIDs, "fault", nil, "break the host in this named way (repeatable)")
	c.Flags().StringArrayVar(&variantIDs, "variant", nil, "use this named freedom of the specification (repeatable)")
	c.Flags().StringVar(&store, "store", "", "keep everything in this file, which is made when it is not there")
	c.Flags().BoolVar(&seams, "seams", false, "serve the test seams below /conformance/seams; for a host under test only")
	c.Flags().BoolVar(&env, "env", false, "print shell assignments instead: the URL as "+envHost+", and the keys under the names that certify and doctor read")
	f := formatFlag(c)
	c.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if env && f.json() {
			return usageError("give one of them", "--env and --format json exclude each other")
		}
		config, err := referencehost.DefaultConfig()
		if err != nil {
			return err
		}
		config.Seams = seams
		if cmd.Flags().Changed("store") {
			file, err := keepIn(cmd.Context(), &config, store)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, file.Close()) }()
		}
		if err := changeHost(&config, faultIDs, variantIDs); err != nil {
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
		say := announce
		if env {
			say = announceEnv
		}
		if err := say(s, server, config, f.json()); err != nil {
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

// envHost is the variable that --env puts the URL in.
const envHost = "WOPCERT_HOST"

// loopback reports whether a URL's host is this machine alone.
func loopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// keepIn puts a host on the store in a file.
func keepIn(ctx context.Context, config *referencehost.Config, path string) (*referencehost.FileStore, error) {
	file, err := referencehost.OpenFileStore(path)
	if err != nil {
		return nil, unknownError("", "%v", err)
	}
	config.Store = file
	if err := config.KeepSecrets(ctx); err != nil {
		return nil, errors.Join(unknownError("", "%v", err), file.Close())
	}
	return file, nil
}

// changeHost applies the chosen variants and faults.
func changeHost(config *referencehost.Config, faultIDs, variantIDs []string) error {
	for _, id := range variantIDs {
		v, ok := variants.Get(id)
		if !ok {
			return usageError("run wopcert list variants for the ids", "no variant %q", id)
		}
		change(config, v.Decorate, v.Wrap)
	}
	for _, id := range faultIDs {
		x, ok := faults.Get(id)
		if !ok {
			return usageError("run wopcert list faults for the ids", "no fault %q", id)
		}
		change(config, x.Decorate, x.Wrap)
	}
	return nil
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

// announceEnv prints shell assignments, all at once, so that who waits for the last has them all.
func announceEnv(s streams, server *referencehost.Server, config referencehost.Config, _ bool) error {
	keys := keysByName(config)
	var b strings.Builder
	for _, v := range [][2]string{
		{envHost, server.URL()},
		{envAPIKey, keys[referencehost.KeyTenantA]},
		{envOtherTenantKey, keys[referencehost.KeyTenantB]},
		{envReadOnlyKey, keys[referencehost.KeyReadOnly]},
		{envApproverKey, keys[referencehost.KeyApprover1]},
		{envSecondApproverKey, keys[referencehost.KeyApprover2]},
		{envOverrideKey, keys[referencehost.KeyApprover3]},
		{envProductionKey, keys[referencehost.KeyProduction]},
	} {
		fmt.Fprintf(&b, "export %s=%s\n", v[0], shellQuoted(v[1]))
	}
	_, err := io.WriteString(s.out, b.String())
	return err
}

func shellQuoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func keysByName(config referencehost.Config) map[string]string {
	keys := map[string]string{}
	for _, k := range config.Keys {
		keys[k.Name] = k.Key
	}
	return keys
}

func announce(s streams, server *referencehost.Server, config referencehost.Config, asJSON bool) error {
	keys := keysByName(config)
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
