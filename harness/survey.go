package harness

import (
	"context"
	"errors"
	"net/http/httptrace"
	"slices"
	"time"

	"wopcert/requirements"
)

// NeedKind is a kind of thing that opens gates.
type NeedKind string

// The kinds of needs. A host that lacks one of the last two is not bound by what
// stands behind it; what lacks of the others blocks it.
const (
	NeedKey          NeedKind = "key"        // of an identity
	NeedFixture      NeedKind = "fixture"    // a conformance workflow
	NeedReach        NeedKind = "receiver"   // an address the host can call
	NeedMeans        NeedKind = "means"      // something else that only the operator can give
	NeedSeamsProfile NeedKind = "seams"      // the seams profile
	NeedDurability   NeedKind = "durability" // a claim that the host recovers
)

// need is what a gate asks for.
type need struct {
	kind NeedKind
	who  Identity // for NeedKey
	what string   // for NeedFixture and NeedMeans
}

// Need is one thing that tests stand on.
type Need struct {
	Kind   NeedKind
	Who    Identity          // for NeedKey
	What   string            // for NeedFixture and NeedMeans
	Lack   string            // why the gate is closed and what opens it, "" when it is open
	Rows   []requirements.ID // the rows of the tests that ask for it
	inEach map[requirements.ID]bool
}

// Key is what the host says to the key of an identity.
type Key struct {
	Who      Identity
	Given    bool
	Refused  bool   // the host answered 401
	Silent   bool   // it did not answer, or was not asked because it did not answer before
	Observed string // the answer, or why there was none; "" when nothing was sent
	SameAs   *Identity
	Supply   string // how the operator gives it
}

// RowCounts says what a run would come to if nothing failed.
type RowCounts struct {
	Observable   int `json:"observable"`
	Blocked      int `json:"blocked"`
	Inapplicable int `json:"inapplicable"`
	Skipped      int `json:"skipped"`
}

// Findings are what a look at a host before a run shows.
type Findings struct {
	Hops     []Hop // how far the way to the host leads, also where it ends early
	Host     *Host // nil when it could not be measured
	Clock    *time.Duration
	Keys     []Key
	OptOuts  []string // families opted out of that the host advertises
	Needs    []Need   // in the order the suite asks for them
	Rows     RowCounts
	Receiver string // its address, "" for none
	Trusted  bool   // it was not probed, because the operator answers for it
	Called   bool   // the host's own call reached it
}

// Survey looks a run over without running any test: it reads discovery, presents the
// keys one by one, probes the receiver, and evaluates the gates of every test. A host
// that cannot be measured gives a *DiscoveryError beside the hops that were tried.
// Clock is the host's clock less ours, nil when it sent no date.
func Survey(ctx context.Context, o Options) (*Findings, error) {
	base, err := ParseBaseURL(o.BaseURL)
	if err != nil {
		return nil, err
	}
	r := newRun(base, o)
	defer r.client.close()
	f := &Findings{}
	w := newWay()
	err = r.meet(httptrace.WithClientTrace(ctx, w.trace()))
	f.Hops = w.hops(base, r.results.Host, err)
	for i := range f.Hops {
		f.Hops[i].Detail = r.capture.redact.text(f.Hops[i].Detail)
	}
	if err != nil {
		var discovery *DiscoveryError
		if errors.As(err, &discovery) {
			discovery.Why, discovery.Hint = r.capture.redact.text(discovery.Why), r.capture.redact.text(discovery.Hint)
		}
		return f, err
	}
	f.Host = r.host
	f.Clock = w.clock(r.host.Discovery.Header.Get("Date"))
	f.OptOuts = slices.DeleteFunc(slices.Clone(o.OptOuts), func(family string) bool { return !r.host.Discovery.Advertises(family) })
	f.Keys = r.tryKeys(ctx)
	if r.receiver.Server != nil {
		f.Receiver, f.Trusted = r.receiver.Server.URL().String(), r.receiver.Trusted
	}
	f.weigh(r.env(ctx), o.Scenarios)
	f.Called = r.reach.called
	return f, ctx.Err()
}

// tryKeys presents every key that was given and takes those away that the host
// refuses. A host that does not answer one is not asked again.
func (r *run) tryKeys(ctx context.Context) (keys []Key) {
	silent := false
	for _, who := range identities() {
		k := Key{Who: who, Given: r.credentials.Has(who), Supply: who.supply()}
		for _, other := range keys {
			if k.Given && k.SameAs == nil && r.client.credentials.key(other.Who) == r.client.credentials.key(who) {
				k.SameAs = &other.Who
			}
		}
		switch {
		case !k.Given:
		case silent:
			k.Silent, k.Observed = true, "not asked: the host did not answer the key before"
		default:
			answer := r.present(ctx, who)
			k.Refused, k.Observed = refusesKey(answer), r.capture.redact.text(answer.describe())
			silent = answer.Err != nil
			k.Silent = silent
		}
		keys = append(keys, k)
	}
	for _, k := range keys {
		if k.Refused {
			r.credentials = r.credentials.without(k.Who)
		}
	}
	return keys
}

// weigh evaluates every gate of every test and counts what the rows would come to.
func (f *Findings) weigh(env *Env, scenarios []Scenario) {
	at := map[need]int{}
	for i := range scenarios {
		states := map[requirements.ID][]outcome{}
		for j := range scenarios[i].Tests {
			test := job{&scenarios[i], &scenarios[i].Tests[j]}
			gates := test.gates()
			_, disposition := evaluate(gates, env)
			for _, id := range test.test.Witnesses {
				states[id] = append(states[id], disposition)
			}
			if disposition == skipped {
				continue
			}
			for _, g := range gates {
				f.ask(at, g, env, test.test.Witnesses, disposition)
			}
		}
		for _, seen := range states {
			f.Rows.add(seen)
		}
	}
}

// ask files one gate of a test under what it asks for. Tests that do not bind the
// host need nothing of the suite.
func (f *Findings) ask(at map[need]int, g Gate, env *Env, rows []requirements.ID, disposition outcome) {
	if g.need.kind == "" || g.suite && disposition == inapplicable {
		return
	}
	i, known := at[g.need]
	if !known {
		i = len(f.Needs)
		at[g.need] = i
		n := Need{Kind: g.need.kind, Who: g.need.who, What: g.need.what, inEach: map[requirements.ID]bool{}}
		if why, open := g.explain(env); !open {
			n.Lack = why
		}
		f.Needs = append(f.Needs, n)
	}
	n := &f.Needs[i]
	for _, id := range rows {
		if !n.inEach[id] {
			n.inEach[id] = true
			n.Rows = append(n.Rows, id)
		}
	}
}

// add counts a row by what its tests would come to, as [resolve] does.
func (c *RowCounts) add(seen []outcome) {
	switch {
	case slices.Contains(seen, blocked):
		c.Blocked++
	case slices.Contains(seen, ""):
		c.Observable++
	case slices.Contains(seen, skipped):
		c.Skipped++
	default:
		c.Inapplicable++
	}
}

// without takes one key away.
func (c Credentials) without(who Identity) Credentials {
	switch who {
	case Primary:
		c.Primary = ""
	case OtherTenant:
		c.OtherTenant = ""
	case ReadOnly:
		c.ReadOnly = ""
	case Production:
		c.Production = ""
	case Approver:
		c.Approver = ""
	case SecondApprover:
		c.SecondApprover = ""
	case Override:
		c.Override = ""
	}
	return c
}
