package bundle_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"wopcert/bundle"
	"wopcert/bundle/bundletest"
	"wopcert/bundle/jcs"
	"wopcert/corpus"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func encoded(t *testing.T, b *bundle.Bundle) []byte {
	t.Helper()
	data, err := bundle.Encode(b)
	require.NoError(t, err)
	return data
}

func kinds(r *bundle.Report) []bundle.Kind {
	var found []bundle.Kind
	for _, rejection := range r.Rejections {
		found = append(found, rejection.Kind)
	}
	return found
}

func TestBuildSignVerify(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in       bundle.Input
		profiles []string
	}{
		"small": {bundletest.Small(), []string{bundletest.DiscoveryCore}},
		"full":  {bundletest.Full(), []string{bundletest.DiscoveryCore, bundletest.CoreStandard, bundletest.SeamsV2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := bundletest.Signed(c.in, bundletest.Key("host"))
			data := encoded(t, b)
			r := bundle.Verify(data, bundle.Options{})
			assert.Empty(t, r.Rejections)
			assert.Equal(t, bundle.Attributable, r.Attribution, r.AttributionReason)
			assert.Equal(t, c.profiles, r.CertifiedProfiles)
			assert.Equal(t, string(data), string(encoded(t, bundletest.Signed(c.in, bundletest.Key("host")))), "the same input gives the same bytes")
			assert.True(t, bundle.Verify(bundletest.TreeOf(b).Bytes(), bundle.Options{}).Sound, "so do the same members written otherwise")
		})
	}
}

func TestEphemeralKeyProvesIntegrityOnly(t *testing.T) {
	t.Parallel()
	key, err := bundle.NewEphemeralKey()
	require.NoError(t, err)
	r := bundle.Verify(encoded(t, bundletest.Signed(bundletest.Small(), key)), bundle.Options{})
	assert.True(t, r.Sound)
	assert.Equal(t, bundle.IntegrityOnly, r.Attribution)
	assert.Equal(t, bundle.CodeKeyNotPublished, r.AttributionCode)
	assert.Equal(t, []string{bundletest.DiscoveryCore}, r.CertifiedProfiles)
}

func TestBuildRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*bundle.Input)
		kind   bundle.Kind // "" for an error of another type
	}{
		"no rows":              {func(in *bundle.Input) { in.Rows, in.Claims = nil, nil }, bundle.KindSchema},
		"no discovery":         {func(in *bundle.Input) { in.Discovery = nil }, ""},
		"HTML discovery":       {func(in *bundle.Input) { in.Discovery = []byte("<html>") }, ""},
		"discovery array":      {func(in *bundle.Input) { in.Discovery = []byte("[]") }, ""},
		"duplicate discovery":  {func(in *bundle.Input) { in.Discovery = []byte(`{"a":1,"a":2}`) }, ""},
		"disposition":          {func(in *bundle.Input) { in.Rows[0].Result = "passed" }, ""},
		"negative assertions":  {func(in *bundle.Input) { in.Rows[0].Assertions = -1 }, ""},
		"not UTF-8":            {func(in *bundle.Input) { in.Rows[0].Detail = "partial-witness: \xff" }, ""},
		"duplicate row":        {func(in *bundle.Input) { in.Rows = append(in.Rows, in.Rows[3]) }, bundle.KindDuplicateRow},
		"vacuous pass":         {func(in *bundle.Input) { in.Rows[3].Assertions = 0 }, bundle.KindVacuousPass},
		"missing reason":       {func(in *bundle.Input) { in.Rows[4].Detail = "" }, bundle.KindMissingReason},
		"opted out":            {func(in *bundle.Input) { in.Rows[5].Detail = bundle.OptOutDetail("replay") }, bundle.KindOptedOutAdvertised},
		"opted out, sloppily":  {func(in *bundle.Input) { in.Rows[5].Detail = "Operator opt-out:eventlog" }, bundle.KindOptedOutAdvertised},
		"opted out of nothing": {func(in *bundle.Input) { in.Rows[5].Detail = "not run" }, bundle.KindOptOutUnnamed},
		"rung":                 {func(in *bundle.Input) { in.Rung = bundle.RungSingleInstance }, bundle.KindRungUnderivable},
		"duplicate claim": {func(in *bundle.Input) {
			in.Claims = append(in.Claims, bundle.Claim{ID: in.Claims[0].ID, EvidenceTier: "steward"})
		}, bundle.KindDuplicateProfile},
		"tier":                 {func(in *bundle.Input) { in.Claims[0].EvidenceTier = "gold" }, bundle.KindSchema},
		"host without a name":  {func(in *bundle.Input) { in.Host.Name = "" }, bundle.KindSchema},
		"build without an id":  {func(in *bundle.Input) { in.Host.Build.ID = "" }, ""},
		"build kind":           {func(in *bundle.Input) { in.Host.Build.Kind = "tag" }, bundle.KindSchema},
		"canary":               {func(in *bundle.Input) { in.Rows[4].Detail, in.Canaries = "saw cnry-42", []string{"cnry-42"} }, bundle.KindSecret},
		"canary in discovery":  {func(in *bundle.Input) { in.Canaries = []string{"standard-webhooks-1"} }, bundle.KindSecret},
		"bearer in a detail":   {func(in *bundle.Input) { in.Rows[4].Detail = "sent Authorization: Bearer a1b2c3d4e5f6g7h8" }, bundle.KindSecret},
		"evidence on a failed": {func(in *bundle.Input) { in.Rows[4].Evidence = bundletest.Recovery()[0].Evidence }, bundle.KindMisplacedEvidence},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := bundletest.Small()
			c.change(&in)
			_, err := bundle.Build(in)
			var rejected *bundle.RejectedError
			switch {
			case c.kind == "":
				assert.Error(t, err)
				assert.False(t, errors.As(err, &rejected), "%v", err)
			case assert.ErrorAs(t, err, &rejected):
				assert.Equal(t, c.kind, rejected.Rejections[0].Kind, "%v", err)
				assert.NotContains(t, err.Error(), "cnry-42")
			}
		})
	}
}

// What a run measured is written down also where it certifies nothing.
func TestBuildKeepsUnfavourableEvidence(t *testing.T) {
	t.Parallel()
	in := bundletest.Small()
	in.Discovery = []byte(`{"signingKeys":[],"protocolVersions":"2.0","x":1e16,"y":[1.50]}`)
	in.Rows = append(in.Rows, bundletest.NonPass("openwop.requirement.a.b", "v2-a", bundle.Blocked, "no second credential"))
	b := bundletest.Signed(in, bundletest.Key("host"))
	assert.Equal(t, []bundle.ClaimedProfile{{ID: bundletest.DiscoveryCore, EvidenceTier: "self", WitnessCount: 3}}, b.ClaimedProfiles)
	assert.Equal(t, 1, b.Results.Totals.Blocked)
	data := encoded(t, b)
	assert.Contains(t, string(data), "1e16", "the captured document keeps its numbers")
	r := bundle.Verify(data, bundle.Options{Require: []string{bundletest.DiscoveryCore}})
	assert.Empty(t, r.Rejections)
	assert.Empty(t, r.CertifiedProfiles)
	assert.Equal(t, []string{bundletest.DiscoveryCore}, r.MissingProfiles)
	assert.Len(t, r.Profiles[0].Reasons, 2, "%v", r.Profiles[0].Reasons)
}

// Any change to what is signed, made without the key, shows.
func TestEveryRowIsProtected(t *testing.T) {
	t.Parallel()
	original := bundletest.TreeOf(bundletest.Signed(bundletest.Full(), bundletest.Key("host"))).Bytes()
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var tree bundletest.Tree
		require.NoError(t, json.Unmarshal(original, &tree))
		rows := tree.Rows()
		row := rows[random.IntN(len(rows))].(map[string]any)
		var what string
		switch random.IntN(5) {
		case 0:
			what, row["scenario"] = "scenario", "another"
		case 1:
			what, row["detail"] = "detail", "partial-witness: another"
		case 2:
			what, row["id"] = "id", row["id"].(string)+"-x"
		case 3:
			what, row["assertions"] = "assertions", row["assertions"].(float64)+1
			tree["assertionCount"] = tree["assertionCount"].(float64) + 1
		case 4:
			what = "removal"
			removed := random.IntN(len(rows))
			tree.At("results")["requirements"] = append(rows[:removed:removed], rows[removed+1:]...)
		}
		r := bundle.Verify(tree.Bytes(), bundle.Options{})
		assert.Contains(t, kinds(r), bundle.KindWitnessDigest, "%s of %v", what, row["id"])
		assert.Empty(t, r.CertifiedProfiles)
	}
}

