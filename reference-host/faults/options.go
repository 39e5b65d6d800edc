package faults

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"wopcert/reference-host/tamper"
	"wopcert/requirements"
)

func configurableFaults() []Fault {
	schema := requirements.R0171ConfigurableClosedSchema
	return []Fault{
		wire("configurable-not-surfaced", "A snapshot does not show the configurable of its run.",
			"configurable", snapshot(func(doc object) { delete(doc, "configurable") }), schema).
			blocking(requirements.RunsConfigurableConstant),
		wire("configurable-normalised", "A snapshot shows the configurable with a default the caller did not set.",
			"reasoningVerbosity", snapshot(func(doc object) {
				if c, ok := doc["configurable"].(object); ok {
					c["ai"] = object{"reasoningVerbosity": "none"}
				}
			}), schema, requirements.RunsConfigurableConstant),
		wire("configurable-version-2-accepted", "A configurable of version 2 is accepted.",
			"201", configurable(func(c object) {
				if _, ok := c["version"]; ok {
					c["version"] = 1
				}
			}), schema),
		wire("configurable-version-text-accepted", "A configurable whose version is the string 1 is accepted.",
			"201", configurable(func(c object) {
				if c["version"] == "1" {
					c["version"] = 1
				}
			}), schema),
		wire("configurable-section-text-accepted", "A section of a configurable that is a string is dropped without a word.",
			"201", configurable(func(c object) {
				for _, name := range sections() {
					if _, ok := c[name].(string); ok && name != "version" {
						delete(c, name)
					}
				}
			}), schema),
		wire("configurable-list-accepted", "A configurable that is a list is dropped without a word.",
			"201", options(func(doc object) {
				if _, ok := doc["configurable"].([]any); ok {
					delete(doc, "configurable")
				}
			}), schema),
		wire("configurable-without-version-accepted", "A configurable without a version is accepted.",
			"201", configurable(func(c object) {
				if _, ok := c["version"]; !ok {
					c["version"] = 1
				}
			}), schema),
	}
}

func closedConfigurableFaults() []Fault {
	unknown := requirements.R0171ConfigurableClosedUnknownKey
	dotted := requirements.R0171ConfigurableClosedDottedKey
	hasConfigurable := func(doc object) bool { return doc["configurable"] != nil }
	return []Fault{
		wire("configurable-unknown-key-accepted", "An unknown key of a configurable is dropped without a word.",
			"201", configurable(func(c object) { unknownKeys(c, false) }), unknown),
		wire("configurable-unknown-section-key-accepted", "An unknown key inside a section of a configurable is dropped without a word.",
			"201", configurable(func(c object) {
				root := object{}
				for name, v := range c {
					root[name] = v
				}
				unknownKeys(c, false)
				for name, v := range root {
					if c[name] == nil {
						c[name] = v
					}
				}
			}), unknown),
		wire("configurable-unknown-key-422", "An unknown key of a configurable is refused 422.",
			"422", refusedCreate(func(doc object) bool {
				c, _ := doc["configurable"].(object)
				before := len(tamper.Encode(c))
				unknownKeys(c, false)
				return hasConfigurable(doc) && len(tamper.Encode(c)) != before
			}, func(a *tamper.Answer) { a.Status = http.StatusUnprocessableEntity }), unknown),
		wire("configurable-dotted-key-accepted", "A dotted key of a configurable is read as the path it spells.",
			"201", configurable(func(c object) { unknownKeys(c, true) }), dotted),
		wire("configurable-dotted-key-500", "A dotted key of a configurable makes the host answer 500.",
			"500", refusedCreate(func(doc object) bool {
				c, _ := doc["configurable"].(object)
				before := len(tamper.Encode(c))
				unknownKeys(c, true)
				return hasConfigurable(doc) && len(tamper.Encode(c)) != before
			}, func(a *tamper.Answer) { a.Refuse(500, "internal_error", "cannot read property of undefined") }), dotted),
	}
}

