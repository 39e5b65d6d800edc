package corpus

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const discovery = `{"protocolVersions":["2.0"],"preferredVersion":"2.0"}`

// Every core family: its smallest record passes at the root, every required facet is
// needed, an unknown facet is refused, and the rules of the record hold.
func TestEveryFamilyRecord(t *testing.T) {
	t.Parallel()
	c := mustLoad(t)
	s := newSampler(t)
	root := decode(t, discovery)
	for _, f := range c.Families() {
		t.Run(f.Key, func(t *testing.T) {
			if f.Anchor == "ext" {
				require.Equal(t, []string{"additionalProperties"}, keywords(violations(t, c.ValidateValue("capabilities", with(root, f.Key, map[string]any{})))))
				return
			}
			node := s.file("capabilities")["$defs"].(map[string]any)[f.Key].(map[string]any)
			record := s.object("capabilities", node).(map[string]any)
			for name, value := range fixedFacets[f.Key] {
				record[name] = value
			}
			record["status"], record["since"], record["witness"] = "stable", "2.0", f.Witness
			check := func(record any) error { return c.ValidateValue("capabilities", with(root, f.Key, record)) }
			require.NoError(t, check(record))
			require.NoError(t, c.ValidateValue("capabilities#/$defs/"+f.Key, record))
			for _, member := range append(requiredOf(node), "status", "since", "witness") {
				require.Contains(t, keywords(violations(t, check(with(record, member, nil)))), "required", member)
			}
			require.Contains(t, keywords(violations(t, check(with(record, "zz", 1)))), "additionalProperties")
			require.Contains(t, keywords(violations(t, check(with(record, "supported", true)))), "additionalProperties")
			require.Contains(t, keywords(violations(t, check(with(record, "until", "2.1")))), "not")
			require.Contains(t, keywords(violations(t, check(with(record, "status", "experimental")))), "required")
			require.NoError(t, check(with(with(record, "status", "experimental"), "until", "2.1")))
			require.Error(t, check(true))
		})
	}
}

// fixedFacets are required facets whose smallest instance the sampler cannot guess.
var fixedFacets = map[string]map[string]any{
	"webhooks": {"signatureAlgorithms": []any{"v1"}},
	"auth":     {"lanes": []any{map[string]any{"lane": "api-key", "issuers": []any{"i"}, "minimumAssurance": "bearer", "revocation": "next-request"}}},
}

