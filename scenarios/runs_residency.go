package scenarios

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"wopcert/harness"
	"wopcert/requirements"
)

// dataResidency: runs.md, "Refusals" and "dataResidency".
func dataResidency() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-data-residency",
		Title:    "A residency constraint is kept or refused, and never only said to be kept",
		Document: "runs.md",
		Section:  "dataResidency",
		Gates:    []harness.Gate{endingFixtures()},
		Tests: []harness.Test{
			{
				Name:      "a region the host does not have",
				Witnesses: []requirements.ID{requirements.RunsResidencyUnavailableRefused},
				Gates:     []harness.Gate{harness.Advertises("dataResidency")},
				Run: func(t *harness.T) {
					control(t, harness.Primary, endingBody(t))
					body, tag := tagged(inRegion(endingBody(t), "wopcert-nowhere-1"))
					t.Expect(requirements.RunsResidencyUnavailableRefused, create(t, body).Refuses("residency_unavailable"))
					t.Expect(requirements.RunsResidencyUnavailableRefused, noRunTagged(t, harness.Primary, tag))
				},
			},
			{
				Name:      "regions the host has",
				Witnesses: []requirements.ID{requirements.RunsResidencyRegionAccepted},
				Gates: []harness.Gate{
					harness.Advertises("dataResidency"),
					harness.HostFact("the host advertises no region", func(d *harness.Discovery) bool { return len(regions(d)) > 0 }),
				},
				Run: func(t *harness.T) {
					control(t, harness.Primary, endingBody(t))
					for _, region := range firstOf(2, regions(t.Host().Discovery)) {
						r := create(t, inRegion(endingBody(t), region))
						if t.Expect(requirements.RunsResidencyRegionAccepted, admitted("the region "+region, r)) {
							made := get(t, r.Text("runId"))
							t.Expect(requirements.RunsResidencyRegionAccepted, harness.All(made.Is(http.StatusOK),
								harness.That(made.Text("status") != "", "a run that can be read", "status %s", show(made.Get("status")))).At(made))
						}
					}
				},
			},
			{
				Name:      "a region asked of a host that keeps none",
				Witnesses: []requirements.ID{requirements.RunsResidencyNotClaimed},
				Gates: []harness.Gate{harness.HostFact("the host advertises dataResidency",
					func(d *harness.Discovery) bool { return !d.Advertises("dataResidency") })},
				Run: residencyNotClaimed,
			},
		},
	}
}

func inRegion(body object, region string) object {
	return with(body, "residency", object{"region": region})
}

func regions(d *harness.Discovery) []string {
	v, _ := d.Facet("dataResidency", "regions")
	list, _ := stringList(v)
	return list
}

func firstOf(n int, list []string) []string { return list[:min(n, len(list))] }

// residencyNotClaimed creates one run with the constraint and one without.
// What both of them show is not about the constraint.
func residencyNotClaimed(t *harness.T) {
	const region = "eu-west-1"
	plain := claimsOf(t, control(t, harness.Primary, endingBody(t)), region)
	r := create(t, inRegion(endingBody(t), region))
	if !r.Is(http.StatusCreated).OK {
		check := refusedByHost(t, "createRun with a residency", r)
		check.Expected = "201, or " + check.Expected
		t.Expect(requirements.RunsResidencyNotClaimed, check)
		return
	}
	claims := slices.DeleteFunc(claimsOf(t, r, region), func(c string) bool { return slices.Contains(plain, c) })
	t.Expect(requirements.RunsResidencyNotClaimed, none("claim to keep the residency constraint", claims))
}

// claimsOf are the members of a created run's response, snapshot and events
// that speak of a residency. The test ends where the run cannot be read.
func claimsOf(t *harness.T, r *harness.Response, region string) []string {
	id := r.Text("runId")
	l := readLog(t, id, settle)
	if !l.terminal || len(l.events) == 0 {
		t.Abort("no finished run to look for a claim in: it has status %q and %d events", l.status, len(l.events))
	}
	found := claims("createRun", r.JSON(), region)
	found = append(found, claims("the snapshot", withoutEchoes(snapshot(t, id).JSON()), region)...)
	for _, e := range l.events {
		found = append(found, claims(fmt.Sprint(e["type"]), withoutEchoes(e["payload"]), region)...)
	}
	return found
}

// withoutEchoes takes out what a run was given and gives back unchanged.
func withoutEchoes(v any) any {
	m, ok := v.(object)
	if !ok {
		return v
	}
	m = maps.Clone(m)
	for _, name := range []string{"inputs", "metadata", "tags"} {
		delete(m, name)
	}
	return m
}

// claims walks a value for members that are named after residency and say yes
// to it, and for members named after a region that name the one asked for.
func claims(where string, v any, region string) []string {
	var found []string
	switch x := v.(type) {
	case object:
		for _, name := range slices.Sorted(maps.Keys(x)) {
			at, lower := where+"."+name, strings.ToLower(name)
			switch {
			case strings.Contains(lower, "residen") && affirms(x[name]), strings.Contains(lower, "region") && x[name] == any(region):
				found = append(found, at+" "+show(x[name]))
			default:
				found = append(found, claims(at, x[name], region)...)
			}
		}
	case []any:
		for _, e := range x {
			found = append(found, claims(where, e, region)...)
		}
	}
	return found
}

// affirms reports whether a value says anything but no.
func affirms(v any) bool {
	switch x := v.(type) {
	case nil:
		return false
	case bool:
		return x
	case object:
		return slices.ContainsFunc(slices.Collect(maps.Values(x)), affirms)
	case []any:
		return slices.ContainsFunc(x, affirms)
	}
	return true
}
