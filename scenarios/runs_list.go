package scenarios

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"wopcert/harness"
	"wopcert/requirements"
)

// runList covers what listRuns holds (runs.md, "List").
func runList() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-run-list",
		Title:    "The run list holds the caller's runs and nobody else's, and keeps to its cursor and filters",
		Document: "runs.md", Section: "List",
		Gates: []harness.Gate{harness.Advertises("runList"), endingFixtures()},
		Tests: []harness.Test{
			{
				Name:      "the caller's runs are listed, and only those of its tenant",
				Witnesses: []requirements.ID{requirements.R0182RunListTenantScoped},
				Run:       listIsScoped,
			},
			{
				Name:      "a cursor the host did not mint is refused",
				Witnesses: []requirements.ID{requirements.R0182RunListCursorRefused},
				Run:       foreignCursor,
			},
			{
				Name:      "filters are exact where advertised and ignored where not",
				Witnesses: []requirements.ID{requirements.R0182RunListFilterExact},
				Run:       filtersExactly,
			},
		},
	}
}

// maxPageSize is runList.maxPageSize, or what a page asks for where the host
// does not say it.
func maxPageSize(t *harness.T) int64 {
	if v, ok := t.Host().Discovery.Facet("runList", "maxPageSize"); ok {
		if n, ok := integer(v); ok && n > 0 {
			return n
		}
	}
	return 100
}

// mostPages bounds how far a list is walked: further where its pages are small.
func mostPages(t *harness.T) int { return max(50, int(300/maxPageSize(t))) }

func list(t *harness.T, who harness.Identity, q url.Values) *harness.Response {
	return t.Do(harness.Request{Path: "/runs", Query: q, As: who})
}

// listedRun is one entry of the list and the page it stood on.
type listedRun struct {
	doc  object
	page *harness.Response
}

func (l listedRun) id() string { return text(l.doc, "runId") }

// walked is what was read of a list.
type walked struct {
	runs  []listedRun
	pages harness.Check // each page a 200 with runs
	whole bool          // the list was read to its end
}

// holds goes by the opaque segment: the form of the ids is for one row alone.
func (w walked) holds(id string) bool {
	return slices.ContainsFunc(w.runs, func(l listedRun) bool { return sameOpaque(l.id(), id) })
}

// walk reads the list page by page until it ends, every wanted run was met, or
// mostPages were read. The test ends when wanted runs may lie further back.
func walk(t *harness.T, who harness.Identity, q url.Values, wanted ...string) walked {
	w := walked{pages: harness.That(true, "pages of runs", "pages of runs")}
	for range mostPages(t) {
		r := list(t, who, q)
		runs, isList := r.Get("runs").([]any)
		if w.pages = harness.That(r.Is(http.StatusOK).OK && isList, "200 with a page of runs", "%s", answered(r)).At(r); !w.pages.OK {
			return w
		}
		for _, run := range runs {
			doc, _ := run.(object)
			w.runs = append(w.runs, listedRun{doc, r})
		}
		met := !slices.ContainsFunc(wanted, func(id string) bool { return !w.holds(id) })
		next := r.Text("nextCursor")
		if w.whole = next == ""; w.whole || len(wanted) > 0 && met {
			return w
		}
		q = withParam(q, "cursor", next)
	}
	if len(wanted) > 0 {
		t.Abort("the runs to find may lie behind the first %d pages of the run list, which were read", mostPages(t))
	}
	return w
}

// withParam is a query with one parameter set anew.
func withParam(q url.Values, name, value string) url.Values {
	out := url.Values{}
	for k, v := range q {
		out[k] = v
	}
	out.Set(name, value)
	return out
}

func widePage(t *harness.T) url.Values { return url.Values{"limit": {decimal(maxPageSize(t))}} }

