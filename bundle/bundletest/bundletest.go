// Package bundletest makes sound certification bundles to test with, the same bytes every time.
//
// Its keys are derived from labels that anybody can read here. They are for tests only: a bundle signed with one proves
// nothing.
package bundletest

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"wopcert/bundle"
	"wopcert/bundle/jcs"
	"wopcert/corpus"
)

// KeyLabel is what the seed of Key(name) is the SHA-256 of.
func KeyLabel(name string) string { return "wopcert TEST-ONLY key, not a secret: " + name }

// Key is the test key of a name; its id is "test-only-" and the name.
func Key(name string) bundle.SigningKey {
	seed := sha256.Sum256([]byte(KeyLabel(name)))
	return bundle.SigningKey{ID: "test-only-" + name, Private: ed25519.NewKeyFromSeed(seed[:])}
}

// Published is the signingKeys[] entry of a key.
func Published(key bundle.SigningKey) map[string]any {
	return map[string]any{
		"keyId": key.ID, "alg": "ed25519", "publicKey": bundle.EncodePublicKey(key.Public()), "use": "certification-bundle",
	}
}

// Document is a discovery document that fits every profile and publishes the key Key("host").
func Document() map[string]any {
	record := func(facets map[string]any) map[string]any {
		facets["status"], facets["since"], facets["witness"] = "stable", "2.0", "witnessable-gated"
		return facets
	}
	return map[string]any{
		"protocolVersions": []any{"2.0"},
		"preferredVersion": "2.0",
		"implementation":   map[string]any{"name": "test-host", "version": "1.0.0", "vendor": "Test"},
		"signingKeys":      []any{Published(Key("host"))},
		"conformance":      map[string]any{"seamsProfile": "openwop-conformance-seams-v2"},
		"interrupt":        record(map[string]any{"tokenAlgs": []any{"hs256"}}),
		"replay":           record(map[string]any{"modes": []any{"replay"}}),
		"webhooks":         record(map[string]any{"signatureAlgorithms": []any{"standard-webhooks-1"}}),
		"idempotency":      record(map[string]any{"crossRegion": "single-region"}),
		"eventLog":         record(map[string]any{}),
	}
}

// Encode writes a document or bundle tree as JSON text, members in a fixed order.
func Encode(v any) []byte {
	text, err := jcs.CanonicalizeValue(v)
	must(err)
	return text
}

// Pass is an executed-pass row.
func Pass(id, scenario string) bundle.Row {
	return bundle.Row{ID: id, Scenario: scenario, Result: bundle.ExecutedPass, Assertions: 2}
}

// NonPass is a row of another disposition, with its reason.
func NonPass(id, scenario string, result bundle.Disposition, detail string) bundle.Row {
	return bundle.Row{ID: id, Scenario: scenario, Result: result, Detail: detail}
}

// Floor gives a passing row for every floor scenario of the profiles at a contract version.
func Floor(version string, profiles ...string) []bundle.Row {
	contract, err := corpus.Load()
	must(err)
	var rows []bundle.Row
	for _, id := range profiles {
		profile, ok := contract.Profile(id)
		if !ok {
			panic("no profile " + id)
		}
		scenarios, err := profile.FloorAt(version)
		must(err)
		for _, scenario := range scenarios {
			rows = append(rows, Pass(bundle.FloorRowID(scenario), scenario))
		}
	}
	return rows
}

// Recovery gives the five rows of the rung durable-single-instance.
func Recovery() []bundle.Row {
	const scenario = "v2-durability-recovery"
	rows := make([]bundle.Row, 0, 5)
	for _, slug := range []string{"bound-is-derived", "duplicate-delivery", "kill-after-accept", "kill-during-execution", "poison-exhaustion"} {
		row := Pass("openwop.requirement.0158."+slug, scenario)
		switch slug {
		case "bound-is-derived":
			row.Evidence = &bundle.Evidence{RecoveryBounds: []bundle.RecoveryBound{{Class: "restart", Bound: 6000,
				Terms: []bundle.BoundTerm{{Name: "delay", MS: 1000}, {Name: "reentry", MS: 5000}}}}}
		case "kill-after-accept", "kill-during-execution":
			row.Evidence = &bundle.Evidence{Recovery: &bundle.Recovery{Class: "restart", BoundMS: 6000, ObservedMS: 1700}}
		}
		rows = append(rows, row)
	}
	return rows
}

// The profiles Full claims.
const (
	DiscoveryCore = "openwop-discovery-core"
	CoreStandard  = "openwop-core-standard"
	SeamsV2       = "openwop-conformance-seams-v2"
)

// Small is the input of a bundle that certifies openwop-discovery-core, with one row of every disposition but blocked.
func Small() bundle.Input {
	in := base()
	in.Rows = append(Floor(corpus.SpecArtifactsVersion, DiscoveryCore),
		Pass("openwop.requirement.runs.create-answers-201", "v2-run-create"),
		NonPass("openwop.requirement.runs.cancel-terminal", "v2-run-cancel", bundle.ExecutedFail, "expected 409 \"run_terminal\", got 200 — §Cancel"),
		NonPass("openwop.requirement.forms.resolve", "v2-forms", bundle.Skipped, bundle.OptOutDetail("forms")),
		NonPass("openwop.requirement.oauth.interrupt", "v2-oauth", bundle.Inapplicable, "the host does not advertise oauth"),
	)
	in.Claims = []bundle.Claim{{ID: DiscoveryCore, EvidenceTier: bundle.TierSelf}}
	return in
}

