package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"wopcert/corpus"
	"wopcert/fixtures"
	"wopcert/reference-host/faults"
	"wopcert/reference-host/variants"
	"wopcert/requirements"
	"wopcert/scenarios"
)

// table is a listing: the same rows as text and as JSON objects.
type table struct {
	columns []string
	rows    []map[string]any
}

func (t table) write(w io.Writer, asJSON bool) error {
	if asJSON {
		rows := t.rows
		if rows == nil {
			rows = []map[string]any{}
		}
		return writeJSON(w, rows)
	}
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, strings.ToUpper(strings.Join(t.columns, "\t")))
	for _, row := range t.rows {
		cells := make([]string, len(t.columns))
		for i, c := range t.columns {
			cells[i] = cell(row[c])
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	return tw.Flush()
}

func cell(v any) string {
	switch x := v.(type) {
	case nil:
		return ""
	case []string:
		return strings.Join(x, ", ")
	default:
		return fmt.Sprint(x)
	}
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func listCommand(s streams) *cobra.Command {
	lists := listings()
	names := make([]string, 0, len(lists))
	for name := range lists {
		names = append(names, name)
	}
	slices.Sort(names)
	c := &cobra.Command{
		Use:       "list " + strings.Join(names, "|"),
		Short:     "List what the program knows",
		ValidArgs: names,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
	}
	f := formatFlag(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		contract, err := corpus.Load()
		if err != nil {
			return err
		}
		t, err := lists[args[0]](contract)
		if err != nil {
			return err
		}
		return t.write(s.out, f.json())
	}
	return c
}

// listings maps what can be listed to how.
func listings() map[string]func(*corpus.Corpus) (table, error) {
	sure := func(list func(*corpus.Corpus) table) func(*corpus.Corpus) (table, error) {
		return func(c *corpus.Corpus) (table, error) { return list(c), nil }
	}
	return map[string]func(*corpus.Corpus) (table, error){
		"scenarios":    sure(listScenarios),
		"requirements": sure(listRequirements),
		"profiles":     sure(listProfiles),
		"families":     sure(listFamilies),
		"faults":       sure(listFaults),
		"variants":     sure(listVariants),
		"fixtures":     listFixtures,
		"operations":   sure(listOperations),
		"errors":       sure(listErrors),
		"events":       sure(listEvents),
	}
}

func listScenarios(c *corpus.Corpus) table {
	t := table{columns: []string{"id", "document", "section", "requirements", "title"}}
	for _, s := range scenarios.All() {
		t.rows = append(t.rows, map[string]any{"id": s.ID, "document": s.Document, "section": s.Section,
			"requirements": len(s.Requirements()), "title": s.Title})
	}
	return t
}

func listRequirements(*corpus.Corpus) table {
	t := table{columns: []string{"id", "level", "document", "section", "scenario", "statement"}}
	for _, r := range requirements.All() {
		t.rows = append(t.rows, map[string]any{"id": string(r.ID), "level": r.Level, "document": r.Document, "section": r.Section,
			"witness": r.Witness, "scenario": r.Scenario, "family": r.Family, "statement": r.Statement})
	}
	return t
}

func listProfiles(c *corpus.Corpus) table {
	t := table{columns: []string{"id", "families", "metadata", "floor", "summary"}}
	for _, p := range c.Profiles() {
		var floor []string
		for _, f := range p.Floor {
			floor = append(floor, f.Scenario+" since "+f.Since)
		}
		t.rows = append(t.rows, map[string]any{"id": p.ID, "families": p.Families, "metadata": p.Metadata, "floor": floor, "summary": p.Summary})
	}
	return t
}

func listFamilies(c *corpus.Corpus) table {
	t := table{columns: []string{"key", "anchor", "witness", "status", "facets"}}
	for _, f := range c.Families() {
		t.rows = append(t.rows, map[string]any{"key": f.Key, "anchor": f.Anchor, "witness": f.Witness, "status": f.Status, "facets": f.Facets})
	}
	return t
}

func listFaults(*corpus.Corpus) table {
	t := table{columns: []string{"id", "breaks", "summary"}}
	for _, f := range faults.All() {
		t.rows = append(t.rows, map[string]any{"id": f.ID, "breaks": idStrings(f.Breaks), "document": f.Document, "section": f.Section, "summary": f.Summary})
	}
	return t
}

func listVariants(*corpus.Corpus) table {
	t := table{columns: []string{"id", "document", "section", "summary"}}
	for _, v := range variants.All() {
		t.rows = append(t.rows, map[string]any{"id": v.ID, "document": v.Document, "section": v.Section, "relaxes": idStrings(v.Relaxes), "summary": v.Summary})
	}
	return t
}

func listFixtures(*corpus.Corpus) (table, error) {
	t := table{columns: []string{"id", "name", "description"}}
	all, err := fixtures.All()
	for _, f := range all {
		t.rows = append(t.rows, map[string]any{"id": f.ID, "name": f.Name, "description": f.Description})
	}
	return t, err
}

func listOperations(c *corpus.Corpus) table {
	t := table{columns: []string{"id", "method", "path", "scope", "gate", "requestHeaders", "responseHeaders"}}
	for _, o := range c.Operations() {
		t.rows = append(t.rows, map[string]any{"id": o.ID, "method": o.Method, "path": o.Path, "scope": o.Scope, "gate": o.Gate,
			"authenticated": o.Authenticated, "mutating": o.Mutating, "requestHeaders": o.RequestHeaders, "responseHeaders": o.ResponseHeaders})
	}
	return t
}

func listErrors(c *corpus.Corpus) table {
	t := table{columns: []string{"code", "status", "retriable", "since", "meaning"}}
	for _, e := range c.Errors() {
		t.rows = append(t.rows, map[string]any{"code": e.Code, "status": e.HTTPStatus, "retriable": e.Retriable, "since": e.Since, "meaning": e.Meaning})
	}
	return t
}

func listEvents(c *corpus.Corpus) table {
	t := table{columns: []string{"type", "payload", "tier", "v1"}}
	for _, e := range c.Events() {
		t.rows = append(t.rows, map[string]any{"type": e.Type, "payload": e.Payload, "tier": e.Tier, "v1": e.V1})
	}
	return t
}

func idStrings(ids []requirements.ID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = string(id)
	}
	return out
}
