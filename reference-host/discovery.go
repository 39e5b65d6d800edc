package referencehost

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"time"

	"wopcert/bundle/jcs"
	"wopcert/corpus"
)

// record is one capability record (capabilities.md §2). Witness class and maturity are the contract's; until is a
// protocol version and no date, so that a program that is not updated does not turn non-conformant by itself.
func (h *Host) record(family string, facets map[string]any) (map[string]any, error) {
	row, ok := h.contract.Family(family)
	if !ok {
		return nil, fmt.Errorf("the contract has no capability family %s", family)
	}
	r := map[string]any{"status": row.Status, "since": corpus.ProtocolVersion, "witness": row.Witness}
	if row.Status != "stable" {
		served, ok := parseVersion(corpus.ProtocolVersion)
		if !ok {
			return nil, fmt.Errorf("the contract's protocol version %q is not one", corpus.ProtocolVersion)
		}
		r["until"] = version{served.major, served.minor + 1}.String()
	}
	for name, value := range facets {
		r[name] = value
	}
	return r, nil
}

// coreFamilies are those every run has to do with.
func (h *Host) coreFamilies() familySet {
	limits := h.config.Limits
	return familySet{
		// The log is ordered, append-only and never renumbered. No facet: there is one engine, so there is no
		// ordering across engines to state.
		"eventLog": nil,
		"limits": {
			"maxNodeExecutions":   limits.MaxNodeExecutions,
			"maxRunDurationMs":    limits.MaxRunDuration.Milliseconds(),
			"maxRequestBodyBytes": limits.MaxRequestBodyBytes,
		},
		"runList": {"maxPageSize": limits.MaxPageSize, "filters": []any{"status", "workflowId"}},
		"auth": {"lanes": []any{map[string]any{
			"lane": laneAPIKey, "issuers": []any{keyIssuer}, "revocation": "next-request", "minimumAssurance": assurance,
		}}},
	}
}

// buildDiscovery makes the document once: its bytes are its identity (capabilities.md §1.1).
func (h *Host) buildDiscovery() error {
	implementation := map[string]any{}
	for name, value := range map[string]string{
		"name": h.config.Implementation.Name, "version": h.config.Implementation.Version,
		"vendor": h.config.Implementation.Vendor, "url": h.config.Implementation.URL,
	} {
		if value != "" {
			implementation[name] = value
		}
	}
	listed := make([]string, 0, len(h.config.Fixtures))
	for _, held := range h.config.Fixtures {
		listed = append(listed, held.ID)
	}
	slices.Sort(listed)
	document := map[string]any{
		"protocolVersion":       corpus.ProtocolVersion,
		"protocolVersions":      h.versions,
		"preferredVersion":      corpus.ProtocolVersion,
		"engineVersion":         engineVersion,
		"eventLogSchemaVersion": eventLogSchemaVersion,
		"implementation":        implementation,
		"fixtures":              listed,
		"testing": map[string]any{
			"testKeyPrefix":           TestKeyPrefix,
			"mockProviders":           h.mockProviders(),
			"forceEngineVersionRange": map[string]any{"min": minForcedEngine, "max": maxForcedEngine},
		},
	}
	if h.config.Seams {
		document["conformance"] = map[string]any{"seamsProfile": seamsProfile}
	}
	if h.minClient != nil {
		document["minClientVersion"] = h.minClient.String()
	}
	if len(h.config.SigningKeys) > 0 {
		document["signingKeys"] = signingKeys(h.config.SigningKeys)
	}
	for family, facets := range h.families {
		record, err := h.record(family, facets)
		if err != nil {
			return err
		}
		document[family] = record
	}
	var err error
	if h.discovery, err = jcs.CanonicalizeValue(document); err != nil {
		return fmt.Errorf("discovery document: %w", err)
	}
	if err := h.contract.Validate("capabilities", h.discovery); err != nil {
		return fmt.Errorf("discovery document: %w", err)
	}
	sum := sha256.Sum256(h.discovery)
	h.discoveryETag = `"` + hex.EncodeToString(sum[:16]) + `"`
	return nil
}

func signingKeys(keys []SigningKey) []any {
	var published []any
	for _, key := range keys {
		entry := map[string]any{
			"keyId": key.KeyID, "alg": "ed25519", "use": "certification-bundle",
			"publicKey": base64.RawURLEncoding.EncodeToString(key.PublicKey),
		}
		if !key.RetiredAt.IsZero() {
			entry["retiredAt"] = key.RetiredAt.UTC().Format(time.RFC3339)
		}
		published = append(published, entry)
	}
	return published
}

// Discovery is the document at /.well-known/openwop, byte for byte.
func (h *Host) Discovery() []byte { return slices.Clone(h.discovery) }

func (h *Host) getCapabilities(r *request) (*answer, error) {
	a := rawAnswer(http.StatusOK, h.discovery)
	a.header.Set("Cache-Control", "public, max-age=60")
	a.header.Add("Vary", "OpenWOP-Version")
	return a.conditional(r.Request, h.discoveryETag), nil
}

func (h *Host) getWorkflow(r *request) (*answer, error) {
	definition, ok := h.workflows[r.id]
	if !ok {
		if !isAuthorID(r.id) {
			return nil, h.codes.invalid("workflowId", "A workflowId is 1 to 128 characters from A-Z a-z 0-9 . _ ~ : -.")
		}
		return nil, h.codes.missing("workflow")
	}
	return rawAnswer(http.StatusOK, definition.Document), nil
}