func TestUnsignedMembersAreNotBelieved(t *testing.T) {
	t.Parallel()
	tree := bundletest.TreeOf(bundletest.Signed(bundletest.Small(), bundletest.Key("host")))
	tree["claimedProfiles"] = append(tree["claimedProfiles"].([]any), map[string]any{
		"id": bundletest.CoreStandard, "evidenceTier": "self", "witnessCount": 0, "certified": true})
	tree.At("discovery")["preferredVersion"] = "9.9"
	r := bundle.Verify(tree.Bytes(), bundle.Options{})
	assert.Equal(t, []bundle.Kind{bundle.KindCertifiedUnderivable}, kinds(r))
	assert.Equal(t, bundletest.CoreStandard, r.Rejections[0].Profile)
	assert.Contains(t, strings.Join(r.Notes, "\n"), `discovery.preferredVersion is "9.9" and the captured document says "2.0"`)
}

func TestReadLimited(t *testing.T) {
	t.Parallel()
	data, err := bundle.ReadLimited(strings.NewReader("{}"))
	require.NoError(t, err)
	assert.Equal(t, "{}", string(data))
	_, err = bundle.ReadLimited(iotest.ErrReader(errors.New("gone")))
	assert.ErrorContains(t, err, "gone")
	data, err = bundle.ReadLimited(endless{})
	require.NoError(t, err)
	assert.Equal(t, []bundle.Kind{"json-size"}, kinds(bundle.Verify(data, bundle.Options{})))
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// Files made to cost the verifier are refused in a moment.
func TestHostileBundles(t *testing.T) {
	t.Parallel()
	tree := bundletest.TreeOf(bundletest.Signed(bundletest.Small(), bundletest.Key("host")))
	rows := func(n int, row string) []byte {
		text := tree.Bytes()
		mark := []byte(`"requirements":[`)
		i := bytes.Index(text, mark) + len(mark)
		return slicesConcat(text[:i], bytes.Repeat([]byte(row+","), n), text[i:])
	}
	many := bundletest.TreeOf(bundletest.Signed(bundletest.Small(), bundletest.Key("host")))
	var claims []any
	for i := range bundle.MaxClaims + 1 {
		claims = append(claims, map[string]any{"id": fmt.Sprintf("openwop-%d", i), "evidenceTier": "self", "witnessCount": 0, "certified": false})
	}
	many["claimedProfiles"] = claims
	const row = `{"id":"openwop.it.a.b","scenario":"s","result":"executed-pass","assertions":9007199254740991}`
	for name, c := range map[string]struct {
		data []byte
		kind bundle.Kind
	}{
		"values":          {slicesConcat([]byte("["), bytes.Repeat([]byte("0,"), bundle.MaxValues), []byte("0]")), bundle.KindTooLarge},
		"rows":            {rows(bundle.MaxRows+1, row), bundle.KindTooLarge},
		"duplicate rows":  {rows(10_000, row), bundle.KindDuplicateRow},
		"rows of nothing": {rows(10_000, `{}`), bundle.KindSchema},
		"claims":          {many.Bytes(), bundle.KindTooLarge},
		"one long string": {slicesConcat([]byte(`{"bundleVersion":"`), bytes.Repeat([]byte("a"), 8<<20), []byte(`"}`)), bundle.KindBundleVersion},
		"one long number": {slicesConcat([]byte(`{"bundleVersion":`), bytes.Repeat([]byte("9"), 8<<20), []byte(`}`)), "json-unsafe-integer"},
		"brackets":        {bytes.Repeat([]byte("["), 200_000), "json-depth"},
		"NUL bytes":       {make([]byte, 1<<20), "json-syntax"},
	} {
		start := time.Now()
		r := bundle.Verify(c.data, bundle.Options{})
		t.Logf("%s: %d bytes in %v", name, len(c.data), time.Since(start))
		assert.Less(t, time.Since(start), 20*time.Second, name)
		if assert.NotEmpty(t, r.Rejections, name) {
			assert.Equal(t, c.kind, r.Rejections[0].Kind, name)
		}
		assert.Less(t, len(r.Rejections), 200, name)
		for _, rejection := range r.Rejections {
			assert.Less(t, len(rejection.Detail), 2000, name)
		}
		assert.False(t, r.Sound, name)
	}
}

func slicesConcat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func TestSecretsAreFoundAndNotRepeated(t *testing.T) {
	t.Parallel()
	const secret = "ow2.c2VjcmV0LXRva2Vu"
	in := bundletest.Small()
	b := bundletest.Signed(in, bundletest.Key("host"))
	tree := bundletest.TreeOf(b)
	tree.At("host")["name"] = secret
	tree.At("host")["relaxations"] = []any{map[string]any{"obligation": secret, "durability": "session", "reason": "can-ary"}}
	tree.Row("openwop.requirement.forms.resolve")["detail"] = bundle.OptOutDetail("can-ary") + " Bearer " + strings.Repeat("a1", 10)
	r := bundle.Verify(tree.Bytes(), bundle.Options{Canaries: []string{"can-ary", ""}})
	assert.Contains(t, kinds(r), bundle.KindSecret)
	text, err := json.Marshal(r)
	require.NoError(t, err)
	for _, leak := range []string{secret, "can-ary", "a1a1a1"} {
		assert.NotContains(t, string(text), leak)
	}
	// A schema violation or a duplicate member repeats no secret either.
	for _, data := range []string{`{"bundleVersion":"3","` + secret + `":1}`, `{"` + secret + `":1,"` + secret + `":2}`} {
		text, err = json.Marshal(bundle.Verify([]byte(data), bundle.Options{}))
		require.NoError(t, err)
		assert.NotContains(t, string(text), secret)
	}
}

func TestProseIsNoSecret(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"the bearer authentication-challenge was refused", "a bearer credential-interrupt-is-raised here", "testKeyPrefix ow2k_",
		"authorization: required by the host", "WWW-Authenticate: Bearer realm=\"x\"", "ow2. is the prefix", "eyJ is how a token begins",
		"the private key is PEM", "bearer.test.ts", "401 without Authorization", "basic authentication is refused",
		"Basic dGVzdA==", "Authorization: Bearer [redacted:key]", "authorization: required, see RFC 9110 §11.6.2",
		"Authorization: openwop.requirement.0198.task-get-read-only", "http://127.0.0.1:3838/a@b", "spiffe://example/a:b@c",
		"https://user@host.example/", "https://user:***@host.example/", "https://user:[redacted:key]@host.example/",
		"task-survives-disconnect-after-20-seconds", "sk-is-no-key-by-itself-here", "AKIA begins a key", "xoxb- begins a token",
		"ghp_ and github_pat_ begin tokens", "ow2k_ begins test keys, ow2k_short too",
	} {
		in := bundletest.Small()
		in.Discovery = bundletest.Encode(withTestKeys("ow2k_"))
		in.Rows[4].Detail = text
		_, err := bundle.Build(in)
		assert.NoError(t, err, text)
	}
}

