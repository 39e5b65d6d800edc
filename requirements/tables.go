package requirements

import (
	_ "embed"
	"errors"
	"fmt"
	"sync"
)

var (
	//go:embed registry.json
	registryData []byte
	//go:embed aliases.json
	aliasesData []byte
	//go:embed ids.lock
	lockData []byte
	//go:embed obligations.tsv
	obligationsData []byte
	//go:embed beyond.tsv
	beyondData []byte
	//go:embed upstream-ids.txt
	upstreamData []byte
)

// sources are the bytes the tables are read from.
type sources struct {
	registry, aliases, lock, obligations, beyond, upstream []byte
}

// tables is the package's data, read and checked. It is never written after.
type tables struct {
	requirements []Requirement
	byID         map[ID]Requirement
	aliases      []Alias
	target       map[ID]ID // every renamed id to the registry id it stands for now
	obligations  []Obligation
	beyond       []Beyond
	upstream     []string
}

var embedded = sync.OnceValues(func() (*tables, error) {
	return read(sources{
		registry: registryData, aliases: aliasesData, lock: lockData,
		obligations: obligationsData, beyond: beyondData, upstream: upstreamData,
	})
})

// Load reads and checks the embedded tables, once. Its error names every row
// that is malformed or that contradicts another table; a released program
// returns nil, since the tests of this package do.
func Load() error {
	_, err := embedded()
	return err
}

// must returns the tables for the accessors, which have no error to return.
// They panic when Load would have failed: nothing can be answered then.
func must() *tables {
	t, err := embedded()
	if err != nil {
		panic(err)
	}
	return t
}

// read parses all tables and checks them against each other. Each table is
// read even when another is broken, so that one run lists every defect.
func read(src sources) (*tables, error) {
	var t tables
	var lock []ID
	var errs [6]error
	t.requirements, errs[0] = parseRegistry(src.registry)
	t.aliases, errs[1] = parseAliases(src.aliases)
	lock, errs[2] = parseLock(src.lock)
	t.obligations, errs[3] = parseObligations(src.obligations)
	t.beyond, errs[4] = parseBeyond(src.beyond)
	t.upstream, errs[5] = parseUpstream(src.upstream)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("requirements: %w", err)
	}
	t.byID = make(map[ID]Requirement, len(t.requirements))
	for _, r := range t.requirements {
		t.byID[r.ID] = r
	}
	var err error
	t.target, err = followAliases(t.aliases, t.byID)
	err = errors.Join(err, checkLock(lock, t.byID, t.aliases), checkObligations(&t))
	if err != nil {
		return nil, fmt.Errorf("requirements: %w", err)
	}
	return &t, nil
}
