package scenarios

import (
	"wopcert/harness"
	"wopcert/requirements"
)

// aiOptions: runs.md, "ai section".
func aiOptions() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-ai-options",
		Title:    "A provider, a credential and a mock that a run may not use are refused",
		Document: "runs.md",
		Section:  "ai section",
		Gates:    []harness.Gate{endingFixtures()},
		Tests: []harness.Test{
			{
				Name:      "a provider the host does not list",
				Witnesses: []requirements.ID{requirements.RunsProviderUnlistedRefused},
				Run: func(t *harness.T) {
					control(t, harness.Primary, withAI(endingBody(t), nil))
					body, tag := tagged(withAI(endingBody(t), object{"provider": "wopcert-no-such-provider"}))
					t.Expect(requirements.RunsProviderUnlistedRefused, create(t, body).Refuses("validation_error"))
					t.Expect(requirements.RunsProviderUnlistedRefused, noRunTagged(t, harness.Primary, tag))
					// A listed one may be refused for other reasons, as for want of a key.
					for _, provider := range firstOf(2, providers(t.Host().Discovery)) {
						r := create(t, withAI(endingBody(t), object{"provider": provider}))
						t.Expect(requirements.RunsProviderUnlistedRefused, harness.That(r.Err == nil && !r.Refuses("validation_error").OK,
							"a provider of aiProviders.providers not refused as one that is not", "the provider %s was answered %s", provider, answered(r)).At(r))
					}
				},
			},
			{
				Name:      "a credential of no provider",
				Witnesses: []requirements.ID{requirements.RunsCredentialRefRefused},
				Run: func(t *harness.T) {
					control(t, harness.Primary, withAI(endingBody(t), nil))
					body, tag := tagged(withAI(endingBody(t), object{"credentialRef": "wopcert-no-such-provider:none"}))
					t.Expect(requirements.RunsCredentialRefRefused, create(t, body).Refuses("credential_forbidden"))
					t.Expect(requirements.RunsCredentialRefRefused, noRunTagged(t, harness.Primary, tag))
				},
			},
			{
				Name:      "a mock provider under a production key",
				Witnesses: []requirements.ID{requirements.RunsMockProviderRefused},
				Gates: []harness.Gate{
					harness.HostFact("the host advertises no mock provider", func(d *harness.Discovery) bool { return len(mockProviders(d)) > 0 }),
					harness.NeedsCredential(harness.Production),
				},
				Run: func(t *harness.T) {
					control(t, harness.Production, withAI(endingBody(t), nil))
					mock := object{"id": mockProviders(t.Host().Discovery)[0], "config": object{}}
					body, tag := tagged(withAI(endingBody(t), object{"mockProvider": mock}))
					t.Expect(requirements.RunsMockProviderRefused, createAs(t, harness.Production, body).Refuses("mock_provider_forbidden"))
					t.Expect(requirements.RunsMockProviderRefused, noRunTagged(t, harness.Production, tag))
				},
			},
		},
	}
}

// withAI is a body with an ai section, or with no section where there is none.
func withAI(body, ai object) object {
	if ai == nil {
		return with(body, "configurable", object{"version": 1})
	}
	return with(body, "configurable", object{"version": 1, "ai": ai})
}

func mockProviders(d *harness.Discovery) []string {
	list, _ := stringList(harness.Get(d.Document, "testing", "mockProviders"))
	return list
}
