package era

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"wopcert/bundle/jcs"
	"wopcert/corpus"
	"wopcert/reference-host/internal/eventlog"
)

// LegacyIssuer is the trust root of an owner that was recorded before there were Subjects (identity.md §1.2).
const LegacyIssuer = "urn:openwop:legacy"

// legacySubject is who owns a run whose record names nobody.
const legacySubject = "legacy"

// maxCausation bounds a causationId (run-event schema).
const maxCausation = 256

// translate makes events of rows.
func (s *Store) translate(run eventlog.Run, rows []eventlog.Event) ([]eventlog.Event, error) {
	events := make([]eventlog.Event, len(rows))
	for i, row := range rows {
		var err error
		if events[i], err = s.event(run, row); err != nil {
			return nil, err
		}
	}
	return events, nil
}

// event makes an event of a row: type and payload change, everything else is the row's own (persistence.md §The reader
// rule).
func (s *Store) event(run eventlog.Run, row eventlog.Event) (eventlog.Event, error) {
	v2, ok := s.name(row.Type)
	if !ok {
		return row, &UnmappedError{Type: row.Type, Sequence: row.Sequence}
	}
	malformed := &MalformedError{Type: v2, EventID: row.EventID, Sequence: row.Sequence}
	row.Type = v2
	if len(row.CausationID) > maxCausation {
		malformed.Err = fmt.Errorf("the causationId is longer than %d bytes", maxCausation)
		return row, malformed
	}
	if v2 == eventlog.RunStarted {
		if row.Payload, malformed.Err = withOwner(run, row.Payload); malformed.Err != nil {
			return row, malformed
		}
	}
	if _, registered := s.contract.Event(v2); !registered {
		return row, nil
	}
	if malformed.Keys, malformed.Err = s.check(v2, row.Payload); malformed.Err != nil {
		return row, malformed
	}
	return row, nil
}

// check holds a payload to the definition of the type's version 2 name. A payload it cannot seat is refused and not
// trimmed (events.md §Era-2 logs); keys are the members at fault.
func (s *Store) check(v2 string, payload json.RawMessage) (keys []string, err error) {
	value, err := jcs.Decode(payload)
	if err != nil {
		return nil, err
	}
	err = s.contract.ValidatePayload(v2, value)
	members, ok := value.(map[string]any)
	if err == nil || !ok {
		return nil, err
	}
	for key, member := range members {
		var invalid *corpus.ValidationError
		if !errors.As(s.contract.ValidatePayload(v2, map[string]any{key: member}), &invalid) {
			continue
		}
		if slices.ContainsFunc(invalid.Violations, func(v corpus.Violation) bool { return v.Pointer != "" || v.Keyword == "additionalProperties" }) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, err
}

// withOwner gives a start event the owner of its run, in place of none and of one from before there were Subjects. It
// is the owner the run was recorded with, so every read shows the same one.
func withOwner(run eventlog.Run, payload json.RawMessage) (json.RawMessage, error) {
	var started map[string]json.RawMessage
	if err := json.Unmarshal(payload, &started); err != nil {
		return nil, err
	}
	var stored eventlog.Owner
	if owner, ok := started["owner"]; ok && json.Unmarshal(owner, &stored) == nil && stored.Subject.Issuer != "" {
		return payload, nil
	}
	owner, err := json.Marshal(run.Owner)
	if err != nil {
		return nil, err
	}
	started["owner"] = owner
	return json.Marshal(started)
}

// OwnerOf is the owner of a run a v1 host began, from the rows of its log: the block its start event carries, or the
// legacy Subject (identity.md §1.2) with what the row records of the principal. tenant is the one whose store it is.
func OwnerOf(rows []eventlog.Draft, tenant string) (eventlog.Owner, error) {
	owner := eventlog.Owner{Tenant: tenant, Subject: eventlog.Subject{
		Issuer: LegacyIssuer, SubjectID: legacySubject, Tenant: tenant, Lane: "api-key", Kind: "user",
	}}
	for _, row := range rows {
		if row.Type != eventlog.RunStarted {
			continue
		}
		var started struct {
			Owner *struct {
				eventlog.Owner
				Principal     string `json:"principal"`
				PrincipalKind string `json:"principalKind"`
			} `json:"owner"`
		}
		if err := json.Unmarshal(row.Payload, &started); err != nil {
			return owner, err
		}
		if started.Owner == nil {
			return owner, nil
		}
		recorded := started.Owner
		if recorded.Tenant != "" && recorded.Tenant != tenant {
			return owner, errors.New("the owner is of another tenant")
		}
		if recorded.Subject.Issuer != "" {
			return recorded.Owner, nil
		}
		owner.Workspace = recorded.Workspace
		if recorded.Principal != "" {
			owner.Subject.SubjectID = recorded.Principal
		}
		switch recorded.PrincipalKind {
		case "agent", "workload":
			owner.Subject.Kind = recorded.PrincipalKind
		case "anonymous":
			owner.Subject.Kind, owner.Subject.Lane = "anonymous", "anonymous"
		}
		return owner, nil
	}
	return owner, nil
}

// Pins are the change ids that the version.pinned events of a log name.
func Pins(events []eventlog.Event) (changes []string, err error) {
	for _, event := range events {
		if event.Type != eventlog.VersionPinned {
			continue
		}
		var pinned struct {
			ChangeID string `json:"changeId"`
		}
		if err := json.Unmarshal(event.Payload, &pinned); err != nil {
			return nil, err
		}
		changes = append(changes, pinned.ChangeID)
	}
	return changes, nil
}
