package scenarios

import (
	"mime"
	"net/http"
	"net/url"

	"wopcert/harness"
	"wopcert/requirements"
)

// emitsArtifact is the fixture that produces one artifact; a host need not hold
// it.
const emitsArtifact = "conformance-artifact-emit"

// a2aArtifact is the media type of an A2A Artifact.
const a2aArtifact = "application/a2a+json"

// artifactShape covers artifacts served as A2A Artifacts (runs.md,
// "Artifacts").
func artifactShape() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-artifact-a2a-shape",
		Title:    "An artifact served as A2A is one, under its own id and within the reader's authorization",
		Document: "runs.md", Section: "Artifacts",
		Gates: []harness.Gate{optIn(emitsArtifact)},
		Tests: []harness.Test{
			{
				Name:      "the artifact and its id",
				Witnesses: []requirements.ID{requirements.R0205ArtifactA2aShape, requirements.R0205ArtifactIdMatchesPath},
				Run:       artifactIsA2A,
			},
			{
				Name:      "the urls of its parts",
				Witnesses: []requirements.ID{requirements.R0205ArtifactUrlPartScoped},
				Run:       urlPartsAreScoped,
			},
		},
	}
}

// artifactMediaTypes covers the choice of the media type (runs.md,
// "Artifacts").
func artifactMediaTypes() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-artifact-media-types",
		Title:    "An artifact comes as A2A to those who prefer it, and as JSON to others",
		Document: "runs.md", Section: "Artifacts",
		Gates: []harness.Gate{optIn(emitsArtifact)},
		Tests: []harness.Test{
			{
				Name:      "one reader that prefers A2A and one that takes JSON",
				Witnesses: []requirements.ID{requirements.RunsArtifactA2aOffered},
				Run:       artifactTypesOffered,
			},
		},
	}
}

// announced runs the fixture and returns the path and the id of its artifact. The
// test ends when none is announced.
func announced(t *harness.T) (path, artifactID string) {
	id, l := settledRun(t, object{"workflowId": emitsArtifact})
	for _, e := range eventsOfType(l.events, "artifact.created") {
		if artifactID, _ = harness.Get(e, "payload", "artifactId").(string); artifactID != "" {
			return runPath(id, "/artifacts/"+url.PathEscape(artifactID)), artifactID
		}
	}
	t.Abort("no artifact to observe: the log of a run of %s has no artifact.created with an artifactId", emitsArtifact)
	return "", ""
}

func artifactAs(t *harness.T, path, accept string) *harness.Response {
	return t.Do(harness.Request{Path: path, Header: headerOf("Accept", accept)})
}

// asA2A reads an artifact as A2A. ok is false where the host does not offer
// that; the test ends where it serves the artifact in no form.
func asA2A(t *harness.T, path string) (r *harness.Response, ok bool) {
	r = artifactAs(t, path, a2aArtifact)
	if r.Is(http.StatusOK).OK {
		return r, mediaType(r) == a2aArtifact
	}
	if plain := artifactAs(t, path, "application/json"); !plain.Is(http.StatusOK).OK {
		t.Abort("no artifact to observe: getArtifact gave %s", answered(plain))
	}
	return r, false
}

const notOffered = "the host does not offer its artifacts as application/a2a+json"

func artifactIsA2A(t *harness.T) {
	path, id := announced(t)
	r, ok := asA2A(t, path)
	if !ok {
		t.Inapplicable(requirements.R0205ArtifactA2aShape, notOffered)
		t.Inapplicable(requirements.R0205ArtifactIdMatchesPath, notOffered)
		return
	}
	t.Expect(requirements.R0205ArtifactA2aShape, r.Valid("artifact"))
	t.Expect(requirements.R0205ArtifactIdMatchesPath, harness.Equal("artifactId", any(id), r.Get("artifactId")).At(r))
}

// urlPartsAreScoped asks for the url of every part as callers who may not read
// the artifact. Only urls on the host's own origin are asked for: credentials
// and questions about the host go nowhere else.
func urlPartsAreScoped(t *harness.T) {
	path, _ := announced(t)
	r, ok := asA2A(t, path)
	if !ok {
		t.Inapplicable(requirements.R0205ArtifactUrlPartScoped, notOffered)
		return
	}
	judged := false
	parts, _ := r.Get("parts").([]any)
	for _, part := range parts {
		link, _ := harness.Get(part, "url").(string)
		ref, err := url.Parse(link)
		if link == "" || err != nil {
			continue
		}
		full := r.URL().ResolveReference(ref)
		if origin(full) != origin(r.URL()) {
			continue
		}
		if own := t.Do(harness.Request{Path: full.String()}); !hasContent(own) {
			continue // it answers nobody, or not this way
		}
		judged = true
		for _, who := range []harness.Identity{harness.Anonymous, harness.Unknown, harness.OtherTenant} {
			if !t.Has(who) {
				continue
			}
			got := t.Do(harness.Request{Path: full.String(), As: who})
			t.Expect(requirements.R0205ArtifactUrlPartScoped, harness.That(!hasContent(got), "no content behind the url of a part for the "+who.String(),
				"%s with %d bytes", answered(got), len(got.Body)).At(got))
		}
	}
	if !judged {
		t.Inapplicable(requirements.R0205ArtifactUrlPartScoped, "no part of the artifact has a url on the host's origin that answers its reader")
	}
}

// hasContent reports whether a response hands something out.
func hasContent(r *harness.Response) bool {
	return r.Err == nil && r.Status >= 200 && r.Status <= 299 && len(r.Body) > 0
}

func artifactTypesOffered(t *harness.T) {
	path, _ := announced(t)
	plain := artifactAs(t, path, "application/json")
	if !plain.Is(http.StatusOK).OK {
		t.Abort("no artifact to observe: getArtifact gave %s", answered(plain))
	}
	preferring := artifactAs(t, path, a2aArtifact+", application/json;q=0.5")
	t.Should(requirements.RunsArtifactA2aOffered, servedAs(preferring, a2aArtifact))
	_, isObject := plain.JSON().(object)
	t.Should(requirements.RunsArtifactA2aOffered, harness.All(servedAs(plain, "application/json"),
		harness.That(isObject, "an object as application/json", "%s", answered(plain))).At(plain))
}

// servedAs checks a 200 of a media type.
func servedAs(r *harness.Response, media string) harness.Check {
	got, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return harness.That(r.Is(http.StatusOK).OK && got == media, "200 with Content-Type "+media, "%s with Content-Type %q", answered(r), r.Header.Get("Content-Type")).At(r)
}