func listIsScoped(t *harness.T) {
	first := startRun(t, endingBody(t))
	foreign := ""
	if t.Has(harness.OtherTenant) {
		foreign = startRunAs(t, harness.OtherTenant, endingBody(t)) // between two of the caller's
	}
	others, done := inOtherStates(t)
	defer done()
	own := append(others, first, startRun(t, endingBody(t)))
	mine := walk(t, harness.Primary, widePage(t), own...)
	for _, id := range own {
		t.Expect(requirements.R0182RunListTenantScoped, lists(mine, id))
	}
	for range 3 { // the run that was created last is listed too
		body, _ := tagged(endingBody(t))
		id := startRun(t, body)
		t.Expect(requirements.R0182RunListTenantScoped, lists(walk(t, harness.Primary, widePage(t), id), id))
	}
	t.Expect(requirements.R0182RunListTenantScoped, mine.valid())
	further := morePages(t, harness.Primary, url.Values{"limit": {decimal(min(2, maxPageSize(t)))}}, 6)
	t.Expect(requirements.R0182RunListTenantScoped, further.pages)
	for _, run := range append(mine.runs, further.runs...) {
		t.Expect(requirements.R0182RunListTenantScoped, ofTenant(t, run, tenantSegment(first)))
	}
	if foreign == "" || tenantSegment(foreign) == tenantSegment(first) {
		return // another subject of the same tenant shows nothing
	}
	theirs := walk(t, harness.OtherTenant, widePage(t), foreign)
	t.Expect(requirements.R0182RunListTenantScoped, lists(theirs, foreign))
	t.Expect(requirements.R0182RunListTenantScoped, theirs.valid())
	for _, run := range theirs.runs {
		t.Expect(requirements.R0182RunListTenantScoped, ofTenant(t, run, tenantSegment(foreign)))
	}
}

// inOtherStates are runs that failed, go on and were cancelled, as far as the
// host's fixtures allow, and what ends the one that goes on.
func inOtherStates(t *harness.T) (ids []string, done func()) {
	done = func() {}
	begin := func(body object) string {
		id := create(t, body).Text("runId")
		if id != "" {
			ids = append(ids, id)
		}
		return id
	}
	if listed(t, failure) {
		begin(object{"workflowId": failure})
	}
	if body := liveBody(t); body != nil {
		endRun(t, begin(body))
		live := begin(body)
		done = func() { endRun(t, live) }
	}
	return ids, done
}

// morePages are the first pages of a list, however many runs are met on them:
// what is true of the first page need not be of those a cursor leads to.
func morePages(t *harness.T, who harness.Identity, q url.Values, n int) walked {
	w := walked{pages: harness.That(true, "pages of runs", "pages of runs")}
	for range n {
		r := list(t, who, q)
		runs, isList := r.Get("runs").([]any)
		if w.pages = harness.That(r.Is(http.StatusOK).OK && isList, "200 with a page of runs", "%s", answered(r)).At(r); !w.pages.OK {
			return w
		}
		for _, run := range runs {
			doc, _ := run.(object)
			w.runs = append(w.runs, listedRun{doc, r})
		}
		next := r.Text("nextCursor")
		if w.whole = next == ""; w.whole {
			return w
		}
		q = withParam(q, "cursor", next)
	}
	return w
}

// lists checks that a list holds a run its reader created.
func lists(w walked, id string) harness.Check {
	return harness.All(w.pages, harness.That(w.holds(id), "every run the caller created in its list", "%d runs, and %s is not among them", len(w.runs), id))
}

// valid checks each page once, however many runs it holds.
func (w walked) valid() harness.Check {
	checks := []harness.Check{w.pages}
	var last *harness.Response
	for _, run := range w.runs {
		if run.page != last {
			last = run.page
			checks = append(checks, last.Valid("run-list").At(last))
		}
	}
	return harness.All(checks...)
}

// ofTenant checks a listed run: a bound id in the tenant of the caller.
func ofTenant(t *harness.T, run listedRun, tenant string) harness.Check {
	return harness.All(idIs(t, "runId in the list", run.doc["runId"], "runId"),
		harness.That(tenantSegment(run.id()) == tenant, "only runs of the tenant "+tenant, "runId %s in the list", show(run.doc["runId"]))).At(run.page)
}

