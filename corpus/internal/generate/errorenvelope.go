package main

import "strings"

// vendorCode is the grammar of a vendor error code (errors.md §The registry). The
// look-ahead the contract writes becomes a "not" beside it: the schema compiler's
// regular expressions have none.
const vendorCode = `^[a-z][a-z0-9]*(-[a-z0-9]+)*\.[a-z][a-z0-9_]*$`

type errorRow struct {
	Code       string `json:"code"`
	HTTPStatus int    `json:"httpStatus"`
	Retriable  bool   `json:"retriable"`
	Details    string `json:"details"`
}

func renderErrorEnvelope(root string) ([]byte, error) {
	var registry struct {
		Codes []errorRow `json:"codes"`
	}
	if err := readJSON(root, "registries/errors.json", &registry); err != nil {
		return nil, err
	}
	reserved, err := reservedOrgs(root)
	if err != nil {
		return nil, err
	}
	var codes, retriable []string
	var status object
	var details []any
	for _, row := range registry.Codes {
		codes = append(codes, row.Code)
		status = append(status, member{row.Code, row.HTTPStatus})
		if row.Retriable {
			retriable = append(retriable, row.Code)
		}
		if row.Details != "" {
			details = append(details, detailsRule(row))
		}
	}
	body := object{
		{"type", "object"},
		{"required", []string{"error", "message"}},
		{"properties", object{
			{"error", object{{"oneOf", []any{
				object{{"$ref", "#/$defs/registeredCode"}},
				object{{"$ref", "#/$defs/vendorCode"}},
			}}}},
			{"message", object{{"type", "string"}, {"minLength", 1}}},
			{"details", object{{"type", "object"}}},
		}},
		{"additionalProperties", false},
		{"allOf", details},
		{"x-openwop-http-status", status},
		{"x-openwop-retriable", retriable},
		{"$defs", object{
			{"registeredCode", object{{"type", "string"}, {"enum", codes}}},
			{"vendorCode", vendorRule(vendorCode, reserved)},
		}},
	}
	return document("error-envelope", "Error envelope",
		"Generated from registries/errors.json. The body of every error response: a code, a message and, where a code has a schema for them, details of that shape.", body)
}

// detailsRule binds the details of one code to the schema its row registers.
func detailsRule(row errorRow) object {
	file, fragment, _ := strings.Cut(row.Details, "#")
	return object{
		{"if", object{
			{"properties", object{{"error", object{{"const", row.Code}}}}},
			{"required", []string{"error"}},
		}},
		{"then", object{
			{"properties", object{{"details", object{{"$ref", file + ".schema.json#" + fragment}}}}},
		}},
	}
}

// vendorRule is a vendor grammar without the names no vendor can have.
func vendorRule(pattern string, excluded []string) object {
	return object{
		{"type", "string"},
		{"pattern", pattern},
		{"not", object{{"pattern", `^(` + strings.Join(excluded, "|") + `)\.`}}},
	}
}

func reservedOrgs(root string) ([]string, error) {
	var orgs struct {
		Reserved []string `json:"reserved"`
	}
	err := readJSON(root, "registries/orgs.json", &orgs)
	return orgs.Reserved, err
}
