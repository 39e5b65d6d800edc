package doctor

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/harness"
	"wopcert/requirements"
)

func measured(change func(*harness.Findings)) Facts {
	f := &harness.Findings{
		Hops: []harness.Hop{{Name: "name", Detail: "an address"}, {Name: "connection", Elapsed: time.Millisecond}},
		Host: &harness.Host{Discovery: &harness.Discovery{Document: map[string]any{"protocolVersions": []any{"2.0"}, "preferredVersion": "2.0",
			"implementation": map[string]any{"name": "\x1b[31mred", "version": "1"}}}},
		Rows: harness.RowCounts{Observable: 3},
	}
	zero := time.Duration(0)
	f.Clock = &zero
	if change != nil {
		change(f)
	}
	return Facts{URL: "http://h", Findings: f, Contract: "2.44.6"}
}

// Every lack becomes a line that says what it costs and what to do, and decides the answer.
func TestWhatIsMissing(t *testing.T) {
	t.Parallel()
	rows := []requirements.ID{requirements.R0170RunCancel, requirements.EventsSequence}
	need := func(n harness.Need) func(*harness.Findings) {
		n.Rows = rows
		return func(f *harness.Findings) {
			f.Needs = append(f.Needs, n)
			if n.Lack != "" && n.Kind != harness.NeedSeamsProfile && n.Kind != harness.NeedDurability {
				f.Rows.Blocked = len(rows)
			}
		}
	}
	skew := func(d time.Duration) func(*harness.Findings) { return func(f *harness.Findings) { f.Clock = &d } }
	other := harness.Primary
	for name, c := range map[string]struct {
		change  func(*harness.Findings)
		check   Check
		verdict Verdict
	}{
		"fixture": {need(harness.Need{Kind: harness.NeedFixture, What: "conformance-noop", Lack: "no"}),
			Check{Name: "fixture", State: Missing, Found: "the host does not list conformance-noop", Rows: 2, Do: "seed it (wopcert fixtures export DIR) and list it under fixtures"}, Lacking},
		"fixtures": {need(harness.Need{Kind: harness.NeedFixture, What: "conformance-noop"}),
			Check{Name: "fixtures", State: OK, Found: "all 1 that are asked for are listed"}, Ready},
		"receiver": {need(harness.Need{Kind: harness.NeedReach, Lack: "there is none; give one"}),
			Check{Name: "receiver", State: Missing, Found: "there is none", Do: "give one", Rows: 2}, Lacking},
		"receiver called": {func(f *harness.Findings) {
			need(harness.Need{Kind: harness.NeedReach})(f)
			f.Receiver, f.Called = "https://r", true
		}, Check{Name: "receiver", State: OK, Found: "a delivery of the host reached https://r", Rows: 2}, Ready},
		"receiver not called": {func(f *harness.Findings) {
			need(harness.Need{Kind: harness.NeedReach})(f)
			f.Receiver = "https://r"
		}, Check{Name: "receiver", State: Warn, Found: "no delivery of the host reached https://r yet, and nothing shows that none can", Rows: 2,
			Do: "a run will judge the host by what does not arrive; see that the host can reach the address"}, Ready},
		"means": {need(harness.Need{Kind: harness.NeedMeans, What: "x", Lack: "no group is known; name one"}),
			Check{Name: "operator", State: Missing, Found: "no group is known", Do: "name one", Rows: 2}, Lacking},
		"seams": {need(harness.Need{Kind: harness.NeedSeamsProfile, Lack: "the host does not name it"}),
			Check{Name: "seams", State: Warn, Found: "the host does not name it, so its rows do not bind it", Rows: 2, Do: "on a host under test, mount the seams operations and name the profile"}, Ready},
		"recovery": {need(harness.Need{Kind: harness.NeedDurability}), Check{Name: "recovery", State: OK, Found: "durability is claimed", Rows: 2}, Ready},
		"key refused": {func(f *harness.Findings) {
			f.Keys = []harness.Key{{Who: harness.ReadOnly, Given: true, Refused: true, Observed: "401 no", Supply: "give it"}}
		}, Check{Name: "key", State: Missing, Found: "read-only key: refused with 401 no", Do: "certify does not start with it; give it"}, Lacking},
		"key not needed": {func(f *harness.Findings) { f.Keys = []harness.Key{{Who: harness.ReadOnly, Supply: "give it"}} },
			Check{Name: "key", State: OK, Found: "read-only key: not given, and nothing asks for it"}, Ready},
		"key missing": {func(f *harness.Findings) {
			f.Keys = []harness.Key{{Who: harness.ReadOnly, Supply: "give it"}}
			need(harness.Need{Kind: harness.NeedKey, Who: harness.ReadOnly, Lack: "no"})(f)
		}, Check{Name: "key", State: Missing, Found: "read-only key: not given", Do: "give it", Rows: 2}, Lacking},
		"key twice": {func(f *harness.Findings) {
			f.Keys = []harness.Key{{Who: harness.ReadOnly, Given: true, SameAs: &other, Supply: "give it"}}
		}, Check{Name: "key", State: Warn, Found: "read-only key: the same key as that of the primary tenant", Do: "what tells the two apart will fail; give it"}, Ready},
		"clock": {skew(-31 * time.Second), Check{Name: "clock", State: Warn, Found: "the host's is 31s behind this machine's", Do: "set both by network time: signatures and deadlines are judged by them"}, Ready},
		"close": {skew(30 * time.Second), Check{Name: "clock", State: OK, Found: "the host's is 30s ahead of this machine's"}, Ready},
		"no clock": {func(f *harness.Findings) { f.Clock = nil },
			Check{Name: "clock", State: Warn, Found: "the host sends no Date, so its clock cannot be compared", Do: "see that it runs by network time"}, Ready},
		"opt-out": {func(f *harness.Findings) { f.OptOuts = []string{"webhooks"} },
			Check{Name: "opt-out", State: Missing, Found: "the host advertises webhooks, so it cannot be opted out of", Do: "leave --opt-out webhooks out: certify refuses it"}, Lacking},
	} {
		r := Examine(measured(c.change))
		assert.Contains(t, r.Checks, c.check, name)
		assert.Equal(t, c.verdict, r.Verdict, name)
		var b bytes.Buffer
		require.NoError(t, r.Text(&b))
		assert.Contains(t, b.String(), c.check.Found, name)
		assert.NotContains(t, b.String(), "\x1b", "what a host says of itself does not paint the terminal")
	}
}

func TestAHostThatIsNotReached(t *testing.T) {
	t.Parallel()
	f := &harness.Findings{Hops: []harness.Hop{{Name: "name"}, {Name: "connection", Detail: "refused", Failed: true}}}
	r := Examine(Facts{URL: "http://h", Findings: f, Unmeasured: &harness.DiscoveryError{Hint: "nothing listens there"}})
	assert.Equal(t, Unreachable, r.Verdict)
	assert.Equal(t, Check{Name: "connection", State: Failed, Found: "refused",
		Do: "nothing listens there; start the host, and see that the port is right and no firewall is between"}, r.Checks[1])
	assert.Nil(t, r.Rows)
}
