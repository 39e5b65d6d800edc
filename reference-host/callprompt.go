package referencehost

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"wopcert/reference-host/internal/clock"
	"wopcert/reference-host/internal/engine"
)

// mockText is the testing provider stream-text: the tokens to say, and what to report about them.
type mockText struct {
	Tokens          []string  `json:"tokens"`
	DelayMsPerToken int64     `json:"delayMsPerToken"`
	FinishReason    string    `json:"finishReason"`
	Usage           *mockUsed `json:"usage"`
}

// mockUsed counts tokens as the chunk's meta does.
type mockUsed struct {
	PromptTokens     int64 `json:"promptTokens"`
	CompletionTokens int64 `json:"completionTokens"`
	TotalTokens      int64 `json:"totalTokens"`
}

// maxTokenDelay bounds the pause before a token, in milliseconds.
const maxTokenDelay = 60_000

func finishReasons() []string { return []string{"stop", "length", "tool_calls", "content_filter"} }

// parseMock reads configurable.ai.mockProvider. What is left out is filled in: a short answer, said at once.
func parseMock(raw json.RawMessage) (mockText, error) {
	text := mockText{FinishReason: "stop"}
	provider := struct {
		ID     string          `json:"id"`
		Config json.RawMessage `json:"config"`
	}{ID: mockStreamText}
	if raw != nil {
		provider.ID = ""
		if err := strictly(raw, &provider); err != nil {
			return text, errors.New("it has an id and a config")
		}
	}
	if provider.ID != mockStreamText {
		return text, errors.New("there is no mock provider of that id")
	}
	if provider.Config != nil {
		if err := strictly(provider.Config, &text); err != nil {
			return text, errors.New("its config has tokens, delayMsPerToken, finishReason and usage")
		}
	}
	if text.Tokens == nil {
		text.Tokens = []string{"A ", "mock ", "answer."}
	}
	switch {
	case len(text.Tokens) == 0:
		return text, errors.New("it has no tokens to say")
	case text.DelayMsPerToken < 0 || text.DelayMsPerToken > maxTokenDelay:
		return text, errors.New("delayMsPerToken is from 0 to 60000")
	case !slices.Contains(finishReasons(), text.FinishReason):
		return text, errors.New("finishReason is one of " + strings.Join(finishReasons(), ", "))
	}
	if text.Usage == nil {
		said := int64(len(text.Tokens))
		text.Usage = &mockUsed{CompletionTokens: said, TotalTokens: said}
	}
	if used := text.Usage; used.PromptTokens < 0 || used.CompletionTokens < 0 || used.TotalTokens < 0 {
		return text, errors.New("usage counts tokens, from 0")
	}
	return text, nil
}

// runPrompt is the node type core.ai.callPrompt. It speaks as the mock does: one output.chunk for each token, and then
// what it came to. What is known about the answer stands in every chunk's meta; the reason it ended and the usage are
// known with the last (events.md §Stream modes).
func (h *Host) runPrompt(ctx context.Context, call *Call) (Values, error) {
	options, err := aiOptionsOf(call.Run.Configurable)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(h.facetWords("aiProviders", "providers"), options.provider()) {
		return nil, &NodeError{Code: "capability_not_provided", Message: "This host does not serve the AI provider.", Details: map[string]any{"capability": "aiProviders"}}
	}
	text, err := parseMock(options.MockProvider)
	if err != nil {
		return nil, err
	}
	for i, token := range text.Tokens {
		if err := clock.Sleep(ctx, call.Clock, time.Duration(text.DelayMsPerToken)*time.Millisecond); err != nil {
			return nil, err
		}
		meta := map[string]any{"provider": options.provider(), "model": options.model()}
		last := i == len(text.Tokens)-1
		if last {
			meta["finishReason"], meta["usage"] = text.FinishReason, text.Usage
		}
		if err := call.Chunk(token, last, meta); err != nil {
			return nil, err
		}
	}
	if err := call.Emit(h.usage(call.NodeID, &options, text.Usage)); err != nil {
		return nil, err
	}
	encoded, err := encode(strings.Join(text.Tokens, ""))
	return Values{"text": encoded}, err
}

// The host's own rate table, in millionths of the currency for a token.
const (
	inputRate  = 1
	outputRate = 2
)

// usage is provider.usage; the cost is there when the host advertises that it estimates one (events.md §Envelope,
// feedback and usage facets).
func (h *Host) usage(nodeID string, options *aiOptions, used *mockUsed) engine.Entry {
	payload := map[string]any{
		"provider": options.provider(), "model": options.model(), "nodeId": nodeID,
		"inputTokens": used.PromptTokens, "outputTokens": used.CompletionTokens, "totalTokens": used.TotalTokens,
	}
	if h.advertises("providerUsage.costEstimates") {
		payload["costEstimateUsd"] = float64(used.PromptTokens*inputRate+used.CompletionTokens*outputRate) / 1e6
		payload["currency"] = "USD"
	}
	return engine.Entry{Type: "provider.usage", Payload: payload}
}
