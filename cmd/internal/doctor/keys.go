package doctor

import (
	"fmt"

	"wopcert/harness"
)

// keys says of every key whether it was given, what the host says to it, and what hangs on it.
func (r *Report) keys(f *harness.Findings) {
	for _, k := range f.Keys {
		c := Check{Name: "key", State: OK, Rows: rowsOf(f, k.Who)}
		switch {
		case k.Refused:
			c.State, c.Found = Missing, fmt.Sprintf("%s: refused with %s", k.Who, k.Observed)
			c.Do = "certify does not start with it; " + k.Supply
		case !k.Given && c.Rows > 0:
			c.State, c.Found, c.Do = Missing, fmt.Sprintf("%s: not given", k.Who), k.Supply
		case !k.Given:
			c.Found = fmt.Sprintf("%s: not given, and nothing asks for it", k.Who)
		case k.SameAs != nil:
			c.State, c.Found = Warn, fmt.Sprintf("%s: the same key as that of the %s", k.Who, *k.SameAs)
			c.Do = "what tells the two apart will fail; " + k.Supply
		case k.Silent:
			c.State, c.Found = Warn, fmt.Sprintf("%s: %s", k.Who, k.Observed)
			c.Do = "see why the host does not answer GET /workflows/conformance-noop"
		default:
			c.Found = fmt.Sprintf("%s: accepted", k.Who)
		}
		r.add(c)
	}
}

func rowsOf(f *harness.Findings, who harness.Identity) int {
	for _, n := range f.Needs {
		if n.Kind == harness.NeedKey && n.Who == who {
			return len(n.Rows)
		}
	}
	return 0
}
