package scenarios

import (
	"net/http"
	"slices"
	"strings"

	"wopcert/harness"
	"wopcert/requirements"
)

// mockedText is the mock model that says given words (runs.md, "ai section").
const mockedText = "stream-text"

// mocksText reports whether a host offers that model.
func mocksText(d *harness.Discovery) bool {
	list, _ := stringList(harness.Get(d.Document, "testing", "mockProviders"))
	return slices.Contains(list, mockedText)
}

// streamingModel gates a test on a workflow that streams from the mock model.
func streamingModel() []harness.Gate {
	return []harness.Gate{
		harness.HostFact("the host does not offer the mock provider "+mockedText+" under testing.mockProviders", mocksText),
		harness.NeedsFixture(streamText),
	}
}

// words are what the mock model is told to say; together they are sentence.
func words() []any { return []any{"Hello", " ", "world", "!"} }

const sentence = "Hello world!"

// usage is what the mock model is told to report.
func usage() object {
	return object{"promptTokens": 5, "completionTokens": 4, "totalTokens": 9}
}

// spokenText is the createRun body of a run whose model says the words.
func spokenText() object {
	return object{"workflowId": streamText, "configurable": object{"version": 1, "ai": object{
		"mockProvider": object{"id": mockedText, "config": object{
			"tokens": words(), "delayMsPerToken": 20, "finishReason": "stop", "usage": usage(),
		}},
	}}}
}

// spokenRun is a finished run whose model said the words, and its log. The
// test ends where there is none.
func spokenRun(t *harness.T) (string, log) {
	r := create(t, spokenText())
	id := r.Text("runId")
	switch {
	case r.Status == http.StatusForbidden:
		t.Abort("a mock provider is for test keys, and the host says this is none (%s); give a test key with --api-key-env", answered(r))
	case !r.Is(http.StatusCreated).OK || id == "":
		t.Abort("no run with a mock model to observe: createRun gave %s", answered(r))
	}
	l := readLog(t, id, settle)
	if l.status != "completed" {
		t.Abort("no run with a mock model to observe: it is %q after %s", l.status, settle)
	}
	return id, l
}

// streamMessages covers the messages mode (events.md, "Stream modes").
func streamMessages() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-stream-messages",
		Title:    "The messages mode carries what a streaming model says, with what is known about it",
		Document: "events.md", Section: "Stream modes",
		Gates: streamingModel(),
		Tests: []harness.Test{
			{
				Name:      "the chunks of a streaming node come as messages, and nothing else does",
				Witnesses: []requirements.ID{requirements.EventsMessagesChunks},
				Run:       chunksAsMessages,
			},
			{
				Name:      "the last chunk says why and at what cost the model stopped",
				Witnesses: []requirements.ID{requirements.EventsMessagesMeta},
				Run:       metaOfChunks,
			},
		},
	}
}

func chunksAsMessages(t *harness.T) {
	id, l := spokenRun(t)
	s := readMode(t, id, "messages")
	if unservedMode(s) {
		t.Inapplicable(requirements.EventsMessagesChunks, "the host does not serve the messages mode")
		return
	}
	t.Expect(requirements.EventsMessagesChunks, chunkFrames(t, s, eventsOfType(l.events, "output.chunk")))
	t.Expect(requirements.EventsMessagesChunks, saysSentence(s))
	if listed(t, noop) {
		silent, _ := settledRun(t, object{"workflowId": noop})
		none := readMode(t, silent, "messages")
		t.Expect(requirements.EventsMessagesChunks, harness.All(none.open.Is(http.StatusOK),
			harness.That(len(none.frames) == 0, "no frame of a run without a streaming node", "%d frames", len(none.frames)).At(none.open)))
	}
}

