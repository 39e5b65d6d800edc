package corpus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
)

// Load returns the embedded contract. The first call checks every file against
// CORPUS-STAMP.json, reads the registries and compiles every schema; later calls
// return the same value. A digest mismatch is a *StampError.
func Load() (*Corpus, error) { return loadEmbedded() }

var loadEmbedded = sync.OnceValues(func() (*Corpus, error) { return LoadFS(embedded) })

// LoadFS is Load over another tree, laid out as this package's folder is: schemas/,
// registries/, api/ and CORPUS-STAMP.json at its root. It is not memoised.
func LoadFS(fsys fs.FS) (*Corpus, error) {
	stamp, err := checkStamp(fsys)
	if err != nil {
		return nil, err
	}
	c := &Corpus{stampSHA256: stamp}
	if err := c.readRegistries(fsys); err != nil {
		return nil, err
	}
	if c.schemas, err = compileSchemas(fsys, c.coherence); err != nil {
		return nil, err
	}
	if err := c.checkReferences(); err != nil {
		return nil, err
	}
	return c, nil
}

// registries is every registry file, as it is written.
type registries struct {
	codes struct {
		Codes []ErrorCode `json:"codes"`
	}
	events struct {
		Events []EventType `json:"events"`
	}
	families struct {
		Families []Family `json:"families"`
	}
	metadata struct {
		Keys []string `json:"keys"`
	}
	profiles struct {
		Profiles []Profile `json:"profiles"`
	}
	orgs struct {
		Orgs     []string `json:"orgs"`
		Reserved []string `json:"reserved"`
	}
	anchors struct {
		Requirements []string `json:"requirements"`
	}
	coherence struct {
		Scenarios []string `json:"scenarios"`
	}
	codemap struct {
		Rows []CodemapRow `json:"rows"`
	}
	seams struct {
		Operations []SeamOperation `json:"operations"`
	}
	api struct {
		Operations []Operation `json:"operations"`
		Channels   []Channel   `json:"channels"`
	}
}

func (c *Corpus) readRegistries(fsys fs.FS) error {
	var r registries
	if err := errors.Join(
		readRegistry(fsys, "registries/errors.json", &r.codes),
		readRegistry(fsys, "registries/events.json", &r.events),
		readRegistry(fsys, "registries/families.json", &r.families),
		readRegistry(fsys, "registries/metadata-keys.json", &r.metadata),
		readRegistry(fsys, "registries/profiles.json", &r.profiles),
		readRegistry(fsys, "registries/orgs.json", &r.orgs),
		readRegistry(fsys, "registries/trust-anchors.json", &r.anchors),
		readRegistry(fsys, "registries/coherence-scenarios.json", &r.coherence),
		readRegistry(fsys, "registries/event-codemap.json", &r.codemap),
		readRegistry(fsys, "api/operations.json", &r.api),
		readRegistry(fsys, "api/seams.json", &r.seams),
	); err != nil {
		return err
	}
	c.metadataKeys, c.orgs, c.reservedOrgs = r.metadata.Keys, r.orgs.Orgs, r.orgs.Reserved
	c.trustAnchors, c.coherence, c.channels = r.anchors.Requirements, r.coherence.Scenarios, r.api.Channels
	var err error
	if c.errors, err = index("error code", r.codes.Codes, func(e ErrorCode) string { return e.Code }); err != nil {
		return err
	}
	if c.events, err = index("event type", r.events.Events, func(e EventType) string { return e.Type }); err != nil {
		return err
	}
	if c.families, err = index("family", r.families.Families, func(f Family) string { return f.Key }); err != nil {
		return err
	}
	if c.profiles, err = index("profile", r.profiles.Profiles, func(p Profile) string { return p.ID }); err != nil {
		return err
	}
	if c.operations, err = index("operation", r.api.Operations, func(o Operation) string { return o.ID }); err != nil {
		return err
	}
	if c.seams, err = index("seam operation", r.seams.Operations, func(o SeamOperation) string { return o.ID }); err != nil {
		return err
	}
	if c.codemap, err = index("version 1 event type", r.codemap.Rows, func(row CodemapRow) string { return row.V1 }); err != nil {
		return err
	}
	return nil
}

// joinCodemap gives every event type its version 1 name and holds the codemap to
// being a bijection onto the registered types: two version 1 names of one type would
// leave its version 1 spelling to a guess.
func (c *Corpus) joinCodemap() error {
	for _, row := range c.codemap.rows {
		at, ok := c.events.index[row.V2]
		if !ok {
			return fmt.Errorf("corpus: the codemap maps %s to the unregistered event type %q", row.V1, row.V2)
		}
		if other := c.events.rows[at].V1; other != "" {
			return fmt.Errorf("corpus: the codemap maps both %s and %s to %s", other, row.V1, row.V2)
		}
		c.events.rows[at].V1 = row.V1
	}
	for _, e := range c.events.rows {
		if e.V1 == "" {
			return fmt.Errorf("corpus: the codemap has no row for the event type %s", e.Type)
		}
	}
	return nil
}

// readRegistry decodes strictly: a misspelt member would otherwise read as a zero.
func readRegistry(fsys fs.FS, name string, into any) error {
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return fmt.Errorf("corpus: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("corpus: %s: %w", name, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("corpus: %s: text after the registry object", name)
	}
	return nil
}

func index[T any](kind string, rows []T, key func(T) string) (table[T], error) {
	t := table[T]{rows: rows, index: make(map[string]int, len(rows))}
	for i, row := range rows {
		k := key(row)
		if k == "" {
			return t, fmt.Errorf("corpus: %s number %d has no name", kind, i)
		}
		if _, twice := t.index[k]; twice {
			return t, fmt.Errorf("corpus: %s %q is registered twice", kind, k)
		}
		t.index[k] = i
	}
	return t, nil
}

// checkReferences holds the registries to each other: what one names, another has.
func (c *Corpus) checkReferences() error {
	for _, e := range c.errors.rows {
		if e.Details != "" && !c.schemas.has(e.Details) {
			return fmt.Errorf("corpus: error code %s names the unknown schema %s", e.Code, e.Details)
		}
	}
	for _, e := range c.events.rows {
		if !c.schemas.has(payloadSchema(e.Payload)) {
			return fmt.Errorf("corpus: event type %s names the unknown payload %s", e.Type, e.Payload)
		}
	}
	if err := c.joinCodemap(); err != nil {
		return err
	}
	for _, o := range c.seams.rows {
		for _, name := range []string{o.Request, o.Response} {
			if name != "" && !c.schemas.has(name) {
				return fmt.Errorf("corpus: seam operation %s names the unknown schema %s", o.ID, name)
			}
		}
	}
	for _, p := range c.profiles.rows {
		for _, key := range p.Families {
			if _, ok := c.families.index[key]; !ok {
				return fmt.Errorf("corpus: profile %s names the unknown family %s", p.ID, key)
			}
		}
		for _, f := range p.Floor {
			if _, err := parseVersion(f.Since); err != nil {
				return fmt.Errorf("corpus: profile %s, scenario %s: %w", p.ID, f.Scenario, err)
			}
		}
	}
	return nil
}
