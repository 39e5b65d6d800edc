package requirements

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Alias records that an id was renamed. Published bundles keep citing the old
// one, so the row stays for ever.
type Alias struct {
	From ID `json:"from"`
	// To is the id that took its place: one of the registry, or another
	// renamed one.
	To ID `json:"to"`
	// Since is the version of this suite that made the change, such as 1.2.0.
	Since string `json:"since"`
	Why   string `json:"why"`
}

// Aliases returns the renamed ids in the order they were recorded.
func Aliases() []Alias { return slices.Clone(must().aliases) }

// Resolve returns the registry id that name stands for: the id itself, an id
// it replaced, or either without the prefix openwop.requirement. It reports
// false for a name that was never published.
func Resolve(name string) (ID, bool) { return must().resolve(name) }

func (t *tables) resolve(name string) (ID, bool) {
	id := ID(name)
	if !strings.HasPrefix(name, Prefix) {
		id = ID(Prefix + name)
	}
	if _, ok := t.byID[id]; ok {
		return id, true
	}
	to, ok := t.target[id]
	return to, ok
}

// parseAliases reads aliases.json and checks each row for itself.
func parseAliases(data []byte) ([]Alias, error) {
	var rows []Alias
	if err := decodeStrict(data, &rows); err != nil {
		return nil, fmt.Errorf("aliases.json: %w", err)
	}
	var errs []error
	seen := map[ID]bool{}
	for i, a := range rows {
		fail := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("aliases.json row %d (%s): %s", i+1, a.From, fmt.Sprintf(format, args...)))
		}
		if !idPattern.MatchString(string(a.From)) || !idPattern.MatchString(string(a.To)) {
			fail("from and to both have to match %s", idPattern)
		}
		if seen[a.From] {
			fail("the id was renamed in an earlier row already")
		}
		seen[a.From] = true
		if a.Since == "" {
			fail("since is empty; name the version that renamed it")
		}
		if !strings.HasSuffix(a.Why, ".") {
			fail("why is empty or does not end with a full stop")
		}
	}
	return rows, errors.Join(errs...)
}

// followAliases resolves every renamed id to a registry id. It refuses an id
// that is still in the registry, a chain that ends outside it, and a loop.
func followAliases(aliases []Alias, registry map[ID]Requirement) (map[ID]ID, error) {
	next := make(map[ID]ID, len(aliases))
	for _, a := range aliases {
		next[a.From] = a.To
	}
	target := make(map[ID]ID, len(aliases))
	var errs []error
	for _, a := range aliases {
		if _, ok := registry[a.From]; ok {
			errs = append(errs, fmt.Errorf("aliases.json: %s is renamed and still in registry.json; remove one", a.From))
			continue
		}
		id, steps := a.To, 0
		for {
			if _, ok := registry[id]; ok {
				target[a.From] = id
				break
			}
			to, renamed := next[id]
			if !renamed {
				errs = append(errs, fmt.Errorf("aliases.json: %s leads to %s, which registry.json does not hold", a.From, id))
				break
			}
			if steps++; steps > len(aliases) {
				errs = append(errs, fmt.Errorf("aliases.json: %s leads round in a loop", a.From))
				break
			}
			id = to
		}
	}
	return target, errors.Join(errs...)
}

// parseLock reads ids.lock: one id a line, sorted, none twice.
func parseLock(data []byte) ([]ID, error) {
	lines, err := sortedLines("ids.lock", data)
	ids := make([]ID, len(lines))
	for i, l := range lines {
		ids[i] = ID(l)
	}
	return ids, err
}

// checkLock holds the registry to what was published: an id of the lock is in
// the registry or renamed, and an id of either is in the lock.
func checkLock(lock []ID, registry map[ID]Requirement, aliases []Alias) error {
	renamed := map[ID]bool{}
	for _, a := range aliases {
		renamed[a.From] = true
	}
	locked := make(map[ID]bool, len(lock))
	var errs []error
	for _, id := range lock {
		locked[id] = true
		if _, ok := registry[id]; !ok && !renamed[id] {
			errs = append(errs, fmt.Errorf("%s was published (ids.lock) and is gone from registry.json; add a row to aliases.json that says what it is now", id))
		}
	}
	for id := range registry {
		if !locked[id] {
			errs = append(errs, fmt.Errorf("%s is not in ids.lock; run go generate ./requirements", id))
		}
	}
	for id := range renamed {
		if !locked[id] {
			errs = append(errs, fmt.Errorf("aliases.json renames %s, which was never published (ids.lock)", id))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// UpstreamIDs returns the requirement ids the published suite recorded on its
// own reference host, sorted. They are facts to compare with; a requirement of
// this registry that is the same one carries the same id.
func UpstreamIDs() []string { return slices.Clone(must().upstream) }

// parseUpstream reads upstream-ids.txt: one id a line, sorted, none twice.
func parseUpstream(data []byte) ([]string, error) { return sortedLines("upstream-ids.txt", data) }

// sortedLines reads a list of requirement ids, one a line, each line ended.
func sortedLines(name string, data []byte) ([]string, error) {
	text, ended := strings.CutSuffix(string(data), "\n")
	if !ended {
		return nil, fmt.Errorf("%s is empty or its last line is not ended", name)
	}
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if !idPattern.MatchString(l) {
			return nil, fmt.Errorf("%s line %d: %q does not match %s", name, i+1, l, idPattern)
		}
		if i > 0 && lines[i-1] >= l {
			return nil, fmt.Errorf("%s line %d: %s is out of order or there twice", name, i+1, l)
		}
	}
	return lines, nil
}
