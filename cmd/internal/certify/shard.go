package certify

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"wopcert/bundle/jcs"
	"wopcert/harness"
	"wopcert/report"
)

// Shard is one part of a run that is divided by cost.
type Shard struct {
	Index, Count int
	whole        []string // scenarios of the undivided run
	costs        string   // digest of their costs
}

// Costs is how long scenarios take, in milliseconds: the sum of their tests'.
type Costs map[string]int64

// defaultCost is what a scenario counts that has no entry, about the mean.
const defaultCost = 500

// maxCost keeps sums far from overflow: a day.
const maxCost = int64(24 * time.Hour / time.Millisecond)

// of is at least 1, so that a part that is empty always comes before one that is not.
func (c Costs) of(scenario string) int64 {
	ms, ok := c[scenario]
	if !ok {
		return defaultCost
	}
	return min(max(ms, 1), maxCost)
}

//go:embed costs.json
var measuredCosts []byte

// MeasuredCosts are the costs measured on the reference host. They are made anew by
//
//	go run ./cmd/internal/certify/internal/costs EVIDENCE/results.json > cmd/internal/certify/costs.json
func MeasuredCosts() (Costs, error) {
	var c Costs
	if err := json.Unmarshal(measuredCosts, &c); err != nil {
		return nil, fmt.Errorf("the table of costs: %w", err)
	}
	return c, nil
}

// ReadCosts takes the costs from the results.json of an earlier run.
func ReadCosts(results []byte) (Costs, error) {
	var run struct {
		Tests []harness.TestResult `json:"tests"`
	}
	if err := json.Unmarshal(results, &run); err != nil {
		return nil, err
	}
	if len(run.Tests) == 0 {
		return nil, errors.New("it holds no tests")
	}
	elapsed := map[string]time.Duration{}
	for _, t := range run.Tests {
		elapsed[t.Scenario] += min(max(t.Elapsed, 0), time.Hour)
	}
	c := Costs{}
	for scenario, d := range elapsed {
		c[scenario] = d.Round(time.Millisecond).Milliseconds()
	}
	return c, nil
}

// ParseShard reads I/N.
func ParseShard(text string) (index, count int, err error) {
	left, right, ok := strings.Cut(text, "/")
	index, badIndex := strconv.Atoi(left)
	count, badCount := strconv.Atoi(right)
	const hint = "as in --shard 1/3, the first of three parts"
	switch {
	case !ok, badIndex != nil, badCount != nil, left != strconv.Itoa(index), right != strconv.Itoa(count):
		return 0, 0, &SelectionError{fmt.Sprintf("shard %q is not I/N", text), hint}
	case count < 1:
		return 0, 0, &SelectionError{fmt.Sprintf("shard %q: there is at least one part", text), hint}
	case index < 1 || index > count:
		return 0, 0, &SelectionError{fmt.Sprintf("shard %q: the parts are 1 to %d", text, count), hint}
	}
	return index, count, nil
}

// Divide narrows the request to one part of its scenarios. Every part of one count makes
// the same division of the same scenarios and costs.
func (q *Request) Divide(index, count int, costs Costs) error {
	if count > len(q.Scenarios) {
		return &SelectionError{fmt.Sprintf("%d parts of %d scenarios: some would be empty", count, len(q.Scenarios)), "give fewer parts, or select more"}
	}
	s := &Shard{Index: index, Count: count}
	var priced strings.Builder
	for _, sc := range q.Scenarios {
		s.whole = append(s.whole, sc.ID)
		fmt.Fprintf(&priced, "%s %d\n", sc.ID, costs.of(sc.ID))
	}
	s.costs = digest([]byte(priced.String()))
	chosen := divide(s.whole, count, costs)[index-1]
	q.Scenarios = slices.DeleteFunc(slices.Clone(q.Scenarios), func(sc harness.Scenario) bool { return !slices.Contains(chosen, sc.ID) })
	q.Shard = s
	return nil
}

// divide hands the scenarios out, the dearest first, each to the part that costs least so far.
func divide(scenarios []string, count int, costs Costs) [][]string {
	order := slices.Clone(scenarios)
	slices.SortFunc(order, func(a, b string) int {
		return cmp.Or(cmp.Compare(costs.of(b), costs.of(a)), cmp.Compare(a, b))
	})
	parts, load := make([][]string, count), make([]int64, count)
	for _, id := range order {
		least := 0
		for i := range load {
			if load[i] < load[least] {
				least = i
			}
		}
		parts[least] = append(parts[least], id)
		load[least] += costs.of(id)
	}
	return parts
}

// shardFacts are what the evidence of a part says of itself and of the whole.
func (q *Request) shardFacts(discovery []byte) (*report.Shard, error) {
	f := &report.Shard{
		Index: q.Shard.Index, Count: q.Shard.Count, CostsSHA256: q.Shard.costs,
		Selection: report.ShardSelection{
			Scenarios:    append([]string{}, q.Selection.Scenarios...),
			Requirements: append([]string{}, q.Selection.Requirements...),
			Profiles:     append([]string{}, q.Selection.Profiles...),
		},
		Scenarios: []string{}, OptOuts: append([]string{}, q.OptOuts...), Credentials: q.Credentials.Labels(),
	}
	slices.Sort(f.OptOuts)
	f.OptOuts = slices.Compact(f.OptOuts)
	for _, sc := range q.Scenarios {
		f.Scenarios = append(f.Scenarios, sc.ID)
	}
	var err error
	if f.DiscoverySHA256, err = jcs.SHA256(discovery); err != nil {
		return nil, fmt.Errorf("discovery document: %w", err)
	}
	if f.SelectionSHA256, err = selectionDigest(q.Shard.whole, q.Selection.Profiles); err != nil {
		return nil, err
	}
	if q.Recovery != nil {
		f.RecoverySHA256, err = recoveryDigest(q.Recovery)
	}
	return f, err
}

// selectionDigest digests which scenarios run and which profiles are asked for, however that was typed.
func selectionDigest(scenarios, profiles []string) (string, error) {
	profiles = append([]string{}, profiles...)
	slices.Sort(profiles)
	text, err := json.Marshal(map[string][]string{"scenarios": scenarios, "profiles": slices.Compact(profiles)})
	return digest(text), err
}

// recoveryDigest digests what is claimed of the host's recovery, and not how it is killed.
func recoveryDigest(r *harness.Recovery) (string, error) {
	text, err := json.Marshal([]any{r.Bounds, r.AfterAccept, r.DuringExecution, r.MaxAttempts})
	return digest(text), err
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
