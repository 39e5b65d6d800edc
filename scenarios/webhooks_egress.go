package scenarios

import (
	"net/http"

	"wopcert/harness"
	"wopcert/requirements"
)

// publicIPv4 is a public address that embedding forms are tried with. Its
// subscriptions are taken back at once and nothing is sent there.
const publicIPv4 = "93.184.215.14"

// webhookEgress: webhooks.md, "Egress".
func webhookEgress() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-webhook-egress-refusal",
		Title:    "No webhook leads into the host's own network",
		Document: "webhooks.md",
		Section:  "Egress",
		Gates:    []harness.Gate{harness.Advertises("webhooks")},
		Tests: []harness.Test{
			{Name: "addresses that are not public, or not https", Witnesses: []requirements.ID{requirements.R0171WebhookEgressRefused}, Run: func(t *harness.T) {
				unregister(t, projectID(registered(t).Text("webhookId")))
				for _, address := range []string{
					"http://wopcert.example/hook", "ftp://wopcert.example/hook", "https://localhost/hook", "https://LOCALHOST:8443/hook", "https://localhost./hook",
					"https://127.0.0.1/hook", "https://127.8.9.10:8443/hook", "https://[::1]/hook", "https://[0:0:0:0:0:0:0:1]/hook",
					"https://10.0.0.1/hook", "https://10.255.255.254/hook", "https://172.16.0.1/hook", "https://172.31.255.254/hook", "https://192.168.0.1/hook",
					"https://169.254.0.1/hook", "https://169.254.169.254/latest", "https://[fe80::1]/hook", "https://[febf::1]/hook",
					"https://[fd00::1]/hook", "https://[fc00::1]/hook", "https://metadata.google.internal/computeMetadata", "https://METADATA.google.internal./hook",
				} {
					t.Expect(requirements.R0171WebhookEgressRefused, refusedAddress(t, address))
				}
			}},
			{Name: "IPv4-mapped addresses", Witnesses: []requirements.ID{requirements.WebhooksEgressMapped}, Run: func(t *harness.T) {
				if takesPlainIPv4(t) {
					for _, address := range []string{
						"https://[::ffff:" + publicIPv4 + "]/hook", "https://[0:0:0:0:0:FFFF:" + publicIPv4 + "]/hook", "https://[::ffff:5db8:d70e]/hook",
					} {
						t.Expect(requirements.WebhooksEgressMapped, acceptedAddress(t, address))
					}
				} else {
					t.Inapplicable(requirements.WebhooksEgressMapped, noPlainIPv4)
				}
				for _, address := range []string{
					"https://[::ffff:10.0.0.1]/hook", "https://[::ffff:a00:1]/hook", "https://[::FFFF:0A00:0001]/hook", "https://[0:0:0:0:0:ffff:127.0.0.1]/hook",
					"https://[::ffff:7f00:1]/hook", "https://[::ffff:169.254.169.254]/hook", "https://[0000:0000:0000:0000:0000:ffff:c0a8:0001]/hook",
				} {
					t.Expect(requirements.WebhooksEgressMapped, refusedAddress(t, address))
				}
			}},
			{Name: "addresses in translation forms", Witnesses: []requirements.ID{requirements.WebhooksEgressTranslated}, Run: func(t *harness.T) {
				unregister(t, projectID(registered(t).Text("webhookId")))
				// One recommendation: a host that refuses all of them, or none, judges
				// nothing by what is in them.
				var checks []harness.Check
				if takesPlainIPv4(t) {
					for _, address := range []string{
						"https://[64:ff9b::" + publicIPv4 + "]/hook", "https://[2002:5db8:d70e::1]/hook",
					} {
						checks = append(checks, acceptedAddress(t, address))
					}
				} else {
					t.Inapplicable(requirements.WebhooksEgressTranslated, noPlainIPv4)
				}
				for _, address := range []string{
					"https://[::10.0.0.1]/hook", "https://[::a00:1]/hook", "https://[64:ff9b::10.0.0.1]/hook", "https://[64:ff9b::7f00:1]/hook",
					"https://[2002:a00:1::1]/hook", "https://[2002:7f00:1::]/hook", "https://[2002:a9fe:a9fe::1]/hook",
				} {
					checks = append(checks, refusedAddress(t, address))
				}
				t.Should(requirements.WebhooksEgressTranslated, harness.All(checks...))
			}},
			{Name: "ranges that are not globally reachable", Witnesses: []requirements.ID{requirements.WebhooksEgressSpecialPurpose}, Run: func(t *harness.T) {
				unregister(t, projectID(registered(t).Text("webhookId")))
				for _, address := range []string{
					"https://0.0.0.1/hook", "https://100.64.0.1/hook", "https://192.0.2.1/hook", "https://198.18.0.1/hook", "https://198.51.100.1/hook",
					"https://203.0.113.1/hook", "https://240.0.0.1/hook", "https://255.255.255.255/hook", "https://[::]/hook", "https://[100::1]/hook",
					"https://[2001:db8::1]/hook", "https://[2001:2::1]/hook",
				} {
					t.Should(requirements.WebhooksEgressSpecialPurpose, refusedAddress(t, address))
				}
			}},
		},
	}
}

// refusedAddress checks that a registration of an address is refused for it.
func refusedAddress(t *harness.T, address string) harness.Check {
	r := register(t, address)
	if id := r.Text("webhookId"); id != "" {
		unregister(t, projectID(id))
	}
	check := r.Refuses("webhook_url_rejected")
	check.Observed = address + " was answered " + check.Observed
	return check
}

const noPlainIPv4 = "the host takes no public IPv4 address as it is, so it need not take it in another form"

// takesPlainIPv4 reports whether a public IPv4 address, written as one, is
// accepted. Where it is not, the test still needs something that is.
func takesPlainIPv4(t *harness.T) bool {
	if acceptedAddress(t, "https://"+publicIPv4+"/hook").OK {
		return true
	}
	unregister(t, projectID(registered(t).Text("webhookId")))
	return false
}

func acceptedAddress(t *harness.T, address string) harness.Check {
	r := register(t, address)
	if id := r.Text("webhookId"); id != "" {
		unregister(t, projectID(id))
	}
	return harness.That(r.Is(http.StatusCreated).OK, "201 for the public address in "+address, "%s", answered(r)).At(r)
}