func foreignCursor(t *harness.T) {
	startRun(t, endingBody(t))
	startRun(t, endingBody(t))
	one := url.Values{"limit": {"1"}}
	r := list(t, harness.Primary, one)
	if !r.Is(http.StatusOK).OK {
		t.Abort("no list to page through: listRuns gave %s", answered(r))
	}
	t.Expect(requirements.R0182RunListCursorRefused, list(t, harness.Primary, withParam(one, "cursor", "wopcert")).Refuses("validation_error"))
	minted := r.Text("nextCursor")
	if minted == "" {
		return
	}
	if control := list(t, harness.Primary, withParam(one, "cursor", minted)); !control.Is(http.StatusOK).OK {
		t.Abort("the host does not take the cursor it minted, so that a refusal shows nothing: listRuns gave %s", answered(control))
	}
	// A short cursor may be a number that the host mints for another page.
	if len(minted) >= 16 {
		changed := altered(minted)
		check := list(t, harness.Primary, withParam(one, "cursor", changed)).Refuses("validation_error")
		check.Expected += " for a minted cursor with one character changed"
		t.Expect(requirements.R0182RunListCursorRefused, check)
	}
}

// altered is a cursor with one character in its middle changed.
func altered(cursor string) string {
	b := []byte(cursor)
	i := len(b) / 2
	if b[i] == 'x' {
		b[i] = 'w'
	} else {
		b[i] = 'x'
	}
	return string(b)
}

func filtersExactly(t *harness.T) {
	completed, _ := settledEnding(t)
	own := get(t, completed)
	status, workflow := own.Text("status"), own.Text("workflowId")
	if !endedStatus(status) || workflow == "" {
		t.Abort("no finished run to filter by: %s with status %q", answered(own), status)
	}
	if plain := walk(t, harness.Primary, widePage(t), completed); !lists(plain, completed).OK {
		t.Abort("no list to filter: %s", lists(plain, completed).Observed)
	}
	facet, _ := t.Host().Discovery.Facet("runList", "filters")
	advertised, _ := stringList(facet)
	other := map[string]string{"completed": "failed", "failed": "completed", "cancelled": "completed"}[status]
	for _, f := range []struct {
		name, value string
		others      []string // values the run does not have, of which one is a part of its own
	}{
		{"workflowId", workflow, []string{workflow[:len(workflow)-1], "wopcert-" + newOpaque()}},
		{"status", status, []string{other}},
	} {
		if !slices.Contains(advertised, f.name) {
			w := walk(t, harness.Primary, withParam(widePage(t), f.name, f.others[0]), completed)
			t.Expect(requirements.R0182RunListFilterExact, harness.All(w.pages, harness.That(w.holds(completed),
				"a filter that runList.filters does not name to be ignored", "%s=%s left %d runs, and %s is not among them", f.name, f.others[0], len(w.runs), completed)))
			continue
		}
		w := walk(t, harness.Primary, withParam(widePage(t), f.name, f.value), completed)
		t.Expect(requirements.R0182RunListFilterExact, harness.All(w.pages, allHave(w, completed, f.name, f.value), harness.That(w.holds(completed),
			fmt.Sprintf("%s=%s to leave the runs with that value", f.name, f.value), "%d runs, and %s is not among them", len(w.runs), completed)))
		single := withParam(url.Values{"limit": {"1"}}, f.name, f.value)
		if further := morePages(t, harness.Primary, single, 6); further.pages.OK {
			t.Expect(requirements.R0182RunListFilterExact, allHave(further, completed, f.name, f.value))
		}
		for _, value := range f.others {
			w := walk(t, harness.Primary, withParam(widePage(t), f.name, value))
			t.Expect(requirements.R0182RunListFilterExact, harness.All(w.pages, allHave(w, completed, f.name, value)))
		}
	}
}

// allHave checks that every listed run has a value in a member. Whose runs they
// are is for another row.
func allHave(w walked, own, member, value string) harness.Check {
	expected := fmt.Sprintf("only runs with %s %s under %s=%s", member, value, member, value)
	for _, run := range w.runs {
		bound := strings.Contains(run.id(), "/")
		if got := text(run.doc, member); got != value && (!bound || tenantSegment(run.id()) == tenantSegment(own)) {
			return harness.That(false, expected, "a run with %s %s", member, show(run.doc[member])).At(run.page)
		}
	}
	return harness.That(true, expected, "%d runs", len(w.runs))
}

// runListPages covers the pages of listRuns (runs.md, "List").
func runListPages() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-run-list-pages",
		Title:    "Pages of the run list keep to their size, and the newest run comes first",
		Document: "runs.md", Section: "List",
		Gates: []harness.Gate{harness.Advertises("runList"), endingFixtures()},
		Tests: []harness.Test{
			{
				Name:      "pages keep to their size and chain without a run twice",
				Witnesses: []requirements.ID{requirements.RunsListPageCeiling},
				Exclusive: true, // a run created between two pages may shift what they hold
				Run:       pagesChain,
			},
			{
				Name:      "the newest run comes first",
				Witnesses: []requirements.ID{requirements.RunsListNewestFirst},
				Run:       newestFirst,
			},
		},
	}
}

