package scenarios

import (
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"wopcert/harness"
)

// readWellKnown reads the discovery document as anybody may, under a version
// header or with harness.NoVersion.
func readWellKnown(t *harness.T, version string, headers ...string) *harness.Response {
	return t.Do(harness.Request{Path: harness.WellKnown, As: harness.Anonymous, Version: version, Header: headerOf(headers...)})
}

// headerOf builds a header from names and values in turn.
func headerOf(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i+1 < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

// answered is what came, in one line.
func answered(r *harness.Response) string { return r.Is(0).Observed }

// mediaType is the response's media type without parameters.
func mediaType(r *harness.Response) string {
	m, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return m
}

// versionHeader is the response's OpenWOP-Version when it has one.
func versionHeader(r *harness.Response) (string, bool) {
	values := r.Header.Values("OpenWOP-Version")
	return strings.Join(values, ", "), len(values) > 0
}

// namesVersion checks that a response carries OpenWOP-Version, once and in the
// form <major>.<minor>.
func namesVersion(what string, r *harness.Response) harness.Check {
	v, ok := versionHeader(r)
	observed := fmt.Sprintf("%s answered %s without OpenWOP-Version", what, answered(r))
	if ok {
		observed = fmt.Sprintf("%s answered %s with OpenWOP-Version: %s", what, answered(r), v)
	}
	return harness.That(r.Err == nil && isVersion(v), "OpenWOP-Version: <major>.<minor> on every response", "%s", observed).At(r)
}

// namesListed checks the version a response names against the list and the
// major that was asked for.
func namesListed(what string, r *harness.Response, d *harness.Discovery, major string) harness.Check {
	v, _ := versionHeader(r)
	ok := majorOf(v) == major && slices.Contains(d.Versions(), v)
	return harness.That(ok, fmt.Sprintf("OpenWOP-Version naming a version %s.x out of %v", major, d.Versions()),
		"%s answered %s with OpenWOP-Version: %s", what, answered(r), v).At(r)
}

// served checks that the well-known resource answered with a major's document:
// by its shape, and by the version the response names when it names one.
func served(what string, r *harness.Response, major string) harness.Check {
	expected := fmt.Sprintf("200 with the discovery document of major %s", major)
	doc, _ := r.JSON().(object)
	if r.Err != nil || r.Status != http.StatusOK || doc == nil {
		return harness.That(false, expected, "%s answered %s", what, answered(r)).At(r)
	}
	if v, ok := versionHeader(r); ok && majorOf(v) != major {
		return harness.That(false, expected, "%s answered 200 with OpenWOP-Version: %s", what, v).At(r)
	}
	if !representsMajor(doc, major) {
		return harness.That(false, expected, "%s answered 200 with another document", what).At(r)
	}
	return harness.That(true, expected, "%s answered so", what).At(r)
}

// representsMajor tells the representations of the well-known resource apart.
// Version 1 requires protocolVersion, and supportedEnvelopes as an array of
// kinds; in version 2 that name is a family, and so an object, and
// protocolVersions is required. Through the overlap either may have the other's
// version members beside its own.
func representsMajor(doc object, major string) bool {
	_, array := doc["supportedEnvelopes"].([]any)
	if major == "1" {
		return array || majorOf(text(doc, "protocolVersion")) == "1"
	}
	_, versions := doc["protocolVersions"].([]any)
	return versions && !array
}

// sameMembers compares two lists of strings without regard to order.
func sameMembers(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}

// versionsOf are the well-formed versions of a list.
func versionsOf(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(v string) bool { return !isVersion(v) })
}

// stringList is a JSON array of strings; ok is false for anything else.
func stringList(v any) (list []string, ok bool) {
	items, ok := v.([]any)
	if !ok {
		return nil, false
	}
	for _, e := range items {
		s, ok := e.(string)
		if !ok {
			return nil, false
		}
		list = append(list, s)
	}
	return list, true
}

// endingBody is the createRun body of a run that ends by itself.
func endingBody(t *harness.T) object { return endingBodies(t)[0] }