func limitFaults() []Fault {
	return []Fault{
		limit("too-many-tags-accepted", "More than a hundred tags are cut to a hundred.", func(doc object) {
			if tags, ok := doc["tags"].([]any); ok && len(tags) > 100 {
				doc["tags"] = tags[:100]
			}
		}),
		limit("too-long-tag-accepted", "A tag of more than 256 characters is cut.", func(doc object) {
			tags, _ := doc["tags"].([]any)
			for i, v := range tags {
				if s, ok := v.(string); ok && utf8.RuneCountInString(s) > 256 {
					tags[i] = string([]rune(s)[:256])
				}
			}
		}),
		limit("run-timeout-out-of-range-accepted", "A runTimeoutMs that is out of range is dropped.", func(doc object) {
			c, _ := doc["configurable"].(object)
			run, _ := c["run"].(object)
			if n, ok := run["runTimeoutMs"].(json.Number); ok {
				if v, err := n.Int64(); err != nil || v <= 0 || v > 24*3600*1000 {
					delete(run, "runTimeoutMs")
				}
			}
		}),
		wire("tag-limit-off-by-one", "A hundred tags are refused.",
			"400 validation_error", tags(func(list []any) bool { return len(list) == 100 }), requirements.R0171RunOptionsLimits),
		wire("tag-length-in-bytes", "The length of a tag is counted in bytes, so that 256 characters beyond ASCII are refused.",
			"400 validation_error", tags(func(list []any) bool {
				for _, v := range list {
					if len(text(v)) > 256 && utf8.RuneCountInString(text(v)) <= 256 {
						return true
					}
				}
				return false
			}), requirements.R0171RunOptionsLimits),
		wire("tag-format-refused", "A tag that is no identifier is refused.",
			"400 validation_error", tags(func(list []any) bool {
				for _, v := range list {
					if strings.ContainsAny(text(v), " /:#<>\"'é✓\t\n") {
						return true
					}
				}
				return false
			}), requirements.R0171RunOptionsLimits, requirements.RunsRunOptionsSurfaced),
	}
}

func surfaceFaults() []Fault {
	return []Fault{
		wire("tags-lowercased", "A snapshot shows the tags in lower case.",
			"tags", tagList(func(list []string) []string {
				for i := range list {
					list[i] = strings.ToLower(list[i])
				}
				return list
			}), requirements.RunsRunOptionsSurfaced),
		wire("tags-sorted", "A snapshot shows the tags in alphabetical order.",
			"tags", tagList(func(list []string) []string { slices.Sort(list); return list }), requirements.RunsRunOptionsSurfaced),
		wire("tags-deduplicated", "A snapshot shows each tag once.",
			"tags", tagList(func(list []string) []string {
				var once []string
				for _, s := range list {
					if !slices.Contains(once, s) {
						once = append(once, s)
					}
				}
				return once
			}), requirements.RunsRunOptionsSurfaced),
		wire("tags-trimmed", "A snapshot shows no tags.",
			"tags", snapshot(func(doc object) { delete(doc, "tags") }), requirements.RunsRunOptionsSurfaced).
			blocking(requirements.ReplayBranchOverlay),
		wire("metadata-dropped", "A snapshot shows no metadata.",
			"metadata", snapshot(func(doc object) { delete(doc, "metadata") }), requirements.RunsRunOptionsSurfaced).
			blocking(requirements.RunsMetadataInert),
		wire("metadata-nulls-dropped", "A snapshot leaves out what is null in the metadata.",
			"metadata", snapshot(func(doc object) {
				m, _ := doc["metadata"].(object)
				for k, v := range m {
					if v == nil {
						delete(m, k)
					}
				}
			}), requirements.RunsRunOptionsSurfaced),
		wire("metadata-flattened", "A snapshot shows the values of the metadata as text.",
			"metadata", snapshot(func(doc object) {
				m, _ := doc["metadata"].(object)
				for k, v := range m {
					if _, ok := v.(string); !ok {
						m[k] = string(tamper.Encode(v))
					}
				}
			}), requirements.RunsRunOptionsSurfaced).
			blocking(requirements.RunsMetadataInert),
	}
}

// limit is a fault that accepts what is over a limit.
func limit(id, summary string, edit func(doc object)) Fault {
	return wire(id, summary, "201", options(edit), requirements.R0171RunOptionsLimits)
}

// tags refuses a createRun whose tags meet a condition.
func tags(refused func(list []any) bool) tamper.Middleware {
	return refusedCreate(func(doc object) bool {
		list, _ := doc["tags"].([]any)
		return refused(list)
	}, func(a *tamper.Answer) {
		if a.Status == http.StatusCreated {
			a.Refuse(400, "validation_error", "tags")
		}
	})
}

// tagList edits the tags of a snapshot.
func tagList(edit func([]string) []string) tamper.Middleware {
	return snapshot(func(doc object) {
		list, ok := doc["tags"].([]any)
		if !ok {
			return
		}
		var tags []string
		for _, v := range list {
			tags = append(tags, text(v))
		}
		doc["tags"] = edit(tags)
	})
}
