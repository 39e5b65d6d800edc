package scenarios

import (
	"wopcert/harness"
	"wopcert/requirements"
)

// envelopeCatalog covers which kinds a host admits (events.md,
// "supportedEnvelopes").
func envelopeCatalog() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-envelope-catalog",
		Title:    "Only universal kinds and those of the catalog are admitted",
		Document: "events.md", Section: "supportedEnvelopes",
		Gates: []harness.Gate{harness.Advertises("supportedEnvelopes"), optIn(envelopeEmit)},
		Tests: []harness.Test{
			{
				Name:      "a kind outside the catalog is refused",
				Witnesses: []requirements.ID{requirements.EventsEnvelopeKindCatalog},
				Gates:     []harness.Gate{hasCatalog()},
				Run:       kindCatalog,
			},
			{
				Name:      "without a catalog only universal kinds are admitted",
				Witnesses: []requirements.ID{requirements.EventsEnvelopeCatalogAbsent},
				Gates: []harness.Gate{harness.HostFact("the host advertises a catalog, supportedEnvelopes.kinds",
					func(d *harness.Discovery) bool { _, ok := d.Facet("supportedEnvelopes", "kinds"); return !ok })},
				Run: catalogAbsent,
			},
		},
	}
}

func kindCatalog(t *harness.T) {
	needKinds(t, noteKind)
	unlisted := aiEnvelope(unlistedKind, -1, object{"title": "A note"})
	t.Expect(requirements.EventsEnvelopeKindCatalog, emit(t, envelopeEmit, note(t)).accepts("a kind of the catalog", 1))
	t.Expect(requirements.EventsEnvelopeKindCatalog, emit(t, envelopeEmit, unlisted).refuses(t, "a kind outside the catalog", unlisted, "unknown_envelope_kind"))
	e := emit(t, envelopeEmit, reportedError())
	t.Expect(requirements.EventsEnvelopeKindCatalog, harness.That(e.status == "completed" || e.status == "failed" && e.code != "unknown_envelope_kind",
		"a universal kind not refused for its kind", "a run %s", e.outcome()).At(e.log.last))
}

func catalogAbsent(t *harness.T) {
	needAccepted(t, emit(t, envelopeEmit, reportedError()))
	for _, envelope := range []object{note(t), memo()} {
		t.Expect(requirements.EventsEnvelopeCatalogAbsent, emit(t, envelopeEmit, envelope).refuses(t, "a kind that is not universal", envelope, ""))
	}
}

// envelopeVersions covers the schemaVersion of envelopes (events.md,
// "schemaVersions" and "envelopeStrictness").
func envelopeVersions() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-envelope-versions",
		Title:    "An envelope's version is held to the one the host advertises, upwards always and downwards as strictness says",
		Document: "events.md", Section: "schemaVersions",
		Gates: []harness.Gate{harness.Advertises("schemaVersions"), optIn(envelopeEmit)},
		Tests: []harness.Test{
			{
				Name:      "a version above the advertised one is refused",
				Witnesses: []requirements.ID{requirements.EventsEnvelopeVersionAbove},
				Run:       versionAboveFloor,
			},
			{
				Name:      "no stated mode is no licence to admit unchecked",
				Witnesses: []requirements.ID{requirements.EventsEnvelopeAbsentMode},
				Gates: []harness.Gate{hasCatalog(), strictness("the host states envelopeStrictness.mode", func(mode string) bool {
					return mode == ""
				})},
				Run: absentMode,
			},
			{
				Name:      "under warn an older envelope is judged by the advertised version",
				Witnesses: []requirements.ID{requirements.EventsEnvelopeDriftWarn},
				Gates: []harness.Gate{hasCatalog(), strictness("the host's envelopeStrictness.mode is not warn", func(mode string) bool {
					return mode == "" || mode == "warn"
				})},
				Run: driftUnderWarn,
			},
			{
				Name:      "under strict an older envelope is refused",
				Witnesses: []requirements.ID{requirements.EventsEnvelopeDriftStrict},
				Gates: []harness.Gate{hasCatalog(), strictness("the host's envelopeStrictness.mode is not strict", func(mode string) bool {
					return mode == "strict"
				})},
				Run: driftUnderStrict,
			},
		},
	}
}

// strictness gates on the mode a host states, "" where it states none.
func strictness(reason string, binds func(mode string) bool) harness.Gate {
	return harness.HostFact(reason, func(d *harness.Discovery) bool { return binds(strictnessMode(d)) })
}

// needFloor ends a test for which the host's advertised version of the note
// leaves nothing below it.
func needFloor(t *harness.T) int64 {
	needKinds(t, noteKind)
	floor := versionFloor(t, noteKind)
	if floor < 1 {
		t.Abort("nothing lies below the version of the fixture's kind: list %s with 2 under schemaVersions.kinds", noteKind)
	}
	return floor
}

func versionAboveFloor(t *harness.T) {
	if _, ok := catalog(t.Host().Discovery); ok {
		needKinds(t, noteKind)
	}
	above := []object{reportedError()}
	if catalogued(t, noteKind) {
		above = []object{note(t)}
		if catalogued(t, memoKind) {
			above = append(above, memo())
		}
	}
	t.Expect(requirements.EventsEnvelopeVersionAbove, emit(t, envelopeEmit, admissible(t)).accepts("the advertised version", 1))
	for _, envelope := range above {
		kind := envelope["type"].(string)
		envelope["schemaVersion"] = versionFloor(t, kind) + 1
		t.Expect(requirements.EventsEnvelopeVersionAbove,
			emit(t, envelopeEmit, envelope).refuses(t, kind+" above its version", envelope, "unknown_schema_version"))
	}
}

// misfit is a payload that no version of the note has.
func misfit() object { return object{"wrong": 1} }

func absentMode(t *harness.T) {
	floor := needFloor(t)
	needAccepted(t, emit(t, envelopeEmit, note(t)))
	envelope := aiEnvelope(noteKind, floor-1, misfit())
	t.Expect(requirements.EventsEnvelopeAbsentMode, emit(t, envelopeEmit, envelope).refuses(t, "an older envelope that does not fit", envelope, ""))
}

func driftUnderWarn(t *harness.T) {
	floor := needFloor(t)
	for _, version := range []int64{floor - 1, -1} {
		fits := aiEnvelope(noteKind, version, object{"title": "A note"})
		t.Expect(requirements.EventsEnvelopeDriftWarn, emit(t, envelopeEmit, fits).accepts("an older envelope that fits the advertised version", 1))
	}
	envelope := aiEnvelope(noteKind, floor-1, misfit())
	t.Expect(requirements.EventsEnvelopeDriftWarn, emit(t, envelopeEmit, envelope).refuses(t, "an older envelope that does not fit", envelope, ""))
}

func driftUnderStrict(t *harness.T) {
	floor := needFloor(t)
	needAccepted(t, emit(t, envelopeEmit, note(t)))
	for _, version := range []int64{floor - 1, -1} {
		envelope := aiEnvelope(noteKind, version, object{"title": "A note"})
		t.Expect(requirements.EventsEnvelopeDriftStrict,
			emit(t, envelopeEmit, envelope).refuses(t, "an older envelope that fits the advertised version", envelope, "unknown_schema_version"))
	}
}