func TestOptOutsNobodyNamesAreNoted(t *testing.T) {
	t.Parallel()
	in := bundletest.Small()
	in.Rows[5].ID = "openwop.scenario.v2-forms"
	in.Rows[5].Detail = "operator opted the profile or family out (OPENWOP_OPTED_OUT_PROFILES)"
	r := bundle.Verify(encoded(t, bundletest.Signed(in, bundletest.Key("host"))), bundle.Options{})
	assert.True(t, r.Sound)
	assert.Empty(t, r.OptOuts)
	assert.Contains(t, strings.Join(r.Notes, "\n"), "1 skipped rows name nothing the operator opted out of")
}

func TestFloorNoteSaysWhatHasGrown(t *testing.T) {
	t.Parallel()
	in := bundletest.Full()
	in.Suite.SpecArtifactsVersion, in.Suite.Version = "2.42.6", "0.1.0"
	in.Rows = append(bundletest.Floor("2.42.6", bundletest.DiscoveryCore, bundletest.CoreStandard, bundletest.SeamsV2), bundletest.Recovery()...)
	r := bundle.Verify(encoded(t, bundletest.Signed(in, bundletest.Key("host"))), bundle.Options{})
	assert.Len(t, r.CertifiedProfiles, 3)
	assert.Contains(t, strings.Join(r.Notes, "\n"), "has grown by v2-sse-last-event-id-cursor, which this bundle does not carry; today's floor is that of "+corpus.SpecArtifactsVersion)
}

