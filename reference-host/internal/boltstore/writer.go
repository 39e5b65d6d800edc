package boltstore

import (
	"errors"
	"fmt"
	"sync"

	bolt "go.etcd.io/bbolt"
)

// ErrClosed is the refusal of a store that was closed.
var ErrClosed = errors.New("the store is closed")

// maxBatch bounds how many writes share a transaction, so that none waits for a transaction that grows and grows.
const maxBatch = 512

// writer puts writes that come at the same time into one transaction, which costs one sync however many they are. It
// is the only one that writes to the file.
type writer struct {
	db      *bolt.DB
	jobs    chan *job
	closing sync.RWMutex // held for reading while a job is handed over
	closed  bool
	done    chan struct{}

	publishing sync.Mutex
	published  *sync.Cond
	shown      int // the last transaction whose jobs have been published
}

// job is one write.
type job struct {
	write   func(tx *bolt.Tx) error
	publish func() // called when the write is on disk
	refusal error
	result  chan error
}

// refused is how a write says that it wants nothing written, before it has written anything.
type refused struct{ error }

func newWriter(db *bolt.DB) *writer {
	w := &writer{db: db, jobs: make(chan *job, maxBatch), done: make(chan struct{})}
	w.published = sync.NewCond(&w.publishing)
	_ = db.View(func(tx *bolt.Tx) error {
		w.shown = tx.ID()
		return nil
	})
	go w.run()
	return w
}

// do runs write in a transaction and returns when it is on disk and publish, which may be nil, has shown it; or when write
// has refused. A write may be run more than once; what counts is the last time.
func (w *writer) do(write func(tx *bolt.Tx) error, publish func()) error {
	j := &job{write: write, publish: publish, result: make(chan error, 1)}
	w.closing.RLock()
	if w.closed {
		w.closing.RUnlock()
		return ErrClosed
	}
	w.jobs <- j
	w.closing.RUnlock()
	return <-j.result
}

// close finishes what has been handed over.
func (w *writer) close() {
	w.closing.Lock()
	if !w.closed {
		w.closed = true
		close(w.jobs)
	}
	w.closing.Unlock()
	<-w.done
}

func (w *writer) run() {
	defer close(w.done)
	batch := make([]*job, 0, maxBatch)
	for first := range w.jobs {
		batch = append(batch[:0], first)
		for len(batch) < maxBatch {
			next, ok := w.poll()
			if !ok {
				break
			}
			batch = append(batch, next)
		}
		w.commit(batch)
	}
}

func (w *writer) poll() (*job, bool) {
	select {
	case j, ok := <-w.jobs:
		return j, ok
	default:
		return nil, false
	}
}

// commit writes a batch. A job that breaks the transaction breaks it for all, so each of them is then tried alone.
func (w *writer) commit(batch []*job) {
	var id int
	err := w.db.Update(func(tx *bolt.Tx) error {
		id = tx.ID()
		for _, j := range batch {
			err := j.write(tx)
			if refusal, ok := err.(refused); ok {
				j.refusal, err = refusal.error, nil
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil && len(batch) > 1 {
		w.show(id)
		for _, j := range batch {
			j.refusal = nil
			w.commit([]*job{j})
		}
		return
	}
	for _, j := range batch {
		if err == nil && j.refusal == nil && j.publish != nil {
			j.publish()
		}
	}
	w.show(id)
	for _, j := range batch {
		if err != nil {
			j.refusal = fmt.Errorf("the store could not write: %w", err)
		}
		j.result <- j.refusal
	}
}

// show says that nothing of a transaction remains to be published. One that failed is shown too: what it left can be read.
func (w *writer) show(id int) {
	w.publishing.Lock()
	w.shown = max(w.shown, id)
	w.publishing.Unlock()
	w.published.Broadcast()
}

// view reads in a transaction, and returns when whatever the transaction has seen is published: who finds a row in a
// table also finds the event it was written with. No lock that a publish takes may be held around it.
func (w *writer) view(read func(tx *bolt.Tx) error) error {
	var id int
	err := w.db.View(func(tx *bolt.Tx) error {
		id = tx.ID()
		return read(tx)
	})
	w.publishing.Lock()
	defer w.publishing.Unlock()
	for id > w.shown {
		w.published.Wait()
	}
	return err
}
