package corpus

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestErrorRegistry(t *testing.T) {
	t.Parallel()
	c := mustLoad(t)
	codes := c.Errors()
	require.Len(t, codes, 112)
	var retriable []string
	previous := 0
	for _, e := range codes {
		assert.Regexp(t, `^[a-z]+(_[a-z]+)*$`, e.Code)
		assert.True(t, e.HTTPStatus >= 400 && e.HTTPStatus <= 503, "%s: status %d", e.Code, e.HTTPStatus)
		assert.NotEmpty(t, http.StatusText(e.HTTPStatus), e.Code)
		assert.GreaterOrEqual(t, e.HTTPStatus, previous, "%s: rows are in order of status", e.Code)
		assert.True(t, strings.HasSuffix(e.Meaning, "."), "%s: %q", e.Code, e.Meaning)
		assert.Contains(t, []string{"", "1.0", "2.0", "2.3"}, e.Since, e.Code)
		previous = e.HTTPStatus
		if e.Retriable {
			retriable = append(retriable, e.Code)
		}
		got, ok := c.Error(e.Code)
		assert.True(t, ok)
		assert.Equal(t, e, got)
	}
	// errors.md §Retry timing names the retriable rows.
	require.ElementsMatch(t, []string{"residency_unavailable", "rate_limited", "internal_error", "pack_registry_unreachable", "runner_unavailable"}, retriable)
	_, ok := c.Error("no_such_code")
	require.False(t, ok)
}

// The statuses the documents give beside a code, one of each kind.
func TestErrorStatuses(t *testing.T) {
	t.Parallel()
	c := mustLoad(t)
	for code, status := range map[string]int{
		"unsupported_stream_mode": 400, "validation_error": 400, "interrupt_token_invalid": 401, "unauthenticated": 401,
		"credential_lifetime_exceeded": 401, "credential_forbidden": 403, "id_tenant_mismatch": 403, "run_forbidden": 403,
		"not_found": 404, "protocol_version_unsupported": 406, "run_already_active": 409, "run_terminal": 409,
		"run_state_conflict": 409, "interrupt_already_resolved": 409, "idempotency_key_mismatch": 409, "interrupt_expired": 410,
		"payload_too_large": 413, "fork_point_invalid": 422, "capability_required": 422, "residency_unavailable": 422,
		"client_version_unsupported": 426, "rate_limited": 429, "payload_unprojectable": 500, "credential_unavailable": 501,
		"pack_registry_unreachable": 503, "runner_unavailable": 503,
	} {
		e, ok := c.Error(code)
		require.True(t, ok, code)
		require.Equal(t, status, e.HTTPStatus, code)
	}
}

func TestEventRegistry(t *testing.T) {
	t.Parallel()
	c := mustLoad(t)
	events := c.Events()
	require.Len(t, events, 118)
	var artifacts, payloads, v1 []string
	for _, e := range events {
		assert.Regexp(t, `^[a-z]+(-[a-z]+)*\.[a-z]+(-[a-z]+)*$`, e.Type)
		assert.True(t, c.schemas.has(payloadSchema(e.Payload)), e.Type)
		assert.Contains(t, []string{"updates", "messages", "debug"}, e.Tier, e.Type)
		payloads = append(payloads, e.Payload)
		v1 = append(v1, e.V1)
		if e.Artifact {
			artifacts = append(artifacts, e.Type)
		}
	}
	// events.md §Types lists the domain.noun names.
	require.ElementsMatch(t, []string{"output.chunk", "provider.usage", "channel.presence", "agent.handoff", "envelope.refusal",
		"agent.reasoning-delta", "voice.synthesis-chunk", "voice.endpoint-candidate"}, artifacts)
	slices.Sort(v1)
	require.Equal(t, v1, slices.Compact(slices.Clone(v1)), "no version 1 name means two types")
	require.Len(t, v1, 118)
	// Every payload definition has an event type, shared helpers aside.
	for _, name := range c.SchemaNames() {
		if def, found := strings.CutPrefix(name, "run-event-payloads#/$defs/"); found && !strings.HasPrefix(def, "_") {
			assert.Contains(t, payloads, def)
		}
	}
	_, ok := c.Event("run.resuming")
	require.False(t, ok, "a version 1 name is no type")
}