// Full is the input of a bundle that certifies three profiles and supports the rung durable-single-instance.
func Full() bundle.Input {
	in := base()
	in.Rows = append(Floor(corpus.SpecArtifactsVersion, DiscoveryCore, CoreStandard, SeamsV2), Recovery()...)
	for _, id := range []string{DiscoveryCore, CoreStandard, SeamsV2} {
		in.Claims = append(in.Claims, bundle.Claim{ID: id, EvidenceTier: bundle.TierSelf})
	}
	in.Rung = bundle.RungSingleInstance
	return in
}

func base() bundle.Input {
	return bundle.Input{
		GeneratedAt: time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC),
		Suite: bundle.Suite{Name: bundle.SuiteName, Version: bundle.ContractVersion("0.0.0"), TargetMajor: 2,
			SpecArtifactsVersion: corpus.SpecArtifactsVersion},
		Host: bundle.Host{Name: "test-host", Version: "1.0.0", Vendor: "Test",
			Build: bundle.HostBuild{Kind: "image-digest", ID: "sha256:" + fmt.Sprintf("%064d", 7)}},
		DiscoveryURL: "https://host.example/.well-known/openwop",
		Discovery:    Encode(Document()),
	}
}

// Signed builds and signs, and panics where Build refuses.
func Signed(in bundle.Input, key bundle.SigningKey) *bundle.Bundle {
	b, err := bundle.Build(in)
	must(err)
	must(bundle.Sign(b, key))
	return b
}

// Tree is a bundle as plain JSON values, for tests that damage it.
type Tree map[string]any

// TreeOf takes a signed bundle apart.
func TreeOf(b *bundle.Bundle) Tree {
	text, err := bundle.Encode(b)
	must(err)
	var t Tree
	must(json.Unmarshal(text, &t))
	return t
}

// At walks to an object of the tree.
func (t Tree) At(names ...string) map[string]any {
	v := map[string]any(t)
	for _, name := range names {
		v = v[name].(map[string]any)
	}
	return v
}

// Row finds a row by id.
func (t Tree) Row(id string) map[string]any {
	for _, item := range t.Rows() {
		if row := item.(map[string]any); row["id"] == id {
			return row
		}
	}
	panic("no row " + id)
}

// Rows are the rows.
func (t Tree) Rows() []any { return t.At("results")["requirements"].([]any) }

// Document is the captured discovery document.
func (t Tree) Document() map[string]any { return t.At("discovery", "document") }

// Seal makes everything Build derives from the rows and the document agree again, and signs: what is left is the one
// defect the test made. The claims, the rung and host.signingKeyId stay as they are.
func (t Tree) Seal(key bundle.SigningKey) {
	b := t.bundle()
	b.Results.Totals, b.AssertionCount, b.Detail = bundle.Totals{}, 0, nil
	var nonPass []bundle.NonPass
	counts := map[bundle.Disposition]*int{
		bundle.ExecutedPass: &b.Results.Totals.ExecutedPass, bundle.ExecutedFail: &b.Results.Totals.ExecutedFail,
		bundle.Skipped: &b.Results.Totals.Skipped, bundle.Inapplicable: &b.Results.Totals.Inapplicable,
		bundle.Blocked: &b.Results.Totals.Blocked,
	}
	for _, row := range b.Results.Requirements {
		*counts[row.Result]++
		b.AssertionCount += row.Assertions
		if row.Result != bundle.ExecutedPass {
			nonPass = append(nonPass, bundle.NonPass{ID: row.ID, Result: row.Result, Reason: row.Detail})
		}
	}
	t.At("results")["totals"] = plain(b.Results.Totals)
	t["assertionCount"] = b.AssertionCount
	delete(t, "detail")
	if nonPass != nil {
		t["detail"] = plain(bundle.Detail{NonPass: nonPass})
	}
	t.Sign(key)
}

// Sign recomputes both digests and the signature, and nothing else.
func (t Tree) Sign(key bundle.SigningKey) {
	b := t.bundle()
	digest := digestOf(t, b)
	t["witnessSha256"], b.WitnessSHA256 = digest, digest
	if document, ok := t.At("discovery")["document"]; ok {
		digest, err := jcs.SHA256(Encode(document))
		must(err)
		t.At("discovery")["sha256"], b.Discovery.SHA256 = digest, digest
	}
	must(bundle.Sign(b, key))
	t["signature"] = plain(b.Signature)
}

// digestOf is the witness digest over the rows with exactly the members the tree has, which a bundle.Row may lack.
func digestOf(t Tree, b *bundle.Bundle) string {
	rows := slices.Clone(t.Rows())
	slices.SortStableFunc(rows, func(x, y any) int {
		return jcs.CompareUTF16(x.(map[string]any)["id"].(string), y.(map[string]any)["id"].(string))
	})
	var preimage any = rows
	if len(b.Host.Relaxations) > 0 || b.Host.Deployment != "" {
		object := map[string]any{"rows": rows}
		if len(b.Host.Relaxations) > 0 {
			object["relaxations"] = b.Host.Relaxations
		}
		if b.Host.Deployment != "" {
			object["deployment"] = b.Host.Deployment
		}
		preimage = object
	}
	digest, err := jcs.SHA256(Encode(preimage))
	must(err)
	return digest
}

// Countersign adds a verifier's signature.
func (t Tree) Countersign(key bundle.SigningKey) {
	b := t.bundle()
	must(bundle.Countersign(b, key))
	t["verifierSignature"] = plain(b.VerifierSignature)
}

// Bytes encodes the tree.
func (t Tree) Bytes() []byte { return Encode(map[string]any(t)) }

func (t Tree) bundle() *bundle.Bundle {
	var b bundle.Bundle
	must(json.Unmarshal(t.Bytes(), &b))
	return &b
}

// plain turns a value into maps and slices.
func plain(v any) any {
	var out any
	text, err := json.Marshal(v)
	must(err)
	must(json.Unmarshal(text, &out))
	return out
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