func pagesChain(t *harness.T) {
	most := maxPageSize(t)
	var own []string
	for range max(3, min(most+1, 6)) {
		id, _ := settledEnding(t)
		own = append(own, id)
	}
	plain := list(t, harness.Primary, nil)
	some, isList := plain.Get("runs").([]any)
	t.Expect(requirements.RunsListPageCeiling, harness.That(plain.Is(http.StatusOK).OK && isList && int64(len(some)) <= most,
		fmt.Sprintf("at most %d runs on a page", most), "without a limit %s with %d runs", answered(plain), len(some)).At(plain))
	for _, limit := range []int64{most + 1, 1000 + most} {
		r := list(t, harness.Primary, url.Values{"limit": {decimal(limit)}})
		if r.Refuses("validation_error").OK {
			continue // a limit beyond the ceiling may be clamped or refused
		}
		runs, isList := r.Get("runs").([]any)
		t.Expect(requirements.RunsListPageCeiling, harness.That(r.Is(http.StatusOK).OK && isList && int64(len(runs)) <= most,
			fmt.Sprintf("at most %d runs on a page", most), "limit=%d gave %s with %d runs", limit, answered(r), len(runs)).At(r))
	}
	// Newest first is a recommendation: where single pages do not come to the
	// runs soon, wide ones do.
	for _, limit := range []int64{1, most} {
		found, pages := chained(t, own, limit)
		if !t.Expect(requirements.RunsListPageCeiling, pages) || found {
			return
		}
	}
}

// newestFirst reads wide pages until it has come to three runs made one after
// another.
func newestFirst(t *harness.T) {
	var newest []string
	for range 3 {
		id, _ := settledEnding(t)
		newest = append([]string{id}, newest...)
	}
	w := walk(t, harness.Primary, widePage(t), newest...)
	var order []string
	for _, run := range w.runs {
		if i := slices.IndexFunc(newest, func(id string) bool { return sameOpaque(id, run.id()) }); i >= 0 && !slices.Contains(order, newest[i]) {
			order = append(order, newest[i])
		}
	}
	if !w.pages.OK || len(order) < len(newest) {
		t.Abort("no order to observe: %s with %d of %d runs just created", w.pages.Observed, len(order), len(newest))
	}
	t.Should(requirements.RunsListNewestFirst, harness.That(slices.Equal(order, newest), "the newest of the caller's runs first",
		"runs created as %v, newest first, are listed in the order %v", newest, order))
}

// chained follows nextCursor through pages of a limit until it has met every
// run of the caller's, and reports whether it has. The check is about the
// pages: no more runs than asked for, none twice, and all of the caller's before
// the list ends.
func chained(t *harness.T, own []string, limit int64) (found bool, pages harness.Check) {
	var met []string
	left := slices.Clone(own)
	q := url.Values{"limit": {decimal(limit)}}
	for range mostPages(t) {
		r := list(t, harness.Primary, q)
		runs, isList := r.Get("runs").([]any)
		pages = harness.That(r.Is(http.StatusOK).OK && isList && int64(len(runs)) <= limit,
			fmt.Sprintf("200 with at most %d runs for limit=%d", limit, limit), "%s with %d runs", answered(r), len(runs)).At(r)
		if !pages.OK {
			return false, pages
		}
		for _, run := range runs {
			id, _ := harness.Get(run, "runId").(string)
			if slices.Contains(met, id) {
				return false, harness.That(false, "each run once on the chained pages", "%s again", id).At(r)
			}
			met = append(met, id)
			left = slices.DeleteFunc(left, func(o string) bool { return sameOpaque(o, id) })
		}
		next := r.Text("nextCursor")
		if len(left) == 0 {
			return true, pages
		}
		if next == "" {
			return false, harness.That(false, "every run of the caller on the chained pages", "%d runs, and %d of %d that were just created",
				len(met), len(own)-len(left), len(own)).At(r)
		}
		q = withParam(q, "cursor", next)
	}
	return false, pages
}