// chunkFrames checks that a messages stream is the log's chunks: each frame
// named ai.message.chunk, with the payload of its output.chunk event and that
// event's sequence.
func chunkFrames(t *harness.T, s streamed, chunks []object) harness.Check {
	const expected = "one ai.message.chunk frame for each output.chunk event, with its sequence and its payload"
	if open := s.open.Is(http.StatusOK); !open.OK {
		return open
	}
	if len(s.frames) != len(chunks) || len(chunks) == 0 {
		return harness.That(false, expected, "%d frames for %d events", len(s.frames), len(chunks)).At(s.open)
	}
	for i, f := range s.frames {
		data, err := frameEvent(f)
		switch {
		case err != nil:
			return harness.That(false, expected, "frame %d with data that is no object: %v", i, err).At(s.open)
		case f.Event != "ai.message.chunk":
			return harness.That(false, expected, "frame %d with event %q", i, f.Event).At(s.open)
		case !f.HasID || f.ID != decimal(highest(chunks[i:i+1])):
			return harness.That(false, expected, "frame %d with id %q where the event is %s", i, f.ID, label(chunks[i])).At(s.open)
		}
		if why := violation(t.Corpus().ValidatePayload("output.chunk", data)); why != "" {
			return harness.That(false, expected, "frame %d: %s", i, cut(why)).At(s.open)
		}
		if c := same("payload", chunks[i]["payload"], data); !c.OK {
			return c.At(s.open)
		}
	}
	return harness.That(true, expected, "%d frames", len(s.frames)).At(s.open)
}

// saysSentence checks what the chunks say together, and that the last one and
// no other is marked as the last.
func saysSentence(s streamed) harness.Check {
	var said strings.Builder
	var marks []any
	for _, f := range s.frames {
		data, _ := frameEvent(f)
		said.WriteString(text(data, "chunk"))
		marks = append(marks, data["isLast"])
	}
	last := len(marks) > 0 && slices.Index(marks, any(true)) == len(marks)-1
	return harness.All(
		harness.Equal("text of the chunks", sentence, said.String()),
		harness.That(last, "isLast true on the last chunk and on no other", "isLast %v", marks),
	).At(s.open)
}

func metaOfChunks(t *harness.T) {
	id, _ := spokenRun(t)
	s := readMode(t, id, "messages")
	switch {
	case unservedMode(s):
		t.Inapplicable(requirements.EventsMessagesMeta, "the host does not serve the messages mode")
		return
	case len(s.frames) == 0:
		t.Abort("no chunk to look for meta in: %s and no frame", answered(s.open))
	}
	data, _ := frameEvent(s.frames[len(s.frames)-1])
	meta := harness.Get(data, "meta")
	t.Expect(requirements.EventsMessagesMeta, harness.Equal("meta.finishReason of the last chunk", any("stop"), harness.Get(meta, "finishReason")).At(s.open))
	for _, name := range []string{"promptTokens", "completionTokens", "totalTokens"} {
		t.Expect(requirements.EventsMessagesMeta, isNumber("meta.usage."+name+" of the last chunk",
			float64(usage()[name].(int)), harness.Get(meta, "usage", name)).At(s.open))
	}
}

// providerUsage covers the cost on provider.usage (events.md, "Envelope,
// feedback and usage facets").
func providerUsage() harness.Scenario {
	return harness.Scenario{
		ID:       "v2-provider-usage",
		Title:    "A host that estimates costs stamps them on its usage events",
		Document: "events.md", Section: "Envelope, feedback and usage facets",
		Gates: append([]harness.Gate{harness.HostFact("the host does not advertise providerUsage.costEstimates as true", estimatesCosts)}, streamingModel()...),
		Tests: []harness.Test{
			{
				Name:      "every usage event of a run with a model has an estimate",
				Witnesses: []requirements.ID{requirements.EventsCostEstimateStamped},
				Run:       costsEstimated,
			},
		},
	}
}

func estimatesCosts(d *harness.Discovery) bool {
	v, _ := d.Facet("providerUsage", "costEstimates")
	return v == true
}

func costsEstimated(t *harness.T) {
	_, l := spokenRun(t)
	used := eventsOfType(l.events, "provider.usage")
	t.Expect(requirements.EventsCostEstimateStamped, harness.That(len(used) > 0,
		"a provider.usage event of a run that used a model", "%d events, none of them", len(l.events)).At(l.last))
	for _, e := range used {
		cost, ok := numeric(harness.Get(e["payload"], "costEstimateUsd"))
		t.Expect(requirements.EventsCostEstimateStamped, harness.That(ok && cost >= 0, "costEstimateUsd as a number of at least 0",
			"%s with costEstimateUsd %v", label(e), harness.Get(e["payload"], "costEstimateUsd")).At(l.last))
	}
}
