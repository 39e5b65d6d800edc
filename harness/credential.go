package harness

import (
	"context"
	"fmt"
	"net/http"
)

// CredentialError is a key that the host refuses.
type CredentialError struct {
	Who      Identity
	Observed string // the refusal, as status and error code
}

func (e *CredentialError) Error() string {
	return fmt.Sprintf("the host refuses the key of the %s: %s", e.Who, e.Observed)
}

// Hint says where the key comes from.
func (e *CredentialError) Hint() string { return e.Who.supply() }

// checkCredentials presents every key that was given to an operation that
// needs one. Only a 401 speaks of the key; whatever else a host answers is for
// the scenarios to judge.
func (r *run) checkCredentials(ctx context.Context) error {
	for _, who := range identities() {
		if !r.credentials.Has(who) {
			continue
		}
		if answer := r.present(ctx, who); refusesKey(answer) {
			return &CredentialError{Who: who, Observed: r.capture.redact.text(answer.describe())}
		}
	}
	return nil
}

// present sends the key of an identity where one is needed.
func (r *run) present(ctx context.Context, who Identity) *Response {
	t := &T{ctx: ctx, run: r, tape: r.capture.tape("credentials", "the keys given"), log: &observations{}}
	return t.Do(Request{Path: "/workflows/conformance-noop", As: who})
}

func refusesKey(answer *Response) bool {
	return answer.Err == nil && answer.Status == http.StatusUnauthorized
}
