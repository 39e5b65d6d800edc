package workflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// The words of a compensation policy (compensation-policy schema).
const (
	ReverseCompletion = "reverse-completion"
	DependencyGraph   = "dependency-graph"

	OnNodeFailure     = "node-failure"
	OnRunCancel       = "run-cancel"
	OnCapBreach       = "cap-breach"
	OnOperatorRequest = "operator-request"

	RecordOutcome      = "record-outcome"
	ManualIntervention = "manual-intervention"

	ParentContinue = "continue"
	ParentPause    = "pause"
	ParentManual   = "manual"
)

// Policy is the settings.compensation of a workflow: when what its nodes did is undone, and how.
type Policy struct {
	// Document is the policy as the definition has it.
	Document       json.RawMessage `json:"-"`
	ProfileVersion string          `json:"profileVersion"`
	Ordering       string          `json:"orderingModel"`
	Triggers       []string        `json:"triggers"`
	Retry          Retry           `json:"retry"`
	TimeoutMs      int64           `json:"timeoutMs"`
	Exhausted      string          `json:"exhaustedDisposition"`
	ApprovalScope  string          `json:"approvalScope"`
	OnParentCancel string          `json:"onParentCancel"`
}

// Compensation is the inverse action of a node.
type Compensation struct {
	TypeID string                     `json:"nodeTypeId"`
	Inputs map[string]json.RawMessage `json:"inputMapping"`
	Retry  *Retry                     `json:"retry"`
	// RequiresApproval and WaiveRequiresApproval gate the inverse action, and giving it up, behind an approval.
	RequiresApproval      bool `json:"requiresApproval"`
	WaiveRequiresApproval bool `json:"waiveRequiresApproval"`
}

// maxInverseTimeout keeps an attempt within what a host waits for.
const maxInverseTimeout = 60 * time.Second

// Timeout bounds one attempt of an inverse action.
func (p *Policy) Timeout() time.Duration {
	if p.TimeoutMs <= 0 || p.TimeoutMs > maxInverseTimeout.Milliseconds() {
		return maxInverseTimeout
	}
	return time.Duration(p.TimeoutMs) * time.Millisecond
}

// Bounds are the bounds of an inverse action: its own, else the policy's.
func (p *Policy) Bounds(c *Compensation) Retry {
	bounds := p.Retry
	if c.Retry != nil {
		bounds = *c.Retry
	}
	bounds.MaxAttempts = max(bounds.MaxAttempts, 1)
	return bounds
}

func parsePolicy(raw json.RawMessage) (*Policy, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	policy := &Policy{Document: raw, Ordering: ReverseCompletion, Exhausted: RecordOutcome, OnParentCancel: ParentContinue}
	if err := json.Unmarshal(raw, policy); err != nil {
		return nil, fmt.Errorf("settings.compensation: %w", err)
	}
	if policy.Retry.BackoffMs > maxBackoffMs {
		return nil, fmt.Errorf("settings.compensation: backoffMs is at most %d", maxBackoffMs)
	}
	return policy, nil
}

// parseCompensation reads the inverse action of a node and checks that what its inputs refer to can be there.
func (d *Definition) parseCompensation(raw json.RawMessage) (*Compensation, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	c := new(Compensation)
	if err := json.Unmarshal(raw, c); err != nil {
		return nil, fmt.Errorf("compensation: %w", err)
	}
	switch {
	case c.RequiresApproval || c.WaiveRequiresApproval:
		return nil, errors.New("compensation: this host has nobody approve an inverse action")
	case c.Retry != nil && c.Retry.BackoffMs > maxBackoffMs:
		return nil, fmt.Errorf("compensation: backoffMs is at most %d", maxBackoffMs)
	}
	return c, nil
}

// checkCompensations refuses an inputMapping that refers to a node that is not there.
func (d *Definition) checkCompensations() error {
	for _, node := range d.Nodes {
		if node.Compensation == nil {
			continue
		}
		for name, value := range node.Compensation.Inputs {
			for _, reference := range references(value) {
				if id, _, ok := nodeReference(reference); ok {
					if _, known := d.byID[id]; !known {
						return fmt.Errorf("node %s: compensation.inputMapping.%s: there is no node %s", node.ID, name, id)
					}
				} else if !strings.HasPrefix(reference, "inputs.") {
					return fmt.Errorf("node %s: compensation.inputMapping.%s: ${%s} is neither ${nodes.<nodeId>.output.<port>} nor ${inputs.<name>}", node.ID, name, reference)
				}
			}
		}
	}
	return nil
}

// token is a reference within a value of an inputMapping.
func token() *regexp.Regexp { return regexp.MustCompile(`\$\{([^{}]*)\}`) }

func references(value json.RawMessage) (names []string) {
	for _, match := range token().FindAllSubmatch(value, -1) {
		names = append(names, string(match[1]))
	}
	return names
}

func nodeReference(reference string) (node, port string, ok bool) {
	rest, ok := strings.CutPrefix(reference, "nodes.")
	if !ok {
		return "", "", false
	}
	node, port, ok = strings.Cut(rest, ".output.")
	return node, port, ok && node != "" && port != ""
}

// Facts are what inputs of an inverse action are made of: what the log has on record.
type Facts struct {
	// Output is the value a node gave out under a port.
	Output func(node, port string) (json.RawMessage, bool)
	Inputs map[string]json.RawMessage
}

// Resolve makes the inputs of an inverse action from recorded facts alone. A value that is one reference becomes what it
// refers to, and one within a text becomes text. It fails for a reference to what is not on record.
func (c *Compensation) Resolve(facts Facts) (map[string]json.RawMessage, error) {
	inputs := make(map[string]json.RawMessage, len(c.Inputs))
	for name, value := range c.Inputs {
		resolved, err := facts.resolve(value)
		if err != nil {
			return nil, fmt.Errorf("input %s: %w", name, err)
		}
		inputs[name] = resolved
	}
	return inputs, nil
}

func (f *Facts) resolve(value json.RawMessage) (json.RawMessage, error) {
	if !bytes.Contains(value, []byte("${")) {
		return value, nil
	}
	var decoded any
	if err := json.Unmarshal(value, &decoded); err != nil {
		return nil, err
	}
	replaced, err := f.replace(decoded)
	if err != nil {
		return nil, err
	}
	return json.Marshal(replaced)
}

func (f *Facts) replace(value any) (any, error) {
	switch value := value.(type) {
	case string:
		return f.text(value)
	case []any:
		for i := range value {
			var err error
			if value[i], err = f.replace(value[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for name := range value {
			var err error
			if value[name], err = f.replace(value[name]); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}

func (f *Facts) text(text string) (any, error) {
	pattern := token()
	if whole := pattern.FindStringSubmatch(text); whole != nil && whole[0] == text {
		return f.fact(whole[1])
	}
	var failed error
	replaced := pattern.ReplaceAllStringFunc(text, func(match string) string {
		fact, err := f.fact(match[2 : len(match)-1])
		if err != nil {
			failed = err
			return ""
		}
		var word string
		if json.Unmarshal(fact, &word) == nil {
			return word
		}
		return string(fact)
	})
	return replaced, failed
}

func (f *Facts) fact(reference string) (json.RawMessage, error) {
	node, port, ok := nodeReference(reference)
	var value json.RawMessage
	if ok {
		value, ok = f.Output(node, port)
	} else if name, input := strings.CutPrefix(reference, "inputs."); input {
		value, ok = f.Inputs[name]
	}
	if !ok {
		return nil, fmt.Errorf("${%s} is not on record", reference)
	}
	return value, nil
}
