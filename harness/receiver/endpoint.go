package receiver

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Attempt is one request that reached an endpoint, as it came.
type Attempt struct {
	Number    int // 1-based, of the endpoint
	At        time.Time
	Method    string
	Path      string // below the endpoint's own address, "" for the address itself
	Query     string // raw
	Host      string // the Host header
	Proto     string
	Header    http.Header
	Body      []byte // the exact bytes, up to MaxBody
	Truncated bool   // the body was longer than is kept
	Broken    bool   // the body ended before its announced length

	Exchange int // number in the test's capture, 0 outside a run
}

// Answer is what an attempt gets back.
type Answer struct {
	Status int // 200 when 0
	Header http.Header
	Body   []byte
	Delay  time.Duration // before the answer, at most MaxDelay; cut short when the endpoint closes
	HangUp bool          // close the connection without any answer, after Delay
}

// Script says how an attempt is answered. It may be called for several attempts
// at a time and must be safe for that.
type Script func(Attempt) Answer

// Always answers every attempt with a status and an empty body.
func Always(status int) Script {
	return func(Attempt) Answer { return Answer{Status: status} }
}

// Sequence answers the n-th attempt with the n-th answer, and every later one
// with the last.
func Sequence(answers ...Answer) Script {
	return func(a Attempt) Answer { return answers[min(a.Number, len(answers))-1] }
}

// Redirect answers every attempt with a redirect.
func Redirect(status int, location string) Script {
	return func(Attempt) Answer {
		return Answer{Status: status, Header: http.Header{"Location": {location}}}
	}
}

// JSON is a 200 answer with a JSON body.
func JSON(body []byte) Answer {
	return Answer{Status: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}
}

// Endpoint is one address of a receiver and what came there.
type Endpoint struct {
	server *Server
	id     string
	closed chan struct{}
	once   sync.Once

	mu       sync.Mutex
	script   Script
	recorder Recorder
	attempts []Attempt
	count    int
	bytes    int64
	open     int           // attempts whose answer has not been sent yet
	changed  chan struct{} // closed and replaced at every attempt
}

// URL is the endpoint's address as hosts reach it.
func (e *Endpoint) URL() string { return e.server.base.String() + "/" + e.id }

// Script replaces the script for the attempts that come from now on.
func (e *Endpoint) Script(s Script) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.script = s
}

// Recorder is told of what passes through an endpoint.
type Recorder interface {
	Arrived(Attempt) int      // before anybody else sees it; returns its Exchange
	Answered(Attempt, Answer) // before the answer is sent
}

// Record sets the recorder. It must be set before the address is given away.
func (e *Endpoint) Record(r Recorder) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.recorder = r
}

// Attempts are the attempts so far, in the order of their arrival. Count can
// be higher, when more came than are kept.
func (e *Endpoint) Attempts() []Attempt {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]Attempt(nil), e.attempts...)
}

// Count is how many attempts there were.
func (e *Endpoint) Count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.count
}

// Unanswered is how many attempts wait for their answer right now: not those
// that were answered, nor those whose caller gave up.
func (e *Endpoint) Unanswered() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.open
}

func (e *Endpoint) opened(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open += n
}

// Wait returns the attempts once there are at least n, or what there is when
// the context ends or the endpoint closes first.
func (e *Endpoint) Wait(ctx context.Context, n int) ([]Attempt, bool) {
	return e.WaitUntil(ctx, func(all []Attempt) bool { return len(all) >= n })
}

// WaitUntil returns the attempts once they meet a condition, which is asked
// again at every new attempt, or what there is when the context ends or the
// endpoint closes first.
func (e *Endpoint) WaitUntil(ctx context.Context, done func([]Attempt) bool) ([]Attempt, bool) {
	for {
		e.mu.Lock()
		all, changed := append([]Attempt(nil), e.attempts...), e.changed
		e.mu.Unlock()
		if done(all) {
			return all, true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return all, false
		case <-e.closed:
			return all, false
		}
	}
}

// Close ends the endpoint: its address answers 404 from now on, and answers
// still held back are given up.
func (e *Endpoint) Close() {
	e.once.Do(func() {
		close(e.closed)
		e.server.mu.Lock()
		delete(e.server.endpoints, e.id)
		e.server.mu.Unlock()
		e.mu.Lock()
		e.server.kept.Add(-e.bytes)
		e.bytes = 0
		e.mu.Unlock()
	})
}

func (e *Endpoint) record(a Attempt) Attempt {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count++
	a.Number = e.count
	if len(e.attempts) >= MaxAttempts {
		return a
	}
	select {
	case <-e.closed: // found just before it closed; its test has ended
		return a
	default:
	}
	if e.bytes += int64(len(a.Body)); e.server.kept.Add(int64(len(a.Body))) > maxKeptBytes {
		a.Body, a.Truncated = nil, true
	}
	if e.recorder != nil {
		a.Exchange = e.recorder.Arrived(a)
	}
	e.attempts = append(e.attempts, a)
	close(e.changed)
	e.changed = make(chan struct{})
	return a
}

func (e *Endpoint) answer(a Attempt) Answer {
	e.mu.Lock()
	script, recorder := e.script, e.recorder
	e.mu.Unlock()
	answer := script(a)
	if answer.Status == 0 {
		answer.Status = http.StatusOK
	}
	if recorder != nil && a.Exchange > 0 {
		recorder.Answered(a, answer)
	}
	return answer
}

func (e *Endpoint) reply(ctx context.Context, w http.ResponseWriter, a Answer) {
	if !wait(ctx, a.Delay, e.closed, e.server.done) || a.HangUp {
		panic(http.ErrAbortHandler) // closes the connection without an answer
	}
	for name, values := range a.Header {
		w.Header()[http.CanonicalHeaderKey(name)] = values
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(a.Body)))
	if a.Status == http.StatusNoContent || a.Status == http.StatusNotModified {
		w.Header().Del("Content-Length")
		a.Body = nil
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body)
}
