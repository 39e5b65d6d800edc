package referencehost

import (
	"context"
	"encoding/json"
	"fmt"

	"wopcert/reference-host/internal/engine"
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
	Agent     map[string]string `json:"agent"`
	TurnIndex int               `json:"turnIndex"`
	SpeakerID string            `json:"speakerId"`
}

type textPart struct {
	Text string `json:"text"`
}

// runConversation is the node type core.conversationGate: a conversation in which the mock agent config.agentId says
// each of config.replies and nobody else speaks. Every turn has parts, and content is their text for readers that do
// not know parts (runs.md §conversationPrimitive).
func runConversation(_ context.Context, call *Call) (Values, error) {
	config := struct {
		AgentID string   `json:"agentId"`
		Replies []string `json:"replies"`
	}{AgentID: mockAgent, Replies: []string{"A mock reply."}}
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
		// Unique in the tenant as the run's own id is, and short enough for ids of any length.
		id = suffix(call.Run.ID, 100) + ":" + suffix(call.NodeID, 100)
		if err := call.Emit(engine.Entry{Type: conversationOpened, Payload: conversationPayload{ConversationID: id}}); err != nil {
			return nil, err
		}
	}
	for i := said; i < len(config.Replies); i++ {
		reply := config.Replies[i]
		turn := &conversationTurn{
			MessageID: fmt.Sprintf("%s:%d:agent", id, i), From: config.AgentID, Content: reply, Parts: []textPart{{reply}},
			TS: call.Clock.Now().UnixMilli(), Role: "agent", Agent: map[string]string{"agentId": config.AgentID},
			TurnIndex: i, SpeakerID: config.AgentID,
		}
		err := call.Emit(engine.Entry{
			Type: conversationExchanged, Payload: conversationPayload{ConversationID: id, TurnIndex: &i, Turn: turn},
		})
		if err != nil {
			return nil, err
		}
	}
	if turns := len(config.Replies); !closed {
		err := call.Emit(engine.Entry{Type: conversationClosed, Payload: conversationPayload{ConversationID: id, TurnCount: &turns}})
		if err != nil {
			return nil, err
		}
	}
	encoded, err := encode(id)
	return Values{"conversationId": encoded}, err
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
