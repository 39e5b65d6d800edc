// Package workflow reads workflow definitions into the form the engine runs. A definition is checked once, when the
// host loads it; whatever this host would have to ignore is refused then, with the member named, and not at run time.
package workflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"wopcert/bundle/jcs"
	"wopcert/corpus"
)

// Definition is one loaded workflow. It never changes.
type Definition struct {
	ID string
	// Document is the definition as it is served, in canonical form.
	Document  []byte
	Nodes     []Node
	Variables []Variable
	// TimeoutMs bounds a run of the workflow; 0 leaves it to the host.
	TimeoutMs int64
	// Loop is the supervisor loop, nil for a workflow without one.
	Loop *Loop
	// Loopbacks are the edges that lead back, and MaxLoopback how often what they enclose is done.
	Loopbacks   []Loopback
	MaxLoopback int
	// Policy is the workflow's compensation policy, nil when nothing is undone.
	Policy       *Policy
	configurable *Schema
	byID         map[string]int
}

// Node is one node with its place in the graph.
type Node struct {
	ID, TypeID string
	Config     json.RawMessage
	Inputs     map[string]Port
	Disabled   bool
	Retry      Retry
	// Child is set on a node that starts other runs.
	Child *Child
	// Contract names the envelope kinds the node may emit; nil sets no bounds (events.md §Envelope contracts).
	Contract *Contract
	// Compensation is the inverse action, nil for none; Irreversible says that there is none.
	Compensation *Compensation
	Irreversible bool
	// Rule decides, from the incoming edges, whether the node runs.
	Rule Rule
	// Incoming are the edges into the node, in document order; Outgoing holds the positions of the nodes behind it.
	Incoming []Edge
	Outgoing []int
}

// Contract is a node's envelopeContract.
type Contract struct {
	Accepts []string `json:"accepts"`
}

func parseContract(raw json.RawMessage) (*Contract, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	contract := new(Contract)
	if err := decoder.Decode(contract); err != nil || contract.Accepts == nil {
		return nil, fmt.Errorf(`envelopeContract: it must be {"accepts": [envelope kinds]}`)
	}
	return contract, nil
}

// Edge leads into a node from the node at position Source.
type Edge struct {
	Source    int
	Output    string
	Input     string
	Condition *Condition
}

// Rule is a trigger rule (workflow-definition schema, WorkflowEdge).
type Rule string

// The trigger rules.
const (
	AllSuccess  Rule = "all_success"
	AnySuccess  Rule = "any_success"
	AllComplete Rule = "all_complete"
	NoneFailed  Rule = "none_failed"
	AnyFailed   Rule = "any_failed"
)

// HandlesFailure reports whether a node under this rule may run because a node before it failed.
func (r Rule) HandlesFailure() bool { return r == AllComplete || r == AnyFailed }

// Port says where the value of an input comes from.
type Port struct {
	Type         string          `json:"type"` // static, connection or variable
	Value        json.RawMessage `json:"value"`
	NodeID       string          `json:"nodeId"`
	OutputKey    string          `json:"outputKey"`
	VariableName string          `json:"variableName"`
	Optional     bool            `json:"optional"`
	Expression   string          `json:"expression"`
}

// Variable declares one variable.
type Variable struct {
	Name      string          `json:"name"`
	Type      string          `json:"type"`
	Required  bool            `json:"required"`
	Default   json.RawMessage `json:"defaultValue"`
	Sensitive bool            `json:"sensitive"`
}

// document mirrors the members of the schema the engine reads.
type document struct {
	ID    string `json:"id"`
	Nodes []struct {
		ID       string          `json:"id"`
		TypeID   string          `json:"typeId"`
		Config   json.RawMessage `json:"config"`
		Inputs   map[string]Port `json:"inputs"`
		Disabled bool            `json:"disabled"`
		Agent    json.RawMessage `json:"agent"`
		Settings json.RawMessage `json:"settings"`
		Contract json.RawMessage `json:"envelopeContract"`

		Compensation json.RawMessage `json:"compensation"`
		Irreversible bool            `json:"irreversibleEffect"`
	} `json:"nodes"`
	Edges []struct {
		ID        string         `json:"id"`
		Source    string         `json:"sourceNodeId"`
		Output    string         `json:"sourceOutput"`
		Target    string         `json:"targetNodeId"`
		Input     string         `json:"targetInput"`
		Condition *conditionJSON `json:"condition"`
		Rule      Rule           `json:"triggerRule"`
	} `json:"edges"`
	Variables          []Variable      `json:"variables"`
	Channels           json.RawMessage `json:"channels"`
	ConfigurableSchema json.RawMessage `json:"configurableSchema"`
	Settings           struct {
		TimeoutMs    int64           `json:"timeout"`
		MaxRetries   int             `json:"maxRetries"`
		MaxLoopback  int             `json:"maxLoopbackIterations"`
		Compensation json.RawMessage `json:"compensation"`
	} `json:"settings"`
}