func TestEventTiers(t *testing.T) {
	t.Parallel()
	c := mustLoad(t)
	for typ, tier := range map[string]string{
		"run.started": "updates", "run.paused": "updates", "node.completed": "updates", "node.suspended": "updates",
		"node.dispatched": "updates", "interrupt.requested": "updates", "artifact.created": "updates", "eval.scored": "updates",
		"deployment.promoted": "updates", "workspace.updated": "updates", "output.chunk": "messages", "log.appended": "debug",
		"variable.changed": "debug", "version.pinned": "debug", "lease.acquired": "debug", "node.retried": "debug", "node.started": "debug",
	} {
		e, ok := c.Event(typ)
		require.True(t, ok, typ)
		require.Equal(t, tier, e.Tier, typ)
	}
}

func TestSharedPayloads(t *testing.T) {
	t.Parallel()
	c := mustLoad(t)
	for _, typ := range []string{"lease.acquired", "lease.renewed", "lease.lost"} {
		e, _ := c.Event(typ)
		require.Equal(t, "leaseLifecycle", e.Payload)
	}
	for typ, v1 := range map[string]string{"run.resume-started": "run.resuming", "orchestrator.decided": "runOrchestrator.decided",
		"dispatch.fanned-out": "core.dispatch.fanOut", "agent.tool-called": "agent.toolCalled", "run.started": "run.started"} {
		e, _ := c.Event(typ)
		require.Equal(t, v1, e.V1)
		back, ok := c.EventFromV1(v1)
		require.True(t, ok)
		require.Equal(t, typ, back)
		there, ok := c.EventToV1(typ)
		require.True(t, ok)
		require.Equal(t, v1, there)
	}
}

func TestFamilies(t *testing.T) {
	t.Parallel()
	c := mustLoad(t)
	families := c.Families()
	root := schemaNode(t, "capabilities")
	members := root["properties"].(map[string]any)
	core := 0
	for _, f := range families {
		assert.Contains(t, []string{"witnessable-gated", "seam-gated", "claims-check"}, f.Witness, f.Key)
		assert.Contains(t, []string{"stable", "experimental"}, f.Status, f.Key)
		assert.True(t, slices.IsSorted(f.Facets), f.Key)
		_, atRoot := members[f.Key]
		assert.Equal(t, f.Anchor == "core", atRoot, "%s is anchored in %s", f.Key, f.Anchor)
		if f.Anchor == "core" {
			core++
			record := root["$defs"].(map[string]any)[f.Key].(map[string]any)["properties"].(map[string]any)
			var facets []string
			for name := range record {
				if !slices.Contains([]string{"status", "since", "until", "witness"}, name) {
					facets = append(facets, name)
				}
			}
			assert.ElementsMatch(t, f.Facets, facets, "%s: registry and schema name the same facets", f.Key)
		}
	}
	require.Equal(t, 73, core)
	require.Len(t, families, 86)
	require.Len(t, members, core+len(c.MetadataKeys()), "every member of the root is a family or a metadata key")
	for _, key := range c.MetadataKeys() {
		require.Contains(t, members, key)
		_, isFamily := c.Family(key)
		require.False(t, isFamily, key)
	}
	require.NotContains(t, c.MetadataKeys(), "supportedTransports")
	for _, key := range []string{"restTransport", "a2uiSurface"} {
		f, ok := c.Family(key)
		require.True(t, ok)
		require.Equal(t, "ext", f.Anchor)
	}
}

func TestProfiles(t *testing.T) {
	t.Parallel()
	c := mustLoad(t)
	profiles := c.Profiles()
	require.Len(t, profiles, 3)
	for _, p := range profiles {
		assert.NotEmpty(t, p.Summary)
		assert.NotEmpty(t, slices.Concat(p.Families, p.Metadata), "%s: an empty predicate is claimed by everybody", p.ID)
		for _, key := range p.Metadata {
			assert.Contains(t, c.MetadataKeys(), key)
		}
		for _, f := range p.Floor {
			assert.Regexp(t, `^v2-[a-z0-9-]+$`, f.Scenario)
		}
	}
}

