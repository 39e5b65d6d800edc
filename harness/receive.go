package harness

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"time"

	"wopcert/harness/receiver"
)

// Receiver is what the calls of the host under test reach: webhook deliveries,
// callbacks, effects.
type Receiver struct {
	Server *receiver.Server // nil when there is none; tests that need it are blocked
	// Trusted says that the host has been told to accept the receiver's address
	// and certificate. Then nothing is probed, and a refusal is the host's fault.
	Trusted bool
	// Patience is how long the probe of an untrusted receiver waits for the
	// host's first call, 20 s when 0.
	Patience time.Duration
}

// NeedsReceiver gates on a receiver that the host can reach. Whether it can is
// found out once per run, when the first test asks.
func NeedsReceiver() Gate {
	return Gate{suite: true, need: need{kind: NeedReach}, explain: func(e *Env) (string, bool) {
		if e.receiver == nil {
			return noReceiver, false
		}
		return e.receiver()
	}}
}

const noReceiver = "there is no receiver for what the host sends; give --receiver-listen ADDRESS and --receiver-url URL"

// Endpoint opens an endpoint of the receiver for the rest of the test. Every
// attempt that reaches it is kept in the capture. Tests that call it are gated
// on NeedsReceiver.
func (t *T) Endpoint(script receiver.Script) *receiver.Endpoint {
	if t.run.receiver.Server == nil {
		t.Abort("%s", noReceiver)
	}
	e, err := t.run.receiver.Server.Endpoint(script)
	if err != nil {
		t.Abort("no endpoint to receive at: %v", err)
	}
	e.Record(inbound{t.tape, e.URL()})
	t.log.atEnd(e.Close)
	return e
}

// ReceiverURL is the receiver's own address, under which no endpoint is open.
func (t *T) ReceiverURL() *url.URL {
	if t.run.receiver.Server == nil {
		t.Abort("%s", noReceiver)
	}
	return t.run.receiver.Server.URL()
}

// inbound writes what reaches an endpoint to a test's tape.
type inbound struct {
	tape *tape
	url  string
}

func (i inbound) Arrived(a receiver.Attempt) int {
	u := i.url + a.Path
	if a.Query != "" {
		u += "?" + a.Query
	}
	r := i.tape.redact
	e := Exchange{Inbound: true, Started: a.At, Method: a.Method, URL: r.text(u)}
	e.Request.Headers = r.headers(a.Header)
	e.Request.Body, e.Request.Encoding = r.body(a.Body)
	e.Request.Truncated = a.Truncated
	e.Response.Headers = []string{}
	i.tape.mu.Lock()
	defer i.tape.mu.Unlock()
	e.Number = len(i.tape.exchanges) + 1
	i.tape.exchanges = append(i.tape.exchanges, e)
	return e.Number
}

func (i inbound) Answered(a receiver.Attempt, answer receiver.Answer) {
	headers := i.tape.redact.headers(answer.Header)
	body, encoding := i.tape.redact.body(answer.Body)
	i.tape.mu.Lock()
	defer i.tape.mu.Unlock()
	e := &i.tape.exchanges[a.Exchange-1]
	e.Millis = millis(time.Since(a.At))
	if answer.HangUp {
		e.Error = "the receiver hung up, as the test's script says"
		return
	}
	e.Status, e.Response.Headers = answer.Status, headers
	e.Response.Body, e.Response.Encoding = body, encoding
}

// AtAttempt binds a check to an attempt that reached an endpoint, so that the
// report shows it.
func (c Check) AtAttempt(a receiver.Attempt) Check {
	c.exchange = a.Exchange
	return c
}

// signingSecrets are the secrets that tests register webhooks with. They are
// made once per run, so that the redactor knows them before anything is kept.
type signingSecrets struct {
	plain    [4]string // for the scheme v1
	standard [4]string // for standard-webhooks-1
	canary   [4]string // credentials that must not travel
}

func newSigningSecrets() signingSecrets {
	var s signingSecrets
	for i := range s.plain {
		s.plain[i] = "wopcert-signing-" + hex.EncodeToString(random(24))
		s.standard[i] = "whsec_" + base64.StdEncoding.EncodeToString(random(32))
		s.canary[i] = "wopcert-canary-" + hex.EncodeToString(random(16))
	}
	return s
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails (crypto/rand)
	return b
}

func (s *signingSecrets) conceal(into map[string]string) {
	for i := range s.plain {
		into[fmt.Sprintf("signing-secret-%d", i+1)] = s.plain[i]
		into[fmt.Sprintf("standard-secret-%d", i+1)] = s.standard[i]
		into[fmt.Sprintf("canary-credential-%d", i+1)] = s.canary[i]
	}
}

// SigningSecret is one of four secrets of the run for the scheme v1, counted
// from 0. Secrets are hidden in everything that is kept.
func (t *T) SigningSecret(n int) string { return t.run.secrets.plain[n%len(t.run.secrets.plain)] }

// StandardSecret is one of four secrets of the run in the form of Standard
// Webhooks, whsec_ and the base64 of 32 bytes, counted from 0.
func (t *T) StandardSecret(n int) string {
	return t.run.secrets.standard[n%len(t.run.secrets.standard)]
}

// Canary is one of four made-up credentials of the run, counted from 0, to be
// presented to the host and looked for where no credential belongs.
func (t *T) Canary(n int) string { return t.run.secrets.canary[n%len(t.run.secrets.canary)] }