// Parse checks one definition against the contract and against what this engine runs.
func Parse(contract *corpus.Corpus, raw []byte) (*Definition, error) {
	if err := contract.Validate("workflow-definition", raw); err != nil {
		return nil, fmt.Errorf("workflow definition: %w", err)
	}
	canonical, err := jcs.Canonicalize(raw)
	if err != nil {
		return nil, fmt.Errorf("workflow definition: %w", err)
	}
	var doc document
	if err := json.Unmarshal(canonical, &doc); err != nil {
		return nil, fmt.Errorf("workflow definition: %w", err)
	}
	def := &Definition{
		ID: doc.ID, Document: canonical, Variables: doc.Variables,
		TimeoutMs: doc.Settings.TimeoutMs, MaxLoopback: doc.Settings.MaxLoopback, byID: make(map[string]int, len(doc.Nodes)),
	}
	if err := doc.unsupported(); err != nil {
		return nil, def.wrap(err)
	}
	if def.configurable, err = CompileSchema("configurableSchema", doc.ConfigurableSchema); err != nil {
		return nil, def.wrap(err)
	}
	for _, node := range doc.Nodes {
		// The definition's own schema lets any text be a node id; events and snapshots carry only the grammar.
		if err := contract.ValidateValue("ids#/$defs/nodeId", node.ID); err != nil {
			return nil, def.wrap(fmt.Errorf("node %q: the id is not one an event can carry", node.ID))
		}
	}
	if err := def.build(contract, &doc); err != nil {
		return nil, def.wrap(err)
	}
	return def, nil
}

func (d *Definition) wrap(err error) error { return fmt.Errorf("workflow %s: %w", d.ID, err) }

// unsupported names what the definition asks for and this engine does not do.
func (doc *document) unsupported() error {
	switch {
	case len(doc.Channels) > 0:
		return fmt.Errorf("channels: this host does not run workflows with typed channels")
	case doc.Settings.MaxRetries > 0:
		return fmt.Errorf("settings.maxRetries: this host does not retry nodes")
	}
	for _, node := range doc.Nodes {
		if len(node.Agent) > 0 {
			return fmt.Errorf("node %s: agent: this host does not run agents", node.ID)
		}
	}
	for _, variable := range doc.Variables {
		if variable.Sensitive {
			return fmt.Errorf("variable %s: sensitive: this host does not mask values", variable.Name)
		}
	}
	return nil
}

func (d *Definition) build(contract *corpus.Corpus, doc *document) error {
	for i, n := range doc.Nodes {
		if _, twice := d.byID[n.ID]; twice {
			return fmt.Errorf("two nodes have the id %s", n.ID)
		}
		d.byID[n.ID] = i
		node := Node{
			ID: n.ID, TypeID: n.TypeID, Config: n.Config, Inputs: n.Inputs, Disabled: n.Disabled, Rule: AllSuccess, Irreversible: n.Irreversible,
		}
		var errContract, errRetry, errChild, errCompensation error
		node.Contract, errContract = parseContract(n.Contract)
		node.Retry, errRetry = parseRetry(n.Settings)
		node.Child, errChild = parseChild(n.TypeID, n.Config)
		node.Compensation, errCompensation = d.parseCompensation(n.Compensation)
		if err := errors.Join(errContract, errRetry, errChild, errCompensation); err != nil {
			return fmt.Errorf("node %s: %w", n.ID, err)
		}
		d.Nodes = append(d.Nodes, node)
	}
	backs, loopbacks, err := d.join(doc)
	if err != nil {
		return err
	}
	if err := d.closeLoops(loopbacks); err != nil {
		return err
	}
	if d.Policy, err = parsePolicy(doc.Settings.Compensation); err != nil {
		return err
	}
	if err := d.checkCompensations(); err != nil {
		return err
	}
	if err := d.findLoop(contract, backs); err != nil {
		return err
	}
	if err := d.checkPorts(); err != nil {
		return err
	}
	return d.checkAcyclic()
}

