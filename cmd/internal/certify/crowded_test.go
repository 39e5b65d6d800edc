package certify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"wopcert/bundle"
	"wopcert/harness"
	"wopcert/report"
)

func TestCrowded(t *testing.T) {
	t.Parallel()
	began := time.Now()
	at := func(address string, index int, test string, start, length time.Duration) *part {
		return &part{dir: "d", shard: &report.Shard{Index: index, Count: 2}, bundle: bundle.Bundle{Discovery: bundle.Discovery{URL: address}},
			results: report.Results{Tests: []harness.TestResult{{Scenario: "v2-a", Test: test, Started: began.Add(start), Elapsed: length, Ran: true}}}}
	}
	q := Request{Scenarios: []harness.Scenario{{ID: "v2-a", Tests: []harness.Test{{Name: "alone", Exclusive: true}, {Name: "last", Last: true}, {Name: "shared"}}}}}
	const remote, local = "https://host.example/.well-known/openwop", "http://127.0.0.1:80/.well-known/openwop"
	for _, c := range []struct {
		address, test string
		start         time.Duration
		crowded       bool
	}{
		{remote, "alone", 5 * time.Second, true},
		{remote, "last", -5 * time.Second, true},
		{remote, "shared", 5 * time.Second, false},
		{remote, "alone", 20 * time.Second, false},
		{remote, "alone", -20 * time.Second, false},
		{local, "alone", 5 * time.Second, false},
	} {
		notes := q.crowded([]*part{at(c.address, 1, "shared", 0, 10*time.Second), at(c.address, 2, c.test, c.start, 10*time.Second)})
		assert.Equal(t, c.crowded, len(notes) == 1, "%v: %v", c, notes)
	}
}
