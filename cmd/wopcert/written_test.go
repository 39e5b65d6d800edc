package main

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"
)

// written is a stream that a test can wait for text on.
type written struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // closed and replaced at every write
}

func newWritten() *written { return &written{more: make(chan struct{})} }

func (l *written) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.more)
	l.more = make(chan struct{})
	return l.text.Write(p)
}

func (l *written) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// await returns everything written when a text is among it.
func (l *written) await(t *testing.T, want string) string {
	t.Helper()
	return l.awaitTimes(t, want, 1)
}

// awaitTimes waits until a text is there so many times.
func (l *written) awaitTimes(t *testing.T, want string, times int) string {
	t.Helper()
	end := time.After(60 * time.Second)
	for {
		l.mu.Lock()
		text, more := l.text.String(), l.more
		l.mu.Unlock()
		if strings.Count(text, want) >= times {
			return text
		}
		select {
		case <-more:
		case <-end:
			t.Fatalf("no %q in %s", want, text)
		}
	}
}
