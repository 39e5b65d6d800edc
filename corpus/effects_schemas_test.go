package corpus

import "testing"

func TestEffectSchemas(t *testing.T) {
	t.Parallel()
	const (
		seam     = `{"seam":"http.fetch","kind":"http","guarded":true,"guardedBy":"the sender"}`
		manifest = `{"manifestVersion":"1","host":{"name":"h","build":{"kind":"commit","id":"c"}},"seams":[` + seam + `]}`
		effect   = `{"effectId":"acme/0123456789abcdef","nodeId":"pay","attempt":1,"keying":"business-identity","state":"completed","at":"2026-01-02T03:04:05Z"}`
		ledger   = `{"runId":` + runID + `,"effects":[` + effect + `]}`
		planned  = `{"nodeId":"pay","order":0}`
		attempt  = `{"nodeId":"pay","attempt":1,"outcome":"succeeded","at":"2026-01-02T03:04:05Z"}`
		unwind   = `{"runId":` + runID + `,"status":"completed","plan":[` + planned + `],"attempts":[` + attempt + `]}`
	)
	unknown := func(doc string) invalidCase { return invalidCase{closedDoc(doc), "", "additionalProperties"} }
	without := func(doc, member string) invalidCase { return invalidCase{edit(t, doc, member, ""), "", "required"} }
	checkSchemas(t, []schemaCase{
		{"effect-seam-manifest", []string{manifest, edit(t, manifest, `[`+seam+`]`, `[]`), edit(t, manifest, `"the sender"`, `"the sender","branchReFires":false,"note":""`),
			edit(t, manifest, `"http",`, `"smtp",`), edit(t, manifest, `"http","guarded":true`, `"other","note":"raw TCP","guarded":true`)},
			[]invalidCase{unknown(manifest), without(manifest, `"manifestVersion":"1",`), {edit(t, manifest, `:"1"`, `:"2"`), "/manifestVersion", "const"},
				{edit(t, manifest, `true`, `false`), "/seams/0/guarded", "const"}, {edit(t, manifest, `"the sender"`, `""`), "/seams/0/guardedBy", "minLength"},
				{edit(t, manifest, `"http",`, `"grpc",`), "/seams/0/kind", "enum"}, {edit(t, manifest, `"http",`, `"other",`), "/seams/0", "required"},
				{edit(t, manifest, `"http","guarded":true`, `"other","note":"","guarded":true`), "/seams/0/note", "minLength"},
				{edit(t, manifest, `http.fetch`, `fetch`), "/seams/0/seam", "pattern"}, {edit(t, manifest, `"commit"`, `"tag"`), "/host/build/kind", "enum"}}},
		{"effect-ledger-projection", []string{ledger, edit(t, ledger, `[`+effect+`]`, `[]`), edit(t, ledger, `"attempt":1`, `"attempt":2,"invocationId":"i","providerKey":"k"`), edit(t, ledger, `business-identity`, `activity-recipe`)},
			[]invalidCase{unknown(ledger), without(ledger, `"runId":`+runID+`,`), {edit(t, ledger, `"keying":"business-identity",`, ``), "/effects/0", "required"}, {edit(t, ledger, `"attempt":1`, `"attempt":0`), "/effects/0/attempt", "minimum"},
				{edit(t, ledger, `completed`, `done`), "/effects/0/state", "enum"}, {edit(t, ledger, `acme/0123456789abcdef","node`, `0123456789abcdef","node`), "/effects/0/effectId", "pattern"},
				{edit(t, ledger, `"attempt":1`, `"attempt":1,"request":{}`), "/effects/0", "additionalProperties"}, {edit(t, ledger, `05Z`, `05`), "/effects/0/at", "format"}}},
		{"compensation-projection", []string{unwind, `{"runId":` + runID + `,"status":"none","plan":[],"attempts":[]}`, edit(t, unwind, `"order":0`, `"order":3,"irreversibleEffect":true,"policy":{"triggers":["run-cancel"]}`),
			edit(t, unwind, `05Z"`, `05Z","reason":"r"`), edit(t, unwind, `"completed"`, `"manual-intervention"`)},
			[]invalidCase{unknown(unwind), without(unwind, `"status":"completed",`), {edit(t, unwind, `"completed"`, `"manual"`), "/status", "enum"}, {edit(t, unwind, `,"order":0`, ``), "/plan/0", "required"},
				{edit(t, unwind, `"succeeded"`, `"done"`), "/attempts/0/outcome", "enum"}, {edit(t, unwind, `"attempt":1`, `"attempt":0`), "/attempts/0/attempt", "minimum"}, {edit(t, unwind, `"order":0`, `"order":0,"policy":{}`), "/plan/0/policy", "required"}}},
	})
}
