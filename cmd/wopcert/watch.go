package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"wopcert/cmd/internal/certify"
	"wopcert/harness"
	"wopcert/report"
)

// pollEvery is how often --watch looks whether the host is there.
const pollEvery = time.Second

// refuseWatch says what --watch does not go with.
func (f certifyFlags) refuseWatch(asJSON bool) error {
	switch {
	case !f.watch:
		return nil
	case f.referenceHost:
		return usageError("give --host URL; the bundled host never changes", "--watch and --reference-host exclude each other")
	case asJSON:
		return usageError("leave one of them out; results.json in each evidence directory is the same for programs", "--watch and --format json exclude each other")
	case f.given["shard"]:
		return usageError("leave one of them out", "--watch and --shard exclude each other")
	}
	return nil
}

// watch certifies, waits for the host to change, and certifies again what did not pass,
// until it is interrupted. Its answer is that of the last run.
func watch(ctx context.Context, s streams, q certify.Request, judged judgement) error {
	whole, base := q, q.Out
	say := func(format string, args ...any) {
		fmt.Fprintf(s.err, "watch: %s\n", report.Clean(fmt.Sprintf(format, args...)))
	}
	result, err := certifyOnce(ctx, s, q, false)
	if err != nil {
		return err
	}
	answer, seen, next := answered(judged.code(result)), seenDiscovery(result), again(whole, result)
	w := watcher{url: q.HostURL, every: pollEvery, say: say}
	for w.wait(ctx, seen) {
		if next.Out, err = nextOut(base); err != nil {
			return err
		}
		say("running %s again; the evidence goes to %s", counted(len(next.Scenarios)), next.Out)
		result, err = certifyOnce(ctx, s, next, false)
		if err == nil {
			answer, seen, next = answered(judged.code(result)), seenDiscovery(result), again(whole, result)
			continue
		}
		answer, seen = err, nil
		var exit *exitError
		if !errors.As(err, &exit) || exit.code != exitUnknown {
			return err
		}
		// A host that is still on its way up, or refuses a key, may do better next time.
		say("no run: %s", exit.text)
	}
	return answer
}

func counted(n int) string {
	if n == 1 {
		return "1 scenario"
	}
	return fmt.Sprintf("%d scenarios", n)
}

// again is the request for the scenarios that failed or were blocked, or for the whole
// when there are none. A part of a run decides no profile.
func again(whole certify.Request, result *report.Certification) certify.Request {
	var open []string
	for _, f := range result.Failures {
		open = append(open, f.Scenario)
	}
	for _, b := range result.Blocked {
		open = append(open, b.Scenario)
	}
	q := whole
	if len(open) == 0 {
		return q
	}
	q.Scenarios, q.Selection = nil, certify.Selection{}
	for _, scenario := range whole.Scenarios {
		if slices.Contains(open, scenario.ID) {
			q.Scenarios = append(q.Scenarios, scenario)
			q.Selection.Scenarios = append(q.Selection.Scenarios, scenario.ID)
		}
	}
	if len(q.Scenarios) == len(whole.Scenarios) {
		return whole
	}
	return q
}

// nextOut is the first of OUT-2, OUT-3, … that is not there yet.
func nextOut(base string) (string, error) {
	for n := 2; ; n++ {
		dir := fmt.Sprintf("%s-%d", filepath.Clean(base), n)
		switch _, err := os.Lstat(dir); {
		case errors.Is(err, fs.ErrNotExist):
			return dir, nil
		case err != nil:
			return "", usageError("give another --out", "output directory %s cannot be used: %v", dir, err)
		}
	}
}

// seenDiscovery is the discovery document as the run captured it, nil where it cannot be read.
func seenDiscovery(result *report.Certification) []byte {
	document, err := os.ReadFile(filepath.Join(result.Out, "discovery.json"))
	if err != nil {
		return nil
	}
	return document
}

// watcher waits for a host to change.
type watcher struct {
	url   string
	every time.Duration
	say   func(format string, args ...any)
}

// wait returns true when the host went away and is back, or answers another discovery
// document than the one seen; nil compares with the first one read. It returns false
// when the context ends.
func (w watcher) wait(ctx context.Context, seen []byte) bool {
	w.say("waiting for %s to go away and come back, or for its discovery document to change; Ctrl-C ends", w.url)
	var other []byte // a document that differed, until a second reading confirms it
	gone, fickle := false, false
	ticks := time.NewTicker(w.every)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-ticks.C:
		}
		d, err := harness.Discover(ctx, w.url)
		switch {
		case ctx.Err() != nil:
			return false
		case err != nil && !gone:
			gone = true
			w.say("the host went away (%s); waiting for it to come back", whyGone(err))
		case err != nil:
		case gone:
			w.say("the host is back")
			return true
		case seen == nil:
			seen = d.Raw
		case fickle || bytes.Equal(d.Raw, seen):
			other = nil
		case other == nil:
			other = d.Raw
		case bytes.Equal(d.Raw, other):
			w.say("the discovery document changed")
			return true
		default:
			fickle = true
			w.say("the discovery document is another one at every reading, so only the host's going away is waited for")
		}
	}
}

func whyGone(err error) string {
	var discovery *harness.DiscoveryError
	if errors.As(err, &discovery) {
		return discovery.Why
	}
	return err.Error()
}

// certifyOnce runs one certification and prints its answer.
func certifyOnce(ctx context.Context, s streams, q certify.Request, asJSON bool) (*report.Certification, error) {
	tests := 0
	for _, scenario := range q.Scenarios {
		tests += len(scenario.Tests)
	}
	progress := report.NewProgress(s.err, len(q.Scenarios), tests)
	q.Progress = progress
	result, err := certify.Run(ctx, q)
	progress.Close()
	if err != nil {
		return nil, certifyError(err)
	}
	return result, printed(s.out, result, asJSON)
}

func printed(w io.Writer, result *report.Certification, asJSON bool) error {
	if asJSON {
		return writeJSON(w, result)
	}
	result.Text(w)
	return nil
}
