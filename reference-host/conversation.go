package referencehost

import (
	"context"
	"encoding/json"
	"fmt"

	"wopcert/reference-host/internal/engine"
	"wopcert/reference-host/internal/eventlog"
)

const (
	// mockAgent speaks in a conversation whose node names nobody.
	mockAgent = "wopcert.mock"

	conversationOpened    = "conversation.opened"
	conversationExchanged = "conversation.exchanged"
	conversationClosed    = "conversation.closed"
)

type conversationPayload struct {
	ConversationID string            `json:"conversationId"`
	TurnIndex      *int              `json:"turnIndex,omitempty"`
	Turn           *conversationTurn `json:"turn,omitempty"`
	TurnCount      *int              `json:"turnCount,omitempty"`
}

// conversationTurn is an agent's turn. It carries no model: the host does not advertise the stamp
// (conversation.md §conversationTurnModelProvenance).
type conversationTurn struct {
	MessageID string            `json:"messageId"`
	From      string            `json:"from"`
	Content   string            `json:"content"`
	Parts     []textPart        `json:"parts"`
	TS        int64             `json:"ts"`
	Role      string            `json:"role"`
	Agent     map[string]string `json:"agent,omitempty"`
	TurnIndex int               `json:"turnIndex"`
	SpeakerID string            `json:"speakerId,omitempty"`
}

type textPart struct {
	Text string `json:"text"`
}

// conversationConfig is the config of a conversation: what the mock agent says, and what it then asks the user.
type conversationConfig struct {
	AgentID string   `json:"agentId"`
	Replies []string `json:"replies"`
	Ask     []struct {
		Prompt        string          `json:"prompt"`
		OutcomeSchema json.RawMessage `json:"outcomeSchema"`
	} `json:"ask"`
}

// runConversation is the node type core.conversationGate: a conversation in which the mock agent config.agentId says
// each of config.replies, and the user answers each of config.ask. Every turn has parts, and content is their text for
// readers that do not know parts (runs.md §conversationPrimitive).
func (h *Host) runConversation(ctx context.Context, call *Call) (Values, error) {
	config := conversationConfig{AgentID: mockAgent, Replies: []string{"A mock reply."}}
	if err := call.DecodeConfig(&config); err != nil {
		return nil, err
	}
	if config.AgentID == "" || len(config.Replies) == 0 {
		return nil, &NodeError{Code: "node_config_invalid", Message: "A conversation needs an agentId and at least one of replies."}
	}
	id, said, closed, err := resumeConversation(call)
	if err != nil {
		return nil, err
	}
	if id == "" {
		id = conversationID(call.Run.Origin(), call.NodeID)
		if err := call.Emit(engine.Entry{Type: conversationOpened, Payload: conversationPayload{ConversationID: id}}); err != nil {
			return nil, err
		}
	}
	for i := said; i < len(config.Replies); i++ {
		reply := config.Replies[i]
		err := exchange(call, id, &conversationTurn{
			MessageID: fmt.Sprintf("%s:%d:agent", id, i), From: config.AgentID, Content: reply, Parts: []textPart{{reply}},
			Role: "agent", Agent: map[string]string{"agentId": config.AgentID}, TurnIndex: i, SpeakerID: config.AgentID,
		})
		if err != nil {
			return nil, err
		}
	}
	if err := h.askUser(ctx, call, &config, id, said); err != nil {
		return nil, err
	}
	if turns := len(config.Replies) + len(config.Ask); !closed {
		err := call.Emit(engine.Entry{Type: conversationClosed, Payload: conversationPayload{ConversationID: id, TurnCount: &turns}})
		if err != nil {
			return nil, err
		}
	}
	encoded, err := encode(id)
	return Values{"conversationId": encoded}, err
}

type exchangeData struct {
	ConversationID string          `json:"conversationId"`
	Prompt         string          `json:"prompt"`
	OutcomeSchema  json.RawMessage `json:"outcomeSchema,omitempty"`
	TurnIndex      int             `json:"turnIndex"`
}

// askUser has the user speak. Each turn is an interrupt of its own; what was said before the node was entered again is
// not said again.
func (h *Host) askUser(ctx context.Context, call *Call, config *conversationConfig, id string, said int) error {
	for i, ask := range config.Ask {
		turn := len(config.Replies) + i
		data, err := encode(exchangeData{id, ask.Prompt, ask.OutcomeSchema, turn})
		if err != nil {
			return err
		}
		resolution, err := h.interrupt(ctx, call, engine.Interrupt{
			Kind: kindExchange, Key: fmt.Sprintf("%s:%d", call.NodeID, turn), Data: data, Reason: "conversation-input",
		})
		if err != nil {
			return err
		}
		if turn < said {
			continue
		}
		content := string(resolution.ResumeValue)
		var value struct {
			Text string `json:"text"`
		}
		if err := json.Unmarshal(resolution.ResumeValue, &value); err == nil && value.Text != "" {
			content = value.Text
		}
		err = exchange(call, id, &conversationTurn{
			MessageID: fmt.Sprintf("%s:%d:user", id, turn), From: "user", Content: content, Parts: []textPart{{content}},
			Role: "user", TurnIndex: turn,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func exchange(call *Call, id string, turn *conversationTurn) error {
	turn.TS = call.Clock.Now().UnixMilli()
	return call.Emit(engine.Entry{
		Type: conversationExchanged, Payload: conversationPayload{ConversationID: id, TurnIndex: &turn.TurnIndex, Turn: turn},
	})
}

// conversationID is unique in the tenant as the id of a run is, but for replays, which have the conversations of their
// source; and it is short enough for ids of any length.
func conversationID(origin, nodeID string) string {
	return suffix(origin, 100) + ":" + suffix(nodeID, 100)
}

// conversationOf is the conversation an interrupt is about: a new one, or the one that was begun last in the run.
func (h *Host) conversationOf(call *Call, kind string) (json.RawMessage, error) {
	id := conversationID(call.Run.Origin(), call.NodeID)
	if kind == kindStart {
		return encode(id)
	}
	err := call.Record(func(log []eventlog.Event) []engine.Entry {
		for _, event := range log {
			var payload struct {
				Kind string `json:"kind"`
				Data struct {
					ConversationID string `json:"conversationId"`
				} `json:"data"`
			}
			if event.Type != eventlog.InterruptRequested || json.Unmarshal(event.Payload, &payload) != nil {
				continue
			}
			if kindGate(payload.Kind) == "conversationPrimitive" {
				id = payload.Data.ConversationID
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return encode(id)
}

// resumeConversation reads what an attempt that was cut has said: the conversation goes on, and nothing is said twice.
func resumeConversation(call *Call) (id string, said int, closed bool, err error) {
	events, err := call.Recorded(conversationOpened, conversationExchanged, conversationClosed)
	if err != nil {
		return "", 0, false, err
	}
	for _, event := range events {
		switch event.Type {
		case conversationOpened:
			var payload conversationPayload
			if err := json.Unmarshal(event.Payload, &payload); err != nil {
				return "", 0, false, err
			}
			id = payload.ConversationID
		case conversationExchanged:
			said++
		case conversationClosed:
			closed = true
		}
	}
	return id, said, closed, nil
}

// suffix is the end of a text, at most n bytes of it.
func suffix(text string, n int) string { return text[max(0, len(text)-n):] }
