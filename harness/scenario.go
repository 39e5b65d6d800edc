package harness

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"wopcert/bundle"
	"wopcert/requirements"
)

// Scenario is the unit of selection and of a profile's floor: the tests of one
// section of the specification. Its row in a bundle sums its requirements'.
type Scenario struct {
	ID       string // published scenario name, such as "v2-run-cancel"
	Title    string // what it establishes, in one line
	Document string // specification document, such as "runs.md"
	Section  string
	Gates    []Gate // hold for every test of the scenario
	Tests    []Test
}

// Test witnesses requirements. It declares them, so that the engine can
// resolve what was not reached; a requirement belongs to one scenario but may
// be declared by several of its tests.
type Test struct {
	Name      string
	Witnesses []requirements.ID
	Gates     []Gate
	Slow      time.Duration // expected duration when well over a second; such tests start first
	Timeout   time.Duration // deadline when the run's own is too short, 0 for the run's
	Exclusive bool          // must not run beside other tests
	Last      bool          // after every other test, beside none but others that come last: it kills the host, see [T.KillHost]
	Public    bool          // needs no credential; every other test is gated on the primary one
	Run       func(*T)
}

// Requirements returns the ids the scenario's tests declare, in order of first
// declaration.
func (s Scenario) Requirements() []requirements.ID {
	var ids []requirements.ID
	for _, t := range s.Tests {
		for _, id := range t.Witnesses {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// Gate is a condition under which a test can run. A gate about the host that
// does not hold makes the test's requirements inapplicable; one about the
// suite makes them blocked and says what to supply. Host gates are evaluated
// first (conformance.md, "Whose fact is the reason?").
type Gate struct {
	family  string // the capability family asked for, "" for any other gate
	suite   bool   // the gate states what the suite needs, not a fact about the host
	need    need   // what opens it, for who looks a run over before it
	explain func(*Env) (reason string, open bool)
}

// Env is what gates are evaluated against.
type Env struct {
	Host        *Host
	Credentials Credentials
	Approver    ApproverRefs
	OptOuts     []string
	relaxations []bundle.Relaxation
	recovery    *Recovery                         // nil when no durability is claimed
	receiver    func() (reason string, open bool) // nil when the run has none
}

// Advertises gates on a capability family of the discovery document.
func Advertises(family string) Gate {
	return Gate{family: family, explain: func(e *Env) (string, bool) {
		return fmt.Sprintf("the host does not advertise %s", family), e.Host.Discovery.Advertises(family)
	}}
}

// AdvertisesFacet gates on a facet of a family.
func AdvertisesFacet(family, facet string) Gate {
	return Gate{family: family, explain: func(e *Env) (string, bool) {
		_, ok := e.Host.Discovery.Facet(family, facet)
		return fmt.Sprintf("the host does not advertise %s.%s", family, facet), ok
	}}
}

// HostFact gates on any other fact of the discovery document. The reason is
// the fact that makes the requirement not bind this host.
func HostFact(reason string, binds func(*Discovery) bool) Gate {
	return Gate{explain: func(e *Env) (string, bool) { return reason, binds(e.Host.Discovery) }}
}

// NeedsCredential gates on a credential the operator has to give.
func NeedsCredential(who Identity) Gate {
	return Gate{suite: true, need: need{kind: NeedKey, who: who}, explain: func(e *Env) (string, bool) {
		return fmt.Sprintf("no credential for the %s was given; %s", who, who.supply()), e.Credentials.Has(who)
	}}
}

// NeedsFixture gates on a conformance workflow the host has to hold. With
// several ids any one of them opens the gate.
func NeedsFixture(ids ...string) Gate {
	return Gate{suite: true, need: need{kind: NeedFixture, what: strings.Join(ids, " or ")}, explain: func(e *Env) (string, bool) {
		listed := e.Host.Discovery.Fixtures()
		why := fmt.Sprintf("the host's discovery document does not list the fixture %s; seed it (wopcert fixtures export) and list it under fixtures",
			strings.Join(ids, " or "))
		return why, slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(listed, id) })
	}}
}

// evaluate returns the disposition of a test whose gates do not all hold.
func evaluate(gates []Gate, e *Env) (reason string, disposition outcome) {
	for _, g := range gates {
		if g.family != "" && slices.Contains(e.OptOuts, g.family) {
			return "operator opt-out: " + g.family, skipped
		}
	}
	for _, side := range []bool{false, true} {
		for _, g := range gates {
			if g.suite != side {
				continue
			}
			if why, open := g.explain(e); !open {
				if side {
					return why, blocked
				}
				return why, inapplicable
			}
		}
	}
	return "", ""
}