// join draws the edges. Those that lead from a dispatch back to a supervisor, and those that lead back to an earlier node
// of a workflow with loops, are returned instead.
func (d *Definition) join(doc *document) (backs [][2]int, loopbacks []Loopback, err error) {
	for _, e := range doc.Edges {
		source, okSource := d.byID[e.Source]
		target, okTarget := d.byID[e.Target]
		if !okSource || !okTarget {
			return nil, nil, fmt.Errorf("edge %s joins a node that is not there", e.ID)
		}
		if d.Nodes[source].TypeID == TypeDispatch && d.Nodes[target].TypeID == TypeSupervisor {
			if e.Condition != nil || orElse(e.Rule, AllSuccess) != AllSuccess {
				return nil, nil, fmt.Errorf("edge %s: the edge back to the supervisor has no condition", e.ID)
			}
			backs = append(backs, [2]int{source, target})
			continue
		}
		condition, err := compileCondition(e.Condition)
		if err != nil {
			return nil, nil, fmt.Errorf("edge %s: %w", e.ID, err)
		}
		edge := Edge{Source: source, Output: orElse(e.Output, "output"), Input: orElse(e.Input, "input"), Condition: condition}
		if doc.Settings.MaxLoopback > 0 && target <= source {
			loopbacks = append(loopbacks, Loopback{Edge: edge, Source: source, Target: target})
			continue
		}
		node := &d.Nodes[target]
		if rule := orElse(e.Rule, AllSuccess); len(node.Incoming) == 0 {
			node.Rule = rule
		} else if node.Rule != rule {
			return nil, nil, fmt.Errorf("edge %s: the edges into node %s have different trigger rules", e.ID, node.ID)
		}
		node.Incoming = append(node.Incoming, edge)
		d.Nodes[source].Outgoing = append(d.Nodes[source].Outgoing, target)
	}
	return backs, loopbacks, nil
}

func orElse[S ~string](value, fallback S) S {
	if value == "" {
		return fallback
	}
	return value
}

func (d *Definition) checkPorts() error {
	for _, node := range d.Nodes {
		for name, port := range node.Inputs {
			switch port.Type {
			case "expression":
				return fmt.Errorf("node %s: input %s: this host evaluates no expressions", node.ID, name)
			case "connection":
				if _, ok := d.byID[port.NodeID]; !ok {
					return fmt.Errorf("node %s: input %s: there is no node %s", node.ID, name, port.NodeID)
				}
			}
		}
	}
	return nil
}

// checkAcyclic refuses a loop other than the supervisor's: outside of it the scheduler settles every node once.
func (d *Definition) checkAcyclic() error {
	open := make([]int, len(d.Nodes))
	var queue []int
	for i, node := range d.Nodes {
		if open[i] = len(node.Incoming); open[i] == 0 {
			queue = append(queue, i)
		}
	}
	settled := 0
	for ; len(queue) > 0; settled++ {
		i := queue[0]
		queue = queue[1:]
		for _, target := range d.Nodes[i].Outgoing {
			if open[target]--; open[target] == 0 {
				queue = append(queue, target)
			}
		}
	}
	if settled < len(d.Nodes) {
		return fmt.Errorf("the edges form a loop, which this host does not run")
	}
	return nil
}

// NodeIndex is the position of the node with this id.
func (d *Definition) NodeIndex(id string) (int, bool) {
	i, ok := d.byID[id]
	return i, ok
}

// CheckConfigurable validates the configurable of a run against the workflow's own schema (runs.md §Validation and
// persistence). A workflow without one accepts what the protocol accepts. configurable is a decoded value or nil.
func (d *Definition) CheckConfigurable(configurable any) error {
	if configurable == nil { // as good as an empty object to a schema that requires nothing
		return nil
	}
	return d.configurable.Check(configurable)
}

// conditionJSON is the EdgeCondition of the schema.
type conditionJSON struct {
	Type       string          `json:"type"`
	Left       string          `json:"left"`
	Right      json.RawMessage `json:"right"`
	Expression string          `json:"expression"`
}

func compileCondition(c *conditionJSON) (*Condition, error) {
	if c == nil {
		return nil, nil
	}
	condition := &Condition{Operator: c.Type, Path: splitPath(c.Left)}
	switch c.Type {
	case "equals", "notEquals", "contains", "regex":
		if len(c.Right) == 0 {
			return nil, fmt.Errorf("condition %s: it has no right operand", c.Type)
		}
		if err := json.Unmarshal(c.Right, &condition.right); err != nil {
			return nil, fmt.Errorf("condition %s: %w", c.Type, err)
		}
	case "truthy", "falsy":
	case "expression":
		return nil, fmt.Errorf("condition expression: this host evaluates no expressions")
	default:
		return nil, fmt.Errorf("condition: there is no operator %q", c.Type)
	}
	if c.Left == "" {
		return nil, fmt.Errorf("condition %s: it has no left operand", c.Type)
	}
	if c.Type == "regex" {
		text, ok := condition.right.(string)
		if !ok {
			return nil, fmt.Errorf("condition regex: the right operand is not text")
		}
		var err error
		if condition.pattern, err = regexp.Compile(text); err != nil {
			return nil, fmt.Errorf("condition regex: %w", err)
		}
	}
	return condition, nil
}