func TestFloorAt(t *testing.T) {
	t.Parallel()
	c := mustLoad(t)
	core, ok := c.Profile("openwop-core-standard")
	require.True(t, ok)
	for version, count := range map[string]int{
		"1.9.9": 0, "2.0.0-rc.59": 13, "2.0.0": 13, "2.39.2": 13, "2.42.6": 13, "2.42.7": 14, "2.42.10": 14, "2.44.6": 14, "2.44.6+build.1": 14, "3.0.0": 14,
	} {
		floor, err := core.FloorAt(version)
		require.NoError(t, err, version)
		require.Len(t, floor, count, version)
		require.Equal(t, count == 14, slices.Contains(floor, "v2-sse-last-event-id-cursor"), version)
	}
	for _, version := range []string{"", "2", "2.0", "2.0.0.0", "2.x.0", "v2.0.0", "2.0.-1", "2.01.0", "2.0.0-", " 2.0.0", "99999999999.0.0"} {
		_, err := core.FloorAt(version)
		require.ErrorContains(t, err, "MAJOR.MINOR.PATCH", version)
	}
	for id, count := range map[string]int{"openwop-discovery-core": 3, "openwop-conformance-seams-v2": 4} {
		p, _ := c.Profile(id)
		floor, err := p.FloorAt("2.0.0")
		require.NoError(t, err)
		require.Len(t, floor, count)
	}
}

func TestOperations(t *testing.T) {
	t.Parallel()
	c := mustLoad(t)
	operations := c.Operations()
	require.Len(t, operations, 55)
	routes := map[string]bool{}
	for _, o := range operations {
		route := o.Method + " " + o.Path
		assert.False(t, routes[route], "%s is there twice", route)
		routes[route] = true
		assert.Contains(t, []string{"GET", "POST", "PUT", "DELETE"}, o.Method, o.ID)
		assert.True(t, strings.HasPrefix(o.Path, "/"), o.ID)
		assert.False(t, strings.HasPrefix(o.Path, "/v1") || strings.HasPrefix(o.Path, "/conformance"), "%s: no version and no seam in a path", o.ID)
		assert.Subset(t, o.RequestHeaders, []string{"OpenWOP-Version", "OpenWOP-Client-Version"}, o.ID)
		assert.Contains(t, o.ResponseHeaders, "OpenWOP-Version", o.ID)
		assert.True(t, slices.IsSorted(o.RequestHeaders) && slices.IsSorted(o.ResponseHeaders), o.ID)
		assert.Equal(t, slices.Contains(o.RequestHeaders, "Idempotency-Key"), slices.Contains(o.ResponseHeaders, "OpenWOP-Idempotent-Replay"), o.ID)
		assert.False(t, o.Method == "GET" && (o.Mutating || o.RequestBody), o.ID)
		assert.False(t, o.Method == "DELETE" && o.RequestBody, o.ID)
		for _, status := range o.Success {
			assert.True(t, status >= 200 && status < 400, "%s: success %d", o.ID, status)
		}
		for _, status := range o.Errors {
			assert.True(t, status >= 400, "%s: error %d", o.ID, status)
		}
		assert.NotEmpty(t, o.Success, o.ID)
		if o.Gate != "" {
			family, _, _ := strings.Cut(o.Gate, ".")
			f, ok := c.Family(family)
			assert.True(t, ok, "%s: gate %s", o.ID, o.Gate)
			if _, facet, dotted := strings.Cut(o.Gate, "."); dotted {
				first, _, _ := strings.Cut(facet, ".")
				assert.Contains(t, f.Facets, first, o.ID)
			}
			assert.Contains(t, o.Errors, 404, "%s: a gated operation nobody advertises answers 404", o.ID)
		}
	}
	require.Equal(t, []Channel{{"runEvents", "/runs/{runId}/events"}, {"hostEvents", "/host/events"}}, c.Channels())
}

