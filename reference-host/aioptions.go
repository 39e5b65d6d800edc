package referencehost

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// aiOptions is the ai section of configurable as this host acts on it (runs.md §ai section).
type aiOptions struct {
	Provider      *string         `json:"provider"`
	Model         string          `json:"model"`
	CredentialRef *string         `json:"credentialRef"`
	MockProvider  json.RawMessage `json:"mockProvider"`
	MaxRefusals   json.Number     `json:"maxRefusals"`
}

// aiOptionsOf reads the section from a run's configurable, which was accepted at create.
func aiOptionsOf(configurable json.RawMessage) (options aiOptions, err error) {
	if configurable == nil {
		return options, nil
	}
	var sections struct {
		AI aiOptions `json:"ai"`
	}
	err = json.Unmarshal(configurable, &sections)
	return sections.AI, err
}

func (o *aiOptions) provider() string {
	if o.Provider != nil {
		return *o.Provider
	}
	return mockProvider
}

func (o *aiOptions) model() string {
	if o.Model != "" {
		return o.Model
	}
	return mockModel
}

// maxRefusals is the ceiling on the refusals a run records: 1 unless the caller set another.
func (o *aiOptions) maxRefusals() int64 {
	if ceiling, ok := whole(o.MaxRefusals); ok {
		return ceiling
	}
	return 1
}

// checkAI applies the rules of the ai section. Whether the key may use a mock at all comes first: what else is in the
// section is nobody's business then.
func (h *Host) checkAI(r *request, options *aiOptions) error {
	if options.MockProvider != nil {
		if r.principal.production {
			return h.codes.mockProvider()
		}
		if len(h.mockProviders()) == 0 {
			return h.codes.invalid("configurable.ai.mockProvider", "This host has no mock providers.")
		}
		if _, err := parseMock(options.MockProvider); err != nil {
			return h.codes.invalid("configurable.ai.mockProvider", "The mock provider cannot be used: "+err.Error()+".")
		}
	}
	if options.Provider != nil && !slices.Contains(h.facetWords("aiProviders", "providers"), *options.Provider) {
		return h.codes.invalid("configurable.ai.provider", "This host does not serve that AI provider.")
	}
	if options.CredentialRef != nil && !h.ownCredential(*options.CredentialRef) {
		return h.codes.credentialRef()
	}
	return nil
}

// ownCredential reports whether a reference names a provider for which the caller may bring a credential: the
// provider's id, alone or with a name behind a colon. It is never key material and is never shown.
func (h *Host) ownCredential(ref string) bool {
	provider, name, named := strings.Cut(ref, ":")
	return slices.Contains(h.facetWords("aiProviders", "byok"), provider) && named == (name != "")
}

// strictly decodes a value in which no member may be unknown.
func strictly(raw json.RawMessage, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}
