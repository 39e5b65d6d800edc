package referencehost_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	referencehost "wopcert/reference-host"
)

func TestQuorum(t *testing.T) {
	t.Parallel()
	h := start(t)
	voters := []string{referencehost.KeyApprover1, referencehost.KeyApprover2, referencehost.KeyApprover3, referencehost.KeyTenantA}
	for name, c := range map[string]struct {
		inputs string
		votes  string // one letter for each voter in turn: a accept, r reject, f refine; a digit before it names the voter
		status string
	}{
		"three of three":                   {`{"requiredApprovals":3}`, "1a2a3a", "completed"},
		"one voter counts once":            {`{"requiredApprovals":2}`, "1a1a1a", "waiting-approval"},
		"two voters, one of them twice":    {`{"requiredApprovals":2}`, "1a1a2a", "completed"},
		"a single veto":                    {`{"requiredApprovals":3}`, "1a2r", "failed"},
		"a veto after one's own approval":  {`{"requiredApprovals":3}`, "1a1r", "failed"},
		"one of three is no majority":      {`{"requiredApprovals":3,"rejectionPolicy":"majority"}`, "1r2a", "waiting-approval"},
		"two of three is a majority":       {`{"requiredApprovals":3,"rejectionPolicy":"majority"}`, "1r2a3r", "failed"},
		"approved against one":             {`{"requiredApprovals":3,"rejectionPolicy":"majority"}`, "1r2a3a4a", "completed"},
		"half is no majority":              {`{"requiredApprovals":2,"rejectionPolicy":"majority"}`, "1r", "waiting-approval"},
		"a vote taken back":                {`{"requiredApprovals":2,"rejectionPolicy":"majority"}`, "1r1a2a", "completed"},
		"a refinement ends the wait":       {`{"requiredApprovals":3}`, "1f", "completed"},
		"override is a vote by default":    {`{"requiredApprovals":2}`, "3a", "waiting-approval"},
		"override releases where it may":   {`{"requiredApprovals":2,"overrideBypassesQuorum":true}`, "3a", "completed"},
		"only the override principal does": {`{"requiredApprovals":2,"overrideBypassesQuorum":true}`, "1a", "waiting-approval"},
	} {
		inputs := strings.Replace(c.inputs, "{", `{"override":"`+referencehost.OverrideRole+`",`, 1)
		_, path := h.asks(measured(inputs))
		values := map[byte]string{
			'a': `{"action":"accept"}`, 'r': `{"action":"reject"}`, 'f': `{"action":"refine","refineFeedback":{"scope":"whole"}}`,
		}
		for i := 0; i < len(c.votes); i += 2 {
			r := h.resolve(path, "gate", values[c.votes[i+1]], voters[c.votes[i]-'1'])
			require.Equal(t, http.StatusOK, r.StatusCode, name+string(r.body))
			if i+2 < len(c.votes) {
				require.Empty(t, find(h.events(path), "interrupt.resolved"), name)
			}
		}
		if c.status == "waiting-approval" {
			assert.Equal(t, c.status, h.call("GET", path, "").json(t)["status"], name)
			assert.Empty(t, find(h.events(path), "interrupt.resolved"), name)
			continue
		}
		assert.Equal(t, c.status, h.finish(path)["status"], name)
		assert.Len(t, find(h.events(path), "interrupt.resolved"), 1, name)
	}
}

func TestEligibility(t *testing.T) {
	t.Parallel()
	group, role := referencehost.ApproverGroup, referencehost.ApproverRole
	listed := func(kinds ...any) func(*referencehost.Config) {
		kinds = append([]any{}, kinds...)
		return func(c *referencehost.Config) {
			c.Families = map[string]map[string]any{"interrupt": {"refKinds": kinds}}
		}
	}
	for _, c := range []struct {
		name, inputs string
		kinds        func(*referencehost.Config)
		may, mayNot  []string
	}{
		{"nobody named", `{}`, nil, []string{referencehost.KeyTenantA, referencehost.KeyApprover1}, nil},
		{"an empty list", `{"approversList":[]}`, nil, []string{referencehost.KeyApprover3}, nil},
		{"a principal", `{"approversList":["approver-a3"]}`, nil, []string{referencehost.KeyApprover3}, []string{referencehost.KeyTenantA, referencehost.KeyApprover1}},
		{"a principal where no kind is advertised", `{"approversList":["approver-a3"]}`, listed(), []string{referencehost.KeyApprover3}, []string{referencehost.KeyTenantA}},
		{"a group", `{"approverGroupRefs":["` + group + `"]}`, nil, []string{referencehost.KeyApprover1}, []string{referencehost.KeyTenantA, referencehost.KeyApprover2}},
		{"a group that is none here", `{"approverGroupRefs":["` + group + `"]}`, listed("principal", "role"), []string{referencehost.KeyTenantA}, nil},
		{"a role", `{"approverRoleRefs":["` + role + `"]}`, nil, []string{referencehost.KeyApprover2}, []string{referencehost.KeyApprover1}},
		{"a role that is none here", `{"approverRoleRefs":["` + role + `"]}`, listed("group"), []string{referencehost.KeyApprover1}, nil},
		{"a group by the name of a role", `{"approverGroupRefs":["` + role + `"]}`, nil, nil, []string{referencehost.KeyApprover1, referencehost.KeyApprover2}},
		{"one of them all", `{"approversList":["approver-a3"],"approverGroupRefs":["` + group + `"],"approverRoleRefs":["` + role + `"]}`, nil,
			[]string{referencehost.KeyApprover1, referencehost.KeyApprover2, referencehost.KeyApprover3}, []string{referencehost.KeyTenantA}},
		{"an audience admits nobody", `{"approversList":["approver-a1"],"audience":{"subjects":["operator-a"]}}`, nil, []string{referencehost.KeyApprover1}, []string{referencehost.KeyTenantA}},
		{"an override is no way around the list", `{"approversList":["approver-a1"],"overrideBypassesQuorum":true,"override":"approval-override"}`, nil, nil, []string{referencehost.KeyApprover3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			changes := []func(*referencehost.Config){}
			if c.kinds != nil {
				changes = append(changes, c.kinds)
			}
			h := start(t, changes...)
			for _, key := range c.mayNot {
				_, path := h.asks(measured(c.inputs))
				r := h.resolve(path, "gate", `{"action":"accept"}`, key)
				assert.Equal(t, "forbidden", r.code(t), key)
				assert.Equal(t, http.StatusForbidden, r.StatusCode, key)
				assert.Equal(t, "waiting-approval", h.call("GET", path, "").json(t)["status"])
			}
			for _, key := range c.may {
				_, path := h.asks(measured(c.inputs))
				r := h.resolve(path, "gate", `{"action":"accept"}`, key)
				assert.Equal(t, http.StatusOK, r.StatusCode, key+string(r.body))
			}
		})
	}
}
