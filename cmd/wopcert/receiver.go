package main

import (
	"crypto/tls"
	"net/url"

	"github.com/spf13/pflag"

	"wopcert/cmd/internal/certify"
	"wopcert/harness/receiver"
)

// receiverFlags say where the calls of the host under test arrive: webhook
// deliveries, callbacks, effects.
type receiverFlags struct {
	listen, url, cert, key string
	trusted                bool
}

func (f *receiverFlags) define(flags *pflag.FlagSet) {
	flags.StringVar(&f.listen, "receiver-listen", "", "address to listen at for what the host sends, as 0.0.0.0:8443")
	flags.StringVar(&f.url, "receiver-url", "", "https address at which the host reaches that listener")
	flags.StringVar(&f.cert, "receiver-cert", "", "certificate chain of the listener, PEM (default: plain HTTP, where something before it ends TLS)")
	flags.StringVar(&f.key, "receiver-key", "", "private key of that certificate, PEM")
	flags.BoolVar(&f.trusted, "receiver-trusted", false, "the host has been told to accept the receiver's address and certificate: a refusal is its fault")
}

// apply checks the flags and puts them into the request. They hang together:
// the host needs an address to call, and the suite one to listen at.
func (f receiverFlags) apply(q *certify.Request, config certify.Config) error {
	f.listen, f.url = first(f.listen, config.ReceiverListen), first(f.url, config.ReceiverURL)
	f.cert, f.key = first(f.cert, config.ReceiverCert), first(f.key, config.ReceiverKey)
	q.Trusted = f.trusted || config.ReceiverTrusted
	given := f.listen != "" || f.url != "" || f.cert != "" || f.key != "" || q.Trusted
	switch {
	case !given:
		return nil
	case q.ReferenceHost:
		return usageError("leave them out", "the bundled host has a receiver of its own; --receiver-… flags are for --host")
	case f.listen == "" || f.url == "":
		return usageError("give both, as in --receiver-listen 0.0.0.0:8443 --receiver-url https://ci.example:8443", "a receiver needs --receiver-listen and --receiver-url")
	case (f.cert == "") != (f.key == ""):
		return usageError("give both, or neither where something before the listener ends TLS", "--receiver-cert and --receiver-key go together")
	}
	if u, err := url.Parse(f.url); err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return usageError("hosts deliver to https addresses alone, as https://ci.example:8443/wopcert", "--receiver-url %q is no https address", f.url)
	}
	q.Receiver = &receiver.Config{Listen: f.listen, URL: f.url}
	if f.cert == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return usageError("both are PEM files, the certificate before those that certify it", "the receiver's certificate cannot be used: %v", err)
	}
	q.Receiver.Certificate = &pair
	return nil
}
