package scenarios

import (
	"wopcert/harness"
	"wopcert/requirements"
)

// capabilitiesRootClosed: capabilities.md §3, "The closed root", with §1 and §7
// where they say what the root must not hold.
func capabilitiesRootClosed() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-capabilities-root-closed",
		Title:    "The discovery document of major 2 is a closed object of registered members",
		Document: "capabilities.md",
		Section:  "3. The closed root",
		Tests: []harness.Test{{
			Name:   "the captured root",
			Public: true,
			Witnesses: []requirements.ID{
				requirements.R0169CapabilitiesRootClosedValid,
				requirements.R0169CapabilitiesRootClosedUnknownRootKey,
				requirements.R0169CapabilitiesRootClosedDottedKey,
				requirements.R0169CapabilitiesRootClosedWrapper,
				requirements.R0169CapabilitiesRootClosedProfiles,
			},
			Run: func(t *harness.T) {
				c, doc := t.Corpus(), t.Host().Discovery.Document
				t.Expect(requirements.R0169CapabilitiesRootClosedValid, rootMembers(c, doc))
				t.Expect(requirements.R0169CapabilitiesRootClosedUnknownRootKey, unknownRootKeys(c, doc))
				t.Expect(requirements.R0169CapabilitiesRootClosedDottedKey, dottedRootKeys(doc))
				t.Expect(requirements.R0169CapabilitiesRootClosedWrapper, wrappedRoot(c, doc))
				t.Expect(requirements.R0169CapabilitiesRootClosedProfiles, profilesAtRoot(doc))
			},
		}},
	}
}

// capabilityRecordShape: capabilities.md §2, "The capability record".
func capabilityRecordShape() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-capability-record-shape",
		Title:    "Every advertised family is a record that says how stable it is and until when",
		Document: "capabilities.md",
		Section:  "2. The capability record",
		Tests: []harness.Test{{
			Name:   "the captured records",
			Public: true,
			Witnesses: []requirements.ID{
				requirements.R0169CapabilityRecordShapeRequiredFields,
				requirements.R0169CapabilityRecordShapeUntilIffNotStable,
				requirements.R0169CapabilityRecordShapeUntilNotPast,
			},
			Run: func(t *harness.T) {
				c, d := t.Corpus(), t.Host().Discovery
				if len(advertisedFamilies(c, d.Document)) == 0 {
					const fact = "the host advertises no capability family"
					t.Inapplicable(requirements.R0169CapabilityRecordShapeRequiredFields, fact)
					t.Inapplicable(requirements.R0169CapabilityRecordShapeUntilIffNotStable, fact)
					t.Inapplicable(requirements.R0169CapabilityRecordShapeUntilNotPast, fact)
					return
				}
				t.Expect(requirements.R0169CapabilityRecordShapeRequiredFields, recordFields(c, d.Document))
				if ends := untils(c, d.Document); len(ends) > 0 {
					t.Expect(requirements.R0169CapabilityRecordShapeUntilNotPast, untilAhead(ends, d.Versions(), d.CapturedAt))
				} else {
					t.Inapplicable(requirements.R0169CapabilityRecordShapeUntilNotPast, "no capability record of the host has an until")
				}
				records := recordsWithStatus(c, d.Document)
				if len(records) == 0 {
					t.Abort("no capability record has a legal status, so none says whether it ends")
				}
				t.Expect(requirements.R0169CapabilityRecordShapeUntilIffNotStable, untilByStatus(records))
			},
		}},
	}
}

// noTransportAdvertisement: capabilities.md §4, "Deleted keys".
func noTransportAdvertisement() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-no-transport-advertisement",
		Title:    "The discovery document advertises nothing that version 2 deleted",
		Document: "capabilities.md",
		Section:  "4. Deleted keys",
		Tests: []harness.Test{{
			Name:      "the captured document",
			Public:    true,
			Witnesses: []requirements.ID{requirements.R0175NoTransportAdvertisement},
			Run: func(t *harness.T) {
				t.Expect(requirements.R0175NoTransportAdvertisement, deletedAdvertisements(t.Host().Discovery.Document))
			},
		}},
	}
}
