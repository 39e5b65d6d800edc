package referencehost

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"wopcert/corpus"
	"wopcert/reference-host/internal/eventlog"
)

// The one lane of this host (identity.md §2.2).
const (
	laneAPIKey   = "api-key"
	keyIssuer    = "urn:wopcert-reference-host:api-key"
	assurance    = "bearer"
	maxKeyLength = 512
)

// principal is a credential as the host holds it: without the key.
type principal struct {
	name       string
	digest     [sha256.Size]byte
	owner      eventlog.Owner
	scopes     []string
	groups     []string
	roles      []string
	production bool
	revoked    atomic.Bool
	// audit facts
	admitted, refused atomic.Int64
	lastUsed          atomic.Int64 // Unix milliseconds
}

func (p *principal) tenant() string { return p.owner.Tenant }

func newPrincipals(contract *corpus.Corpus, keys []Credential) ([]*principal, error) {
	var principals []*principal
	for _, key := range keys {
		if len(key.Key) < 16 || len(key.Key) > maxKeyLength || strings.ContainsFunc(key.Key, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, fmt.Errorf("key %q: a key is 16 to %d visible ASCII characters", key.Name, maxKeyLength)
		}
		p := &principal{
			name: key.Name, digest: sha256.Sum256([]byte(key.Key)), scopes: slices.Clone(key.Scopes),
			groups: slices.Clone(key.Groups), roles: slices.Clone(key.Roles),
			production: !strings.HasPrefix(key.Key, TestKeyPrefix),
			owner: eventlog.Owner{Tenant: key.Tenant, Workspace: key.Workspace, Subject: eventlog.Subject{
				Issuer: keyIssuer, SubjectID: key.SubjectID, Tenant: key.Tenant, Lane: laneAPIKey, Kind: "user",
			}},
		}
		p.revoked.Store(key.Revoked)
		if strings.Contains(key.Tenant, "~") {
			return nil, fmt.Errorf("key %q: the tenant holds a ~, which no id this host mints may", key.Name)
		}
		owner, err := encode(p.owner)
		if err == nil {
			err = contract.Validate("owner", owner)
		}
		if err != nil {
			return nil, fmt.Errorf("key %q: %w", key.Name, err)
		}
		for _, other := range principals {
			if other.digest == p.digest || other.name == p.name {
				return nil, fmt.Errorf("key %q: another key has the same name or the same value", key.Name)
			}
		}
		principals = append(principals, p)
	}
	return principals, nil
}

// authenticate resolves the request to a principal before anything else is decided about it, and fails closed
// (identity.md §2.1). Every key is compared, in constant time, so that timing tells nothing.
func (h *Host) authenticate(r *http.Request) (*principal, error) {
	fields := r.Header.Values("Authorization")
	if len(fields) == 0 {
		return nil, h.codes.noCredential()
	}
	scheme, key, _ := strings.Cut(fields[0], " ")
	if key = strings.TrimLeft(key, " "); len(fields) > 1 || !strings.EqualFold(scheme, "Bearer") || key == "" {
		return nil, h.codes.noCredential()
	}
	if len(key) > maxKeyLength {
		return nil, h.codes.unknownCredential()
	}
	digest := sha256.Sum256([]byte(key))
	var found *principal
	for _, p := range h.principals {
		if subtle.ConstantTimeCompare(p.digest[:], digest[:]) == 1 {
			found = p
		}
	}
	switch {
	case found == nil:
		return nil, h.codes.unknownCredential()
	case found.revoked.Load():
		found.refused.Add(1)
		return nil, h.codes.revokedCredential()
	}
	found.admitted.Add(1)
	found.lastUsed.Store(h.clock.Now().UnixMilli())
	return found, nil
}

// authorize checks the operation's scopes, several joined by " + " (runs.md §Surface).
func (h *Host) authorize(p *principal, scope string) error {
	for needed := range strings.SplitSeq(scope, " + ") {
		if needed != "" && !slices.Contains(p.scopes, needed) {
			p.refused.Add(1)
			return h.codes.missingScope(scope)
		}
	}
	return nil
}

// Revoke refuses a key from the next request on (identity.md §2.2). It reports whether there is a key of that name.
func (h *Host) Revoke(name string) bool {
	for _, p := range h.principals {
		if p.name == name {
			p.revoked.Store(true)
			return true
		}
	}
	return false
}

// AuditFact is what the host has recorded about the use of one key (identity.md §2.3).
type AuditFact struct {
	// Key is the credential's name.
	Key    string
	Tenant string
	Lane   string
	// Assurance is the assurance the requests came with.
	Assurance         string
	Admitted, Refused int64
	// LastUsed is zero while the key was not used.
	LastUsed time.Time
}

// Audit lists the facts for every key, in configuration order.
func (h *Host) Audit() []AuditFact {
	facts := make([]AuditFact, 0, len(h.principals))
	for _, p := range h.principals {
		fact := AuditFact{
			Key: p.name, Tenant: p.tenant(), Lane: laneAPIKey, Assurance: assurance,
			Admitted: p.admitted.Load(), Refused: p.refused.Load(),
		}
		if used := p.lastUsed.Load(); used > 0 {
			fact.LastUsed = time.UnixMilli(used)
		}
		facts = append(facts, fact)
	}
	return facts
}