func TestUnreadableDiscoveryDocument(t *testing.T) {
	t.Parallel()
	data := encoded(t, bundletest.Signed(bundletest.Small(), bundletest.Key("host")))
	for name, document := range map[string]string{"not JSON": "<html>", "not an object": "[]", "duplicate": `{"a":1,"a":1}`} {
		r := bundle.Verify(data, bundle.Options{Discovery: &bundle.DiscoverySource{Origin: "url", Location: "https://host.example", Document: []byte(document)}})
		assert.True(t, r.Sound, name)
		assert.Equal(t, bundle.IntegrityOnly, r.Attribution, name)
		assert.Equal(t, bundle.CodeDocumentUnreadable, r.AttributionCode, name)
		assert.Equal(t, "url", r.AttributionSource, name)
	}
}

func TestReportIsReadyForJSON(t *testing.T) {
	t.Parallel()
	for _, data := range []string{"", "{}", `{"bundleVersion":"2"}`, string(encoded(t, bundletest.Signed(bundletest.Small(), bundletest.Key("host"))))} {
		text, err := json.Marshal(bundle.Verify([]byte(data), bundle.Options{}))
		require.NoError(t, err)
		var members map[string]any
		require.NoError(t, json.Unmarshal(text, &members))
		for _, name := range []string{"rejections", "certifiedProfiles", "profiles", "notes"} {
			assert.IsType(t, []any{}, members[name], name)
		}
		for _, name := range []string{"bundleVersion", "attribution", "attributionReason"} {
			assert.IsType(t, "", members[name], name)
		}
		assert.IsType(t, true, members["sound"])
	}
}

// FuzzVerify holds what is true of every report, whatever the bytes are.
func FuzzVerify(f *testing.F) {
	small := bundletest.TreeOf(bundletest.Signed(bundletest.Small(), bundletest.Key("host"))).Bytes()
	for _, seed := range [][]byte{small, small[:len(small)/2], []byte(`{"bundleVersion":"3"}`), []byte(`{"bundleVersion":"2"}`), []byte("[]"), nil} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bundle.Verify(data, bundle.Options{CompanionOf: data, Canaries: []string{"canary"}})
		if r.Sound != (len(r.Rejections) == 0) {
			t.Fatalf("sound is %v with %v", r.Sound, r.Rejections)
		}
		if !r.Sound && len(r.CertifiedProfiles) > 0 {
			t.Fatalf("rejected, and certifies %v", r.CertifiedProfiles)
		}
		if r.Sound && (r.BundleVersion != "3" || r.Attribution == bundle.NotAttested || jcs.Check(data) != nil) {
			t.Fatalf("sound, and version %q, %s", r.BundleVersion, r.Attribution)
		}
		if r.AttributionReason == "" || r.AttributionCode == "" {
			t.Fatal("no reason for the attribution")
		}
		for _, rejection := range r.Rejections {
			if rejection.Kind == "" || rejection.Detail == "" {
				t.Fatalf("an empty rejection: %+v", rejection)
			}
		}
	})
}
