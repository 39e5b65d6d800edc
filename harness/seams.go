package harness

import (
	"fmt"

	"wopcert/seams"
)

// NeedsSeams gates on the seams profile, which a host names in its discovery document
// when it mounts the operations under /conformance/seams (conformance.md, "The seams
// profile").
func NeedsSeams() Gate {
	g := HostFact(fmt.Sprintf("the host does not name %s in conformance.seamsProfile", seams.Profile), func(d *Discovery) bool {
		return Get(d.Document, "conformance", "seamsProfile") == any(seams.Profile)
	})
	g.need.kind = NeedSeamsProfile
	return g
}

// Seam performs one call of the seams profile.
func (t *T) Seam(c seams.Call) *Response {
	return t.Do(Request{Method: c.Method, Path: c.Path, Body: c.Body})
}

// NeedSeam performs a call that a test stands on and ends the test when it did not
// work.
func (t *T) NeedSeam(c seams.Call) *Response {
	r := t.Seam(c)
	if check := All(r.Is(c.Success), r.Valid(c.Response)); !check.OK {
		t.Abort("the host names the seams profile, and %s gave %s: want %s", r.Request, check.Observed, check.Expected)
	}
	return r
}
