package bundle

import (
	"slices"
	"strings"

	"wopcert/corpus"
)

// checkClaims derives every claimed profile and rejects claims that say more than the evidence.
func checkClaims(c *collector, l ledger, p *parsed) {
	seen := map[string]bool{}
	for _, claim := range p.ClaimedProfiles {
		at := Rejection{Profile: claim.ID}
		if seen[claim.ID] {
			at.Kind = KindDuplicateProfile
			c.add(at, "%s is claimed twice", claim.ID)
			continue
		}
		seen[claim.ID] = true
		d := l.derive(claim)
		c.report.Profiles = append(c.report.Profiles, d)
		if d.Certified {
			c.report.CertifiedProfiles = append(c.report.CertifiedProfiles, claim.ID)
		}
		switch {
		case claim.Certified && !d.Certified && d.uncontradicted:
			c.note("%s is claimed as certified, and this bundle cannot show it: %s", claim.ID, d.Reasons[0])
		case claim.Certified && !d.Certified:
			at.Kind = KindCertifiedUnderivable
			c.add(at, "%s is claimed as certified: %s", claim.ID, summary(d.Reasons))
		case !claim.Certified && d.Certified:
			c.note("%s is claimed as not certified, and the evidence certifies it", claim.ID)
		}
		_, known := l.corpus.Profile(claim.ID)
		switch {
		case known && claim.WitnessCount > d.WitnessCount:
			at.Kind = KindWitnessCount
			c.add(at, "%s claims %d witnessed floor rows; the bundle has %d", claim.ID, claim.WitnessCount, d.WitnessCount)
		case known && claim.WitnessCount < d.WitnessCount:
			c.note("%s claims %d witnessed floor rows; the bundle has %d", claim.ID, claim.WitnessCount, d.WitnessCount)
		}
		noteFloor(c, l, d)
	}
}

func summary(reasons []string) string {
	const most = 3
	if len(reasons) <= most {
		return strings.Join(reasons, "; ")
	}
	return strings.Join(reasons[:most], "; ") + "; and more"
}

// noteFloor says where the floor of the contract this program states asks for more than the bundle's own.
func noteFloor(c *collector, l ledger, d Derivation) {
	profile, known := l.corpus.Profile(d.ID)
	if !known {
		return
	}
	if _, err := profile.FloorAt(l.suite.SpecArtifactsVersion); err != nil {
		return // no floor was chosen, so none has grown; the derivation says so
	}
	today, err := profile.FloorAt(corpus.SpecArtifactsVersion)
	if err != nil {
		return
	}
	for _, scenario := range today {
		if slices.Contains(d.Floor, scenario) {
			continue
		}
		row, ok := l.rows[FloorRowID(scenario)]
		if !ok {
			row, ok = l.rows[ScenarioRowID(scenario)]
		}
		state := "which this bundle does not carry"
		if ok {
			state = "which is " + string(row.Result) + " here"
		}
		c.note("since the bundle's contract version %s the floor of %s has grown by %s, %s; today's floor is that of %s",
			l.suite.SpecArtifactsVersion, d.ID, scenario, state, corpus.SpecArtifactsVersion)
	}
}

// noteRun repeats what a reader should weigh and no rule decides.
func noteRun(c *collector, p *parsed, totals Totals) {
	if n := totals.Blocked; n > 0 {
		c.note("%d rows are blocked: the suite lacked something it needed, and a bundle with a blocked row certifies nothing", n)
	}
	if n := totals.ExecutedFail; n > 0 {
		c.note("%d rows failed; only those on a profile's floor deny that profile", n)
	}
	if len(p.ClaimedProfiles) == 0 {
		c.note("the bundle claims no profile, so it certifies none")
	}
	if p.Host.Build.unstated() {
		c.note("host.build.id is %q: the bundle does not say which build of the host it is about", p.Host.Build.ID)
	}
	noteNewerContract(c, p.Suite)
	for _, r := range p.Host.Relaxations {
		c.note("the host ran with %q relaxed (%s): %s", r.Obligation, r.Durability, r.Reason)
	}
	for _, tier := range []string{TierSelf, TierSteward, TierIndependent} {
		if slices.ContainsFunc(p.ClaimedProfiles, func(claim ClaimedProfile) bool { return claim.EvidenceTier == tier }) {
			c.note("evidence tier: %s", tier)
		}
	}
	if p.document != nil {
		noteSummary(c, p)
	}
}

// noteSummary compares the members of discovery that repeat the document, which are not signed, with it.
func noteSummary(c *collector, p *parsed) {
	if preferred, _ := p.document["preferredVersion"].(string); preferred != p.Discovery.PreferredVersion {
		c.note("discovery.preferredVersion is %q and the captured document says %q; the document counts", p.Discovery.PreferredVersion, preferred)
	}
	var versions []string
	list, _ := p.document["protocolVersions"].([]any)
	for _, item := range list {
		text, _ := item.(string)
		versions = append(versions, text)
	}
	if !slices.Equal(versions, p.Discovery.ProtocolVersions) {
		c.note("discovery.protocolVersions are %v and the captured document says %v; the document counts", p.Discovery.ProtocolVersions, versions)
	}
}
