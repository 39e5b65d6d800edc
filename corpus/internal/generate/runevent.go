package main

import (
	"slices"
	"strings"
)

// vendorType is the grammar of a vendor event type (events.md §Types), with its
// look-ahead moved to a "not".
const vendorType = `^[a-z][a-z0-9]*(-[a-z0-9]+)*\.[a-z][a-z0-9]*(-[a-z0-9]+)*(\.[a-z][a-z0-9]*(-[a-z0-9]+)*)?$`

// packNamespaces are not event namespaces: a type under one is invalid (events.md
// §Types). "vendor" is reserved as an organisation as well.
var packNamespaces = []string{"core", "community", "private", "local"}

func renderRunEvent(root string) ([]byte, error) {
	var registry struct {
		Events []struct {
			Type string `json:"type"`
		} `json:"events"`
	}
	if err := readJSON(root, "registries/events.json", &registry); err != nil {
		return nil, err
	}
	excluded, err := reservedOrgs(root)
	if err != nil {
		return nil, err
	}
	excluded = append(excluded, packNamespaces...)
	var types []string
	for _, row := range registry.Events {
		types = append(types, row.Type)
		domain, _, _ := strings.Cut(row.Type, ".")
		excluded = append(excluded, domain)
	}
	slices.Sort(types)
	slices.Sort(excluded)
	excluded = slices.Compact(excluded)

	id := func(kind string) object { return object{{"$ref", "ids.schema.json#/$defs/" + kind}} }
	integer := func(minimum int) object { return object{{"type", "integer"}, {"minimum", minimum}} }
	body := object{
		{"type", "object"},
		{"required", []string{"eventId", "runId", "type", "payload", "timestamp", "sequence", "schemaVersion"}},
		{"properties", object{
			{"eventId", id("eventId")},
			{"runId", id("runId")},
			{"nodeId", id("nodeId")},
			{"type", object{{"oneOf", []any{
				object{{"$ref", "#/$defs/registeredType"}},
				object{{"$ref", "#/$defs/vendorType"}},
			}}}},
			{"payload", true},
			{"timestamp", object{{"type", "string"}, {"format", "date-time"}}},
			{"sequence", integer(0)},
			{"schemaVersion", integer(1)},
			{"engineVersion", integer(0)},
			{"causationId", object{{"type", "string"}, {"minLength", 1}, {"maxLength", 256}}},
		}},
		{"additionalProperties", false},
		{"$defs", object{
			{"registeredType", object{{"type", "string"}, {"enum", types}}},
			{"vendorType", vendorRule(vendorType, excluded)},
		}},
	}
	return document("run-event", "Run event",
		"Generated from registries/events.json. The two branches of type are disjoint: a vendor type cannot use a registered domain, a reserved organisation or a pack namespace. Whether its organisation is registered is for the organisation registry to say. causationId holds an event id or an AI envelope's correlation id.", body)
}