func TestDiscoveryDocuments(t *testing.T) {
	t.Parallel()
	c := mustLoad(t)
	put := func(member string) string {
		return edit(t, discovery, `"preferredVersion":"2.0"`, `"preferredVersion":"2.0",`+member)
	}
	const record = `"status":"experimental","since":"2.0","until":"2.1","witness":"claims-check"`
	for _, doc := range []string{
		discovery,
		put(`"protocolVersion":"2.0","minClientVersion":"1.10","engineVersion":0,"eventLogSchemaVersion":3,"implementation":{"name":"n","url":"https://h.example"}`),
		put(`"extensions":{"example.rest-transport":{"contentEncodings":["br"]},"openwop-v2-reference.host":{},"openwopish.a":{}}`),
		put(`"signingKeys":[{"keyId":"k","alg":"ed25519","publicKey":"F588CksLq-PVrpqTFhYcweE4WFYOcj6-jyjz7KmKipU","use":"certification-bundle","retiredAt":"2026-01-02T03:04:05Z"}]`),
		put(`"observability":{"otel":{"exportProtocols":["grpc"],"more":1}},"testing":{"testKeyPrefix":"t_","more":1},"compliance":{"defaultMode":"mask","more":1}`),
		put(`"conformance":{"seamsProfile":"openwop-conformance-seams-v2"},"fixtures":[],"runtimeCapabilities":["chat.sendPrompt"],"discovery":{"authScoped":{"mode":"extension-endpoint","endpointPath":"/d"}}`),
		put(`"secrets":{` + record + `,"scopes":["run"],"runSecrets":{"maxEntries":1}}`),
		put(`"anonymousActor":{` + record + `,"tiers":["bounded-write-egress"],"writeEgressControls":["hitl"],"failClosed":true}`),
		put(`"auth":{` + record + `,"lanes":[{"lane":"anonymous","issuers":["i"],"minimumAssurance":"bearer"},{"lane":"oidc","issuers":["i"],"minimumAssurance":"bearer","revocation":"exp-only","revocationWindowSeconds":3600}]}`),
		put(`"portability":{` + record + `,"import":true,"dryRun":true}`),
		put(`"nodePackRuntimes":{` + record + `,"wasm":{"abiVersions":[1],"more":1},"wasmComponent":{"more":1}}`),
	} {
		require.NoError(t, c.Validate("capabilities", []byte(doc)), doc)
	}
	for _, bad := range []invalidCase{
		{`{"protocolVersions":["2.0"]}`, "", "required"}, {`{"preferredVersion":"2.0"}`, "", "required"},
		{edit(t, discovery, `["2.0"]`, `[]`), "/protocolVersions", "minItems"}, {edit(t, discovery, `["2.0"]`, `["2.0","2.0"]`), "/protocolVersions", "uniqueItems"},
		{edit(t, discovery, `["2.0"]`, `["2"]`), "/protocolVersions/0", "pattern"}, {edit(t, discovery, `n":"2.0"`, `n":"02.0"`), "/preferredVersion", "pattern"},
		{put(`"profiles":[]`), "", "additionalProperties"}, {put(`"supportedTransports":["rest"]`), "", "additionalProperties"}, {put(`"testSeams":true`), "", "additionalProperties"},
		{put(`"grpc":{` + record + `}`), "", "additionalProperties"}, {put(`"restTransport":{` + record + `}`), "", "additionalProperties"},
		{put(`"extensions":{"openwop.host":{}}`), "/extensions/openwop.host", "not"}, {put(`"extensions":{"vendor.acme":{}}`), "/extensions/vendor.acme", "not"},
		{put(`"extensions":{"effect-seams.a":{}}`), "/extensions/effect-seams.a", "not"}, {put(`"extensions":{"events.a":{}}`), "/extensions/events.a", "not"},
		{put(`"extensions":{"example":{}}`), "/extensions/example", "pattern"}, {put(`"extensions":{"example.a.b":{}}`), "/extensions/example.a.b", "pattern"}, {put(`"extensions":{"example.a":1}`), "/extensions/example.a", "type"},
		{put(`"engineVersion":"1"`), "/engineVersion", "type"}, {put(`"eventLogSchemaVersion":1`), "/eventLogSchemaVersion", "minimum"},
		{put(`"signingKeys":[{"keyId":"k","alg":"ed25519","publicKey":"short"}]`), "/signingKeys/0/publicKey", "pattern"}, {put(`"signingKeys":[{"keyId":"k","alg":"rs256","publicKey":"F588CksLq-PVrpqTFhYcweE4WFYOcj6-jyjz7KmKipU"}]`), "/signingKeys/0/alg", "const"},
		{put(`"conformance":{"seamsProfile":"other"}`), "/conformance/seamsProfile", "const"}, {put(`"implementation":{"name":"n","build":"b"}`), "/implementation", "additionalProperties"},
		{put(`"secrets":{` + record + `,"scopes":["user"],"runSecrets":{"maxEntries":1}}`), "/secrets/scopes", "contains"},
		{put(`"anonymousActor":{` + record + `,"tiers":["bounded-write-egress"]}`), "/anonymousActor", "required"}, {put(`"anonymousActor":{` + record + `,"tiers":["read"],"writeEgressControls":["hitl"]}`), "/anonymousActor", "not"},
		{put(`"auth":{` + record + `,"lanes":[{"lane":"api-key","issuers":["i"],"minimumAssurance":"bearer","revocation":"exp-only"}]}`), "/auth/lanes/0/lane", "not"},
		{put(`"auth":{` + record + `,"lanes":[{"lane":"oidc","issuers":["i"],"minimumAssurance":"bearer"}]}`), "/auth/lanes/0", "required"},
		{put(`"portability":{` + record + `,"import":true}`), "/portability", "required"}, {put(`"webhooks":{` + record + `,"signatureAlgorithms":["standard-webhooks-1"]}`), "/webhooks/signatureAlgorithms", "contains"},
		{put(`"interrupt":{` + record + `,"tokenAlgs":["none"]}`), "/interrupt/tokenAlgs/0", "enum"}, {put(`"runList":{` + record + `,"maxPageSize":0}`), "/runList/maxPageSize", "minimum"},
		{put(`"mcp":{` + record + `,"revisions":["2026-13-01"],"preferredVersion":"2026-07-28","minimumRevision":"2026-07-28","refreshedAt":"2026-07-28"}`), "/mcp/revisions/0", "format"},
		{put(`"idempotency":{` + record + `,"crossRegion":"strict"}`), "/idempotency/crossRegion", "enum"},
	} {
		found := violations(t, c.Validate("capabilities", []byte(bad.doc)))
		require.Contains(t, places(found), bad.keyword+" "+bad.pointer, bad.doc)
	}
}

func places(found []Violation) []string {
	var out []string
	for _, v := range found {
		out = append(out, v.Keyword+" "+v.Pointer)
	}
	return out
}
