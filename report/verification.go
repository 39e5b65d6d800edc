package report

import (
	"fmt"
	"io"
	"strings"

	"wopcert/bundle"
)

// Verification writes what a verifier found for a person.
func Verification(w io.Writer, name string, r *bundle.Report) {
	w = cleaner{w}
	switch {
	case r.Older():
		fmt.Fprintf(w, "BUNDLE VERSION %s  %s\n", r.BundleVersion, name)
	case r.Sound:
		fmt.Fprintf(w, "SOUND  %s\n", name)
	default:
		fmt.Fprintf(w, "REJECTED  %s\n", name)
	}
	if r.Host != nil && r.Suite != nil {
		fmt.Fprintf(w, "  host         %s %s, build %s %s\n", r.Host.Name, r.Host.Version, r.Host.Build.Kind, r.Host.Build.ID)
		fmt.Fprintf(w, "  suite        %s %s, contract %s\n", r.Suite.Name, r.Suite.Version, r.Suite.SpecArtifactsVersion)
	}
	if t := r.Totals; t != nil {
		fmt.Fprintf(w, "  rows         %d passed, %d failed, %d blocked, %d inapplicable, %d skipped\n",
			t.ExecutedPass, t.ExecutedFail, t.Blocked, t.Inapplicable, t.Skipped)
	}
	if r.Host != nil {
		for _, x := range r.Host.Relaxations {
			fmt.Fprintf(w, "  relaxed      %s (%s): %s\n", x.Obligation, x.Durability, x.Reason)
		}
	}
	for _, j := range r.Rejections {
		fmt.Fprintf(w, "  rejected     %s: %s%s\n", j.Kind, j.Detail, about(j))
	}
	fmt.Fprintf(w, "  attribution  %s: %s\n", r.Attribution, r.AttributionReason)
	for _, p := range r.Profiles {
		if p.Certified && r.Sound {
			fmt.Fprintf(w, "  certifies    %s (%d of %d floor scenarios witnessed, tier %s)\n", p.ID, p.WitnessCount, len(p.Floor), p.EvidenceTier)
			continue
		}
		reasons := strings.Join(p.Reasons, "; ")
		if reasons == "" {
			reasons = "the evidence is not sound"
		}
		fmt.Fprintf(w, "  not          %s: %s\n", p.ID, reasons)
	}
	for _, id := range r.MissingProfiles {
		fmt.Fprintf(w, "  required     %s is not certified\n", id)
	}
	if d := r.Durability; d != nil {
		fmt.Fprintf(w, "  durability   %s: %s\n", d.Claimed, derived(d.Derived, "derived from the rows", d.Reasons))
	}
	if c := r.Companion; c != nil {
		fmt.Fprintf(w, "  companion    %s\n", derived(c.Paired, fmt.Sprintf("paired; evidence for %s; %d other passes count toward nothing",
			orNone(c.Evidence), c.Discarded), c.Reasons))
	}
	for _, n := range r.Notes {
		fmt.Fprintf(w, "  note         %s\n", n)
	}
}

// derived says that something holds, or why it does not.
func derived(ok bool, yes string, reasons []string) string {
	if ok {
		return yes
	}
	return "not derivable: " + strings.Join(reasons, "; ")
}

func orNone(ids []string) string {
	if len(ids) == 0 {
		return "no requirement"
	}
	return strings.Join(ids, ", ")
}

// about names the row or profile a rejection is about, unless its text does.
func about(j bundle.Rejection) string {
	for _, id := range []string{j.Requirement, j.Profile} {
		if id != "" && !strings.Contains(j.Detail, id) {
			return " (" + id + ")"
		}
	}
	return ""
}