// runs.md §Surface, row by row.
func TestRunSurface(t *testing.T) {
	t.Parallel()
	c := mustLoad(t)
	for _, row := range []struct{ id, route, scope, gate string }{
		{"createRun", "POST /runs", "runs:create", ""},
		{"getRun", "GET /runs/{runId}", "runs:read", ""},
		{"listRuns", "GET /runs", "runs:read", "runList"},
		{"streamRunEvents", "GET /runs/{runId}/events", "runs:read", ""},
		{"pollRunEvents", "GET /runs/{runId}/events/poll", "runs:read", ""},
		{"cancelRun", "POST /runs/{runId}/cancel", "runs:cancel", ""},
		{"bulkCancelRuns", "POST /runs:bulk-cancel", "runs:cancel", ""},
		{"pauseRun", "POST /runs/{runId}:pause", "runs:cancel", ""},
		{"resumeRun", "POST /runs/{runId}:resume", "runs:cancel", ""},
		{"forkRun", "POST /runs/{runId}:fork", "runs:create + runs:read", "replay"},
		{"diffRun", "GET /runs/{runId}:diff", "runs:read", ""},
		{"getRunAncestry", "GET /runs/{runId}/ancestry", "runs:read", "multiAgent.executionModel.crossHostCausation.ancestryEndpointSupported"},
		{"createAnnotation", "POST /runs/{runId}/annotations", "runs:annotate", "feedback"},
		{"listAnnotations", "GET /runs/{runId}/annotations", "runs:read", "feedback"},
		{"getArtifact", "GET /runs/{runId}/artifacts/{artifactId}", "artifacts:read", ""},
		{"getEvalSummary", "GET /runs/{runId}/eval-summary", "runs:read", "agents.evalSuite"},
		{"getRunCompensation", "GET /runs/{runId}/compensation", "runs:read", "compensation"},
		{"getRunEffects", "GET /runs/{runId}/effects", "runs:read", "idempotency"},
	} {
		o, ok := c.Operation(row.id)
		require.True(t, ok, row.id)
		assert.Equal(t, row.route, o.Method+" "+o.Path)
		assert.Equal(t, row.scope, o.Scope, row.id)
		assert.Equal(t, row.gate, o.Gate, row.id)
		assert.True(t, o.Authenticated, row.id)
	}
	var open []string
	for _, o := range c.Operations() {
		if !o.Authenticated {
			open = append(open, o.ID)
		}
	}
	require.ElementsMatch(t, []string{"getCapabilities", "getOpenApiSpec", "getContentPage", "inspectInterruptByToken", "resolveInterruptByToken"}, open)
}

func TestOrgsAndTrustAnchors(t *testing.T) {
	t.Parallel()
	c := mustLoad(t)
	require.Equal(t, []string{"example", "openwop-app", "myndhyve"}, c.Orgs())
	require.Equal(t, []string{"openwop", "vendor", "effect-seams", "events"}, c.ReservedOrgs())
	for _, org := range c.ReservedOrgs() {
		require.NotContains(t, c.Orgs(), org)
	}
	require.Len(t, c.TrustAnchorRequirements(), 7)
	for _, id := range c.TrustAnchorRequirements() {
		require.Regexp(t, `^openwop\.(requirement|scenario)\.`, id)
	}
	require.Len(t, c.CoherenceScenarios(), 59)
}

// What a caller does to a returned slice must not reach the next caller.
func TestReturnedSlicesBelongToTheCaller(t *testing.T) {
	t.Parallel()
	c := mustLoad(t)
	c.Errors()[0].Code = "x"
	c.SeamOperations()[0].Success[0] = 0
	c.Families()[0].Facets[0] = "x"
	c.Profiles()[1].Floor[0].Scenario = "x"
	c.Operations()[0].RequestHeaders[0] = "x"
	c.Orgs()[0], c.ReservedOrgs()[0], c.MetadataKeys()[0], c.TrustAnchorRequirements()[0], c.CoherenceScenarios()[0] = "x", "x", "x", "x", "x"
	c.Channels()[0].Name = "x"
	require.NotContains(t, c.SeamOperations()[0].Success, 0)
	for _, s := range [][]string{c.Families()[0].Facets, c.Operations()[0].RequestHeaders, c.Orgs(), c.ReservedOrgs(), c.MetadataKeys(),
		c.TrustAnchorRequirements(), c.CoherenceScenarios(), {c.Errors()[0].Code, c.Profiles()[1].Floor[0].Scenario, c.Channels()[0].Name}} {
		require.NotContains(t, s, "x")
	}
}
