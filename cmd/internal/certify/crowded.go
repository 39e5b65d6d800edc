package certify

import (
	"fmt"
	"net"
	"net/url"
	"slices"

	"wopcert/harness"
)

// crowded says where a test that needs the host to itself ran while another part did. Whether
// they drove one host the evidence does not tell: at a loopback address they did not, unless
// they shared a machine.
func (q *Request) crowded(parts []*part) []string {
	if loopback(parts[0].bundle.Discovery.URL) {
		return nil
	}
	for _, p := range parts {
		for _, alone := range p.results.Tests {
			if !alone.Ran || !q.exclusive(alone) {
				continue
			}
			for _, other := range parts {
				if other != p && slices.ContainsFunc(other.results.Tests, func(t harness.TestResult) bool { return t.Ran && overlap(alone, t) }) {
					return []string{fmt.Sprintf("%s/%s needs the host to itself and ran while %s did: if both drove one host, run the parts one after the other",
						alone.Scenario, alone.Test, other)}
				}
			}
		}
	}
	return nil
}

func (q *Request) exclusive(r harness.TestResult) bool {
	for _, sc := range q.Scenarios {
		if sc.ID == r.Scenario {
			return slices.ContainsFunc(sc.Tests, func(t harness.Test) bool { return t.Name == r.Test && (t.Exclusive || t.Last) })
		}
	}
	return false
}

func overlap(a, b harness.TestResult) bool {
	return a.Started.Before(b.Started.Add(b.Elapsed)) && b.Started.Before(a.Started.Add(a.Elapsed))
}

func loopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
