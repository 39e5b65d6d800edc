package requirements

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// Requirement is one observable demand on a host.
type Requirement struct {
	ID ID `json:"id"`
	// Level is the obligation's word: MUST, MUST NOT, SHOULD, SHOULD NOT, MAY,
	// REQUIRED or RECOMMENDED.
	Level string `json:"level"`
	// Document and Section say where the specification demands it: a file name
	// such as runs.md and the text of a heading in it.
	Document string `json:"document"`
	Section  string `json:"section"`
	// Witness is the class of conformance.md, "Witness class".
	Witness string `json:"witness"`
	// Statement says in this project's words who has to do what, and when.
	Statement string `json:"statement"`
	// Scenario is the one scenario whose tests witness the requirement.
	Scenario string `json:"scenario"`
	// Family is the capability family whose advertisement makes it bind, empty
	// when none does.
	Family string `json:"family"`
}

// All returns every requirement, in registry order.
func All() []Requirement { return slices.Clone(must().requirements) }

// Get returns the requirement of the registry with exactly this id. For a
// renamed id or a short form use [Resolve] first.
func Get(id ID) (Requirement, bool) {
	r, ok := must().byID[id]
	return r, ok
}

var (
	idPattern       = regexp.MustCompile(`^openwop\.requirement\.[a-z0-9][a-z0-9.-]*$`)
	scenarioPattern = regexp.MustCompile(`^v2-[a-z0-9]+(-[a-z0-9]+)*$`)
	familyPattern   = regexp.MustCompile(`^[a-z][A-Za-z0-9]*$`)
)

func levels() []string {
	return []string{"MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY", "REQUIRED", "RECOMMENDED"}
}

// witnessClasses are the classes of conformance.md under which a requirement
// can be witnessed; unwitnessable is not one of them.
func witnessClasses() []string {
	return []string{"witnessable-unaided", "witnessable-gated", "seam-gated", "claims-check", "negative-existence"}
}

// documents are the normative documents a requirement can come from: the core
// of the specification, and the contract of the conformance workflows.
func documents() []string {
	return []string{
		"artifact-type-packs.md", "capabilities.md", "conformance.md", "connection-packs.md", "conversation.md",
		"errors.md", "events.md", "execution.md", "fixtures.md", "form-content-packs.md", "headers.md",
		"host-services.md", "i18n.md", "idempotency.md", "identity.md", "interop.md", "interrupt.md",
		"node-pack-runtimes.md", "oauth.md", "overview.md", "packs.md", "persistence.md", "portability.md",
		"replay.md", "runs.md", "security-defaults.md", "storage.md", "tool-catalog.md", "versioning.md",
		"webhooks.md", "workflow-chain-packs.md",
	}
}

// decodeStrict decodes one JSON value and refuses unknown members and
// anything after the value.
func decodeStrict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the first JSON value")
	}
	return nil
}

// parseRegistry reads registry.json and checks each row for itself.
func parseRegistry(data []byte) ([]Requirement, error) {
	var rows []Requirement
	if err := decodeStrict(data, &rows); err != nil {
		return nil, fmt.Errorf("registry.json: %w", err)
	}
	if len(rows) == 0 {
		return nil, errors.New("registry.json holds no requirement")
	}
	var errs []error
	seen := map[ID]bool{}
	for i, r := range rows {
		for _, defect := range r.defects() {
			errs = append(errs, fmt.Errorf("registry.json row %d (%s): %s", i+1, r.ID, defect))
		}
		if seen[r.ID] {
			errs = append(errs, fmt.Errorf("registry.json row %d (%s): the id is in an earlier row too", i+1, r.ID))
		}
		seen[r.ID] = true
	}
	return rows, errors.Join(errs...)
}

// defects lists what is wrong with a row, looked at alone.
func (r Requirement) defects() []string {
	var out []string
	check := func(ok bool, format string, args ...any) {
		if !ok {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	check(idPattern.MatchString(string(r.ID)), "the id does not match %s", idPattern)
	check(slices.Contains(levels(), r.Level), "the level %q is none of %s", r.Level, strings.Join(levels(), ", "))
	check(slices.Contains(documents(), r.Document), "the document %q is not a known one", r.Document)
	check(r.Section != "" && r.Section == strings.TrimSpace(r.Section), "the section %q is empty or padded", r.Section)
	check(slices.Contains(witnessClasses(), r.Witness), "the witness class %q is none of %s", r.Witness, strings.Join(witnessClasses(), ", "))
	check(len(r.Statement) > 1 && strings.HasSuffix(r.Statement, "."), "the statement does not end with a full stop")
	check(!strings.ContainsAny(r.Statement, "\n\r\t"), "the statement is not one line")
	check(scenarioPattern.MatchString(r.Scenario), "the scenario %q does not match %s", r.Scenario, scenarioPattern)
	check(r.Family == "" || familyPattern.MatchString(r.Family), "the family %q is no capability key", r.Family)
	check(r.Family == "" || r.Witness != "witnessable-unaided", "a requirement that %s gates is not witnessable-unaided", r.Family)
	return out
}
