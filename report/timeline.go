package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"wopcert/bundle"
	"wopcert/harness"
)

// timeline draws the tests of a run side by side as they ran.
type timeline struct {
	Width, Height float64
	Bars          []bar
	Ticks         []tick
	Slowest       []bar // the longest first, for those who read and do not point
}

type bar struct {
	X, Y, Width, Height float64
	Class, Label        string
}

type tick struct {
	X     float64
	Label string
}

const (
	timelineWidth = 1000.0
	laneHeight    = 9.0
	slowestShown  = 20
)

// newTimeline is nil when no test has run.
func newTimeline(tests []harness.TestResult, rows []bundle.Row) *timeline {
	ran := slices.DeleteFunc(slices.Clone(tests), func(t harness.TestResult) bool { return !t.Ran })
	if len(ran) == 0 {
		return nil
	}
	slices.SortStableFunc(ran, func(a, b harness.TestResult) int { return a.Started.Compare(b.Started) })
	begin, end := ran[0].Started, ran[0].Started
	for _, t := range ran {
		if last := t.Started.Add(t.Elapsed); last.After(end) {
			end = last
		}
	}
	whole := max(end.Sub(begin), time.Millisecond)
	scale := timelineWidth / float64(whole)
	worst := map[string]string{}
	for _, row := range rows {
		if class, _ := classOf(row.Result); class == "fail" || class == "blocked" && worst[row.Scenario] != "fail" {
			worst[row.Scenario] = class
		}
	}
	line := &timeline{Width: timelineWidth}
	var lanes []time.Time // when each lane is free again
	for _, t := range ran {
		lane := slices.IndexFunc(lanes, func(free time.Time) bool { return !free.After(t.Started) })
		if lane < 0 {
			lane = len(lanes)
			lanes = append(lanes, time.Time{})
		}
		lanes[lane] = t.Started.Add(t.Elapsed)
		class := worst[t.Scenario]
		if class == "" {
			class = "pass"
		}
		line.Bars = append(line.Bars, bar{
			X: float64(t.Started.Sub(begin)) * scale, Y: float64(lane) * laneHeight, Width: max(float64(t.Elapsed)*scale, 1), Height: laneHeight - 2,
			Class: class, Label: Clean(fmt.Sprintf("%s: %s, %s", t.Scenario, t.Test, t.Elapsed.Round(time.Millisecond))),
		})
	}
	line.Slowest = slices.Clone(line.Bars)
	slices.SortStableFunc(line.Slowest, func(a, b bar) int { return cmp.Compare(b.Width, a.Width) })
	line.Slowest = line.Slowest[:min(len(line.Slowest), slowestShown)]
	line.Height = float64(len(lanes))*laneHeight + 14
	for i := range 6 {
		at := whole * time.Duration(i) / 5
		line.Ticks = append(line.Ticks, tick{X: timelineWidth * float64(i) / 5, Label: strings.TrimSuffix(at.Round(10*time.Millisecond).String(), "0s")})
	}
	line.Ticks[0].Label = "0"
	return line
}
