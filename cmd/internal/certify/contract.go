package certify

import (
	"fmt"
	"strings"

	"wopcert/corpus"
	"wopcert/report"
)

// suiteVersion is [SuiteVersion] with the version of the contract in use.
func (q *Request) suiteVersion() string {
	contract, _, _ := strings.Cut(q.Corpus.Version(), "+") // a version has one build part
	return programVersion + "+" + contract
}

// noteContract says that an installed package stood in for this program's schemas, and where it
// had nothing to stand in with.
func (q *Request) noteContract(c *report.Certification) {
	kept := q.Corpus.OwnSchemas()
	if len(kept) == 0 {
		return
	}
	c.Notes = append(c.Notes, fmt.Sprintf("the schemas are those of %s %s; this program's own stood in for: %s",
		corpus.PackageName, q.Corpus.Version(), strings.Join(wholes(kept), ", ")))
}

// wholes leaves the definitions of a schema out where the schema itself is on the list.
func wholes(names []string) (out []string) {
	listed := map[string]bool{}
	for _, name := range names {
		listed[name] = true
	}
	for _, name := range names {
		file, definition, _ := strings.Cut(name, "#")
		if definition == "" || !listed[file] {
			out = append(out, name)
		}
	}
	return out
}
