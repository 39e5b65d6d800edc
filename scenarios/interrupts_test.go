package scenarios

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wopcert/bundle"
	"wopcert/harness"
	"wopcert/harness/receiver"
	"wopcert/internal/testnet"
	referencehost "wopcert/reference-host"
	"wopcert/requirements"
)

// passing are the requirements of interrupts that a host passes.
func passing(t *testing.T, raw []byte, handler http.Handler, timeout time.Duration) []requirements.ID {
	t.Helper()
	target, err := receiver.Start(*testnet.Config())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, target.Close()) })
	results, err := harness.Run(t.Context(), harness.Options{
		BaseURL: claiming(t, raw, handler).URL, Corpus: contract(t), Scenarios: interruptScenarios(), Timeout: timeout, Parallel: 128,
		Credentials: harness.Credentials{Primary: "key-of-tenant-a", OtherTenant: "key-of-tenant-b", ReadOnly: "key-that-reads",
			Approver: "key-of-approver", SecondApprover: "key-of-second-approver", Override: "key-of-override"},
		Approver: harness.ApproverRefs{Principal: "approver", Group: "group", Role: "role", Override: "override"},
		Receiver: harness.Receiver{Server: target, Trusted: true},
	})
	require.NoError(t, err)
	assert.Empty(t, results.SuiteFaults)
	var ids []requirements.ID
	for _, row := range results.Rows {
		if row.Result == bundle.ExecutedPass && strings.HasPrefix(row.ID, "openwop.requirement.") {
			ids = append(ids, requirements.ID(row.ID))
		}
	}
	return ids
}

// TestInterruptsOfHostsThatKnowNothing: a host that advertises everything about
// interrupts and answers every request alike passes nothing.
func TestInterruptsOfHostsThatKnowNothing(t *testing.T) {
	t.Parallel()
	raw := claimsEverything(t)
	for name, handler := range knowsNothing() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Empty(t, passing(t, raw, handler, time.Second))
		})
	}
}

// waitsForever is a host whose every run waits on an approval for ever, and
// that answers whatever is done about it alike.
func waitsForever(status int, body string) http.Handler {
	answer := func(w http.ResponseWriter, status int, body string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
	const id = "t/0123456789abcdefghij"
	event := func(seq int, typ, payload string) string {
		return fmt.Sprintf(`{"eventId":"e-0123456789abcde-%d","runId":%q,"nodeId":"gate","type":%q,"payload":%s,"timestamp":"2026-11-30T12:00:0%dZ","sequence":%d,"schemaVersion":3}`,
			seq, id, typ, payload, seq, seq)
	}
	events := strings.Join([]string{
		event(0, "run.started", "{}"), event(1, "node.started", `{"nodeId":"gate"}`),
		event(2, "interrupt.requested", `{"kind":"approval","key":"k","data":{"artifactId":"a","artifactType":"t","title":"Title","actions":["accept","reject"],"approversList":["somebody"]}}`),
		event(3, "node.suspended", `{"nodeId":"gate","interruptId":"t/interrupt-0123456789","key":"k"}`),
	}, ",")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.URL.Path, "/interrupts/"):
			answer(w, status, body)
		case r.Method == http.MethodPost && r.URL.Path == "/runs":
			answer(w, http.StatusCreated, fmt.Sprintf(`{"runId":%q,"status":"pending","eventsUrl":"/x"}`, id))
		case strings.HasSuffix(r.URL.Path, "/events/poll"):
			answer(w, http.StatusOK, `{"events":[`+events+`],"isTerminal":false,"status":"waiting-approval","lastSequence":3}`)
		case strings.HasSuffix(r.URL.Path, "0123456789abcdefghij"):
			answer(w, http.StatusOK, fmt.Sprintf(`{"runId":%q,"workflowId":"w","status":"waiting-approval","currentNodeId":"gate","eventLogSchemaVersion":3,"owner":{"tenant":"t","subject":{"subjectId":"s"}}}`, id))
		default:
			answer(w, http.StatusNotFound, `{"error":"not_found","message":"no"}`)
		}
	})
}

// TestInterruptsThatNothingResolves: whatever one answer a host gives to all
// that is done about an interrupt, only what that answer is right for passes.
func TestInterruptsThatNothingResolves(t *testing.T) {
	t.Parallel()
	config, err := referencehost.DefaultConfig()
	require.NoError(t, err)
	host, err := referencehost.New(config)
	require.NoError(t, err)
	// A log that stands still shows what it shows.
	standing := []requirements.ID{requirements.InterruptPayload, requirements.InterruptWaitingStatus, requirements.InterruptNoCredentialSolicited}
	for code, also := range map[string][]requirements.ID{
		`200 {}`:                         nil,
		`204 `:                           nil,
		`400 validation_error`:           nil,
		`401 interrupt_token_invalid`:    {requirements.InterruptTokenSurface},
		`401 unauthenticated`:            nil,
		`403 forbidden`:                  nil,
		`403 id_tenant_mismatch`:         nil,
		`404 not_found`:                  nil,
		`409 interrupt_already_resolved`: nil,
		`410 interrupt_expired`:          nil,
		`410 interrupt_cancelled`:        nil,
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			status, name, _ := strings.Cut(code, " ")
			body := name
			if name != "" && name != "{}" {
				body = fmt.Sprintf(`{"error":%q,"message":"no"}`, name)
			}
			var number int
			_, err := fmt.Sscan(status, &number)
			require.NoError(t, err)
			for _, id := range passing(t, host.Discovery(), waitsForever(number, body), 1500*time.Millisecond) {
				assert.True(t, slices.Contains(append(standing, also...), id), "%s passes", id)
			}
		})
	}
}
