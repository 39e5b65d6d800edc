package scenarios

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"wopcert/bundle"
	"wopcert/corpus"
	"wopcert/harness"
	"wopcert/requirements"
)

// relaxationRecorded: security-defaults.md, "The rule" and "Relaxations".
func relaxationRecorded() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-relaxation-recorded",
		Title:    "What an operator relaxes is recorded, for what it is, and not advertised",
		Document: "security-defaults.md",
		Section:  "Relaxations",
		Tests: []harness.Test{
			{
				Name:      "webhooks to addresses of denied ranges",
				Witnesses: []requirements.ID{requirements.R0173RelaxationRecorded},
				Gates:     []harness.Gate{harness.Advertises("webhooks")},
				Run:       egressRelaxationRecorded,
			},
			{
				Name: "the recorded relaxations",
				Witnesses: []requirements.ID{requirements.R0173RelaxationRecordedDurabilityClosed,
					requirements.R0173RelaxationRecordedOwnedByRegistry, requirements.SecurityDefaultsRelaxedSurfaceUnadvertised},
				Gates:  []harness.Gate{harness.RunsRelaxed()},
				Public: true,
				Run: func(t *harness.T) {
					for _, r := range t.Relaxations() {
						t.Expect(requirements.R0173RelaxationRecordedDurabilityClosed, closedDurability(r))
						t.Expect(requirements.R0173RelaxationRecordedOwnedByRegistry, owned(t.Corpus(), r))
						t.Expect(requirements.SecurityDefaultsRelaxedSurfaceUnadvertised, harness.That(!t.Host().Discovery.Advertises(surfaceOf(r)),
							"no surface advertised of which an obligation is relaxed", "%s advertised, and %q relaxed", surfaceOf(r), r.Obligation))
					}
				},
			},
		},
	}
}

// surfaceOf is the surface that an obligation belongs to: what it begins with.
func surfaceOf(r bundle.Relaxation) string {
	surface, _, _ := strings.Cut(r.Obligation, ".")
	return surface
}

func closedDurability(r bundle.Relaxation) harness.Check {
	return harness.That(slices.Contains([]string{"session", "deployment", "persisted"}, r.Durability) && strings.TrimSpace(r.Reason) != "",
		"durability session, deployment or persisted, and a reason", "durability %q and reason %q of %q", r.Durability, r.Reason, r.Obligation)
}

func owned(c *corpus.Corpus, r bundle.Relaxation) harness.Check {
	surface := surfaceOf(r)
	_, family := c.Family(surface)
	_, profile := c.Profile(r.Obligation)
	return harness.That(family || profile || slices.Contains(c.MetadataKeys(), surface),
		"an obligation that begins with a registered surface, as in webhooks.egress-guard", "obligation %q", r.Obligation)
}

// egressRelaxationRecorded registers webhooks where a guarded host lets none be
// registered. The addresses lead nowhere.
func egressRelaxationRecorded(t *harness.T) {
	recorded := slices.ContainsFunc(t.Relaxations(), func(r bundle.Relaxation) bool { return surfaceOf(r) == "webhooks" })
	for _, address := range deniedAddresses(t) {
		r := t.Do(harness.Request{Method: http.MethodPost, Path: "/webhooks",
			Body: object{"url": address, "events": []string{"run.completed"}, "secret": t.SigningSecret(0)}})
		if id := r.Text("webhookId"); r.Status == http.StatusCreated && id != "" {
			t.Do(harness.Request{Method: http.MethodDelete, Path: "/webhooks/" + projectID(id)})
			t.Expect(requirements.R0173RelaxationRecorded, harness.That(recorded,
				"a registration refused, or a recorded relaxation that begins with webhooks", "201 for %s, and %s", address, relaxationsText(t.Relaxations())).At(r))
			continue
		}
		if !r.Refuses("webhook_url_rejected").OK {
			t.Abort("registerWebhook for %s neither registered it nor refused the address: %s", address, answered(r))
		}
		t.Expect(requirements.R0173RelaxationRecorded, r.Refuses("webhook_url_rejected"))
	}
}

func relaxationsText(list []bundle.Relaxation) string {
	if len(list) == 0 {
		return "no relaxation recorded"
	}
	var out []string
	for _, r := range list {
		out = append(out, fmt.Sprintf("%q", r.Obligation))
	}
	return "recorded " + strings.Join(out, ", ")
}

// deniedAddresses are webhook addresses of denied ranges (webhooks.md,
// "Egress"), the suite's own receiver among them where it has one there.
func deniedAddresses(t *harness.T) []string {
	out := []string{"https://127.0.0.1:1/wopcert", "https://10.255.255.254:1/wopcert", "https://169.254.169.254/wopcert"}
	if u := t.Receiver(); u != nil && denied(u) {
		out = append(out, u.String()+"/wopcert")
	}
	return out
}

// denied reports whether an address is of a denied range as it is written.
func denied(u *url.URL) bool {
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && (ip.Unmap().IsLoopback() || ip.Unmap().IsPrivate() || ip.Unmap().IsLinkLocalUnicast())
}
