package harness

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"time"

	"wopcert/corpus"
	"wopcert/requirements"
)

// T is what a test works with: the wire, and the assertions that name a
// requirement. It belongs to one test and must not be used from other
// goroutines except through Do and Stream, which are safe to call side by side.
type T struct {
	ctx      context.Context
	run      *run
	scenario string
	test     string
	log      *observations
	tape     *tape
	tag      func() string
}

// Tag is a text of letters, digits and dashes that no other test has: for what
// a test makes to be told from what runs beside it.
func (t *T) Tag() string { return t.tag() }

// Context ends when the test's deadline passes or the run is interrupted.
func (t *T) Context() context.Context { return t.ctx }

// Host returns what discovery said about the host.
func (t *T) Host() *Host { return t.run.host }

// Corpus returns the contract.
func (t *T) Corpus() *corpus.Corpus { return t.run.corpus }

// Credentials reports whether requests of an identity can be sent.
func (t *T) Has(who Identity) bool { return t.run.credentials.Has(who) }

// ApproverRefs says how the host names the approver.
func (t *T) ApproverRefs() ApproverRefs { return t.run.approver }

// Discloses reports whether a text from the host holds one of the run's
// credentials, in any spelling, or a secret that is known by its shape.
func (t *T) Discloses(text string) bool { return t.run.capture.redact.text(text) != text }

// Carries reports whether a text holds one of the run's credentials, signing
// secrets or canaries, or a secret the host made and handed over, in any
// spelling. What only looks like a secret does not count.
func (t *T) Carries(text string) bool { return t.run.capture.redact.known(text) != text }

// Expect asserts that a requirement holds. A check that does not hold fails
// the requirement; the test goes on, and the result says whether it held.
func (t *T) Expect(id requirements.ID, c Check) bool {
	if c.exchange == 0 {
		c.exchange = t.tape.last()
	}
	t.log.expect(id, c, t.ctx.Err() != nil)
	return c.OK
}

// Should asserts a recommendation. One that is not followed is recorded on the
// requirement's row and fails nothing.
func (t *T) Should(id requirements.ID, c Check) bool {
	if c.exchange == 0 {
		c.exchange = t.tape.last()
	}
	t.log.should(id, c, t.ctx.Err() != nil)
	return c.OK
}

// Inapplicable records that a fact about the host keeps the requirement, or a
// leg of it, from binding.
func (t *T) Inapplicable(id requirements.ID, fact string, args ...any) {
	t.log.inapplicable(id, fmt.Sprintf(fact, args...))
}

// Blocked records that something the suite lacks keeps the requirement from
// being observed.
func (t *T) Blocked(id requirements.ID, lack string, args ...any) {
	t.log.blocked(id, fmt.Sprintf(lack, args...))
}

// Abort ends the test because a step it stands on did not work. Every
// requirement the test declared and has not failed becomes blocked.
func (t *T) Abort(reason string, args ...any) {
	t.log.abort(fmt.Sprintf(reason, args...))
	runtime.Goexit()
}

// Do performs one exchange and never fails the test by itself: a transport
// failure is a Response whose checks do not hold.
func (t *T) Do(r Request) *Response {
	timeout := headerTimeout
	if r.Timeout > 0 {
		timeout = r.Timeout
	}
	ctx, cancel := context.WithTimeout(t.ctx, timeout)
	defer cancel()
	started := time.Now()
	out := &Response{corpus: t.run.corpus}
	req, sent, err := t.run.client.build(ctx, r)
	if err != nil {
		out.Err = err
		out.Request = r.Method + " " + r.Path
		return out
	}
	out.Request, out.url = req.Method+" "+req.URL.String(), req.URL
	res, err := t.run.client.do(t.run.client.plain, req)
	if err == nil {
		out.Status, out.Header = res.StatusCode, res.Header
		out.Body, out.Truncated, err = readBounded(res.Body, MaxBody)
		res.Body.Close()
	}
	out.Err, out.Elapsed = err, time.Since(started)
	out.exchange = t.tape.record(req, sent, out, started)
	return out
}

// Stream opens an event stream. When the host does not answer 200 the returned
// stream is already closed and its Response holds the refusal.
func (t *T) Stream(r Request) *Stream {
	ctx, cancel := context.WithCancel(t.ctx)
	s := &Stream{cancel: cancel, Response: &Response{corpus: t.run.corpus}, tape: t.tape}
	started := time.Now()
	req, sent, err := t.run.client.build(ctx, r)
	if err != nil {
		s.refuse(err)
		return s
	}
	if r.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "text/event-stream")
	}
	s.Response.Request, s.Response.url = req.Method+" "+req.URL.String(), req.URL
	timer := time.AfterFunc(headerTimeout, cancel)
	res, err := t.run.client.do(t.run.client.stream, req)
	if !timer.Stop() && t.ctx.Err() == nil {
		// The timer has cancelled the request, also where headers came at that
		// very moment.
		if err == nil {
			res.Body.Close()
		}
		err = context.DeadlineExceeded
	}
	if err != nil {
		s.refuse(err)
		s.Response.exchange = t.tape.record(req, sent, s.Response, started)
		return s
	}
	s.Response.Status, s.Response.Header = res.StatusCode, res.Header
	if res.StatusCode != 200 {
		s.readRefusal(res.Body)
		s.Response.exchange = t.tape.record(req, sent, s.Response, started)
		return s
	}
	s.Response.exchange = t.tape.record(req, sent, s.Response, started)
	t.tape.open.Add(1)
	s.start(ctx, res.Body)
	t.log.atEnd(s.Close)
	return s
}

func (s *Stream) readRefusal(body io.ReadCloser) {
	timer := time.AfterFunc(headerTimeout, s.cancel)
	defer timer.Stop()
	defer s.cancel()
	defer body.Close()
	s.Response.Body, s.Response.Truncated, s.Response.Err = readBounded(body, MaxBody)
	s.end(ClosedByHost)
}
