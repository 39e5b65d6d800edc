package harness

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sort"
	"sync"
	"time"
)

// job is one test to run.
type job struct {
	scenario *Scenario
	test     *Test
}

// drive runs the tests: those that may share the host side by side, the long
// ones first so that nothing waits for a late starter, then the exclusive ones one
// after the other, and at last those that kill the host, which share its kills.
func (r *run) drive(ctx context.Context, o Options) {
	var shared, alone, last []job
	for i := range o.Scenarios {
		s := &o.Scenarios[i]
		r.pending[s.ID] = len(s.Tests)
		for j := range s.Tests {
			if s.Tests[j].Last {
				last = append(last, job{s, &s.Tests[j]})
			} else if s.Tests[j].Exclusive {
				alone = append(alone, job{s, &s.Tests[j]})
			} else {
				shared = append(shared, job{s, &s.Tests[j]})
			}
		}
	}
	sort.SliceStable(shared, func(i, j int) bool { return shared[i].test.Slow > shared[j].test.Slow })
	parallel := o.Parallel
	if parallel <= 0 {
		parallel = DefaultParallel
	}
	queue := make(chan job)
	var workers sync.WaitGroup
	for range min(parallel, max(len(shared), 1)) {
		workers.Go(func() {
			for j := range queue {
				r.one(ctx, j)
			}
		})
	}
	for _, j := range shared {
		queue <- j
	}
	close(queue)
	workers.Wait()
	for _, j := range alone {
		r.one(ctx, j)
	}
	r.kills = &kills{members: len(last)}
	var killers sync.WaitGroup
	for _, j := range last {
		killers.Go(func() {
			defer r.kills.leave()
			r.one(ctx, j)
		})
	}
	killers.Wait()
}

// one runs a test behind its gates and files what it observed.
func (r *run) one(ctx context.Context, j job) {
	log := &observations{scenario: j.scenario.ID, test: j.test.Name, declared: j.test.Witnesses}
	result := TestResult{Scenario: j.scenario.ID, Test: j.test.Name, Started: time.Now()}
	reason, disposition := evaluate(j.gates(), r.env(ctx))
	switch {
	case disposition != "":
		for _, id := range j.test.Witnesses {
			log.add(observation{id: id, outcome: disposition, reason: reason})
		}
		reason = ""
	case ctx.Err() != nil:
		reason = "the run was interrupted before this test"
	default:
		r.notify(func(p Progress) { p.Started(j.scenario.ID, j.test.Name) })
		result.Ran = true
		reason = r.execute(ctx, j, log)
	}
	result.Elapsed = time.Since(result.Started)
	r.file(j, log.close(reason), log.stray, result)
}

// gates are all that a test stands behind.
func (j job) gates() []Gate {
	gates := slices.Concat(j.scenario.Gates, j.test.Gates)
	if !j.test.Public {
		gates = append(gates, NeedsCredential(Primary))
	}
	return gates
}

// env is what the gates of this run are evaluated against.
func (r *run) env(ctx context.Context) *Env {
	return &Env{Host: r.host, Credentials: r.credentials, Approver: r.approver, OptOuts: r.optOuts,
		relaxations: r.relaxations, recovery: r.recovery, receiver: func() (string, bool) { return r.reachable(ctx) }}
}

// execute runs the test's function on its own goroutine and returns the reason
// it stopped before its end, "" when it ended by itself.
func (r *run) execute(ctx context.Context, j job, log *observations) string {
	timeout := max(r.timeout, j.test.Timeout)
	testCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	t := &T{ctx: testCtx, run: r, scenario: j.scenario.ID, test: j.test.Name, log: log,
		tape: r.capture.tape(j.scenario.ID, j.test.Name), tag: sync.OnceValue(newTag)}
	done := make(chan string, 1)
	go func() {
		reason := "aborted" // what Goexit leaves; the recorded reason replaces it
		defer func() {
			if p := recover(); p != nil {
				r.suiteFault(fmt.Sprintf("%s/%s panicked: %v\n%s", j.scenario.ID, j.test.Name, p, debug.Stack()))
				reason = "the test itself failed"
			}
			done <- reason
		}()
		j.test.Run(t)
		reason = ""
	}()
	// Every wait of a test ends with its context, so this returns promptly.
	reason := <-done
	switch {
	case reason == "":
		return ""
	case ctx.Err() != nil:
		return "the run was interrupted during this test"
	case errors.Is(testCtx.Err(), context.DeadlineExceeded):
		return fmt.Sprintf("the test did not end within %s", timeout)
	}
	return reason
}

func newTag() string { return "wopcert-" + rand.Text() }
