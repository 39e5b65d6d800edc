package supervised

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// Command is the command of this program that Serve is the body of. It is for this
// package alone.
const Command = "supervised-host"

// startTimeout is how long the process may take until it serves.
const startTimeout = 30 * time.Second

// Process is a host that runs, or has been killed and can be started again.
type Process struct {
	settings  Settings
	directory string // holds the store, and goes with Close

	mu      sync.Mutex
	command *exec.Cmd
	input   io.WriteCloser
	url     string
}

// Start starts the host on a fresh store in a directory of its own, on a free port of
// loopback. The process is this program's own file.
func Start(ctx context.Context, settings Settings) (*Process, error) {
	directory, err := os.MkdirTemp("", "wopcert-host-")
	if err != nil {
		return nil, fmt.Errorf("no directory for the host's store: %w", err)
	}
	settings.Addr, settings.Store, settings.Directory = "127.0.0.1:0", filepath.Join(directory, "store.db"), directory
	p := &Process{settings: settings, directory: directory}
	if err := p.Restart(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(directory))
	}
	// From now on at this address, so that the host comes back where it was.
	u, err := url.Parse(p.url)
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	p.settings.Addr = u.Host
	return p, nil
}

// URL is where the host serves, before and after a kill.
func (p *Process) URL() string { return p.url }

// Restart starts the host that was killed, on the store it left.
func (p *Process) Restart(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.command != nil {
		return errors.New("the host runs already")
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("this program's own file: %w", err)
	}
	line, err := json.Marshal(p.settings)
	if err != nil {
		return err
	}
	command := exec.Command(program, Command) // it outlives ctx: only Kill and Close end it
	command.Stderr = os.Stderr                // silent, unless it breaks
	input, err := command.StdinPipe()
	if err != nil {
		return err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("the host's process cannot be started: %w", err)
	}
	p.command, p.input = command, input
	if _, err := input.Write(append(line, '\n')); err != nil {
		return errors.Join(fmt.Errorf("the host's process took no settings: %w", err), p.end())
	}
	answer, err := firstLine(ctx, output)
	if err == nil && answer.Error != "" {
		err = errors.New(answer.Error)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("the host did not start: %w", err), p.end())
	}
	if p.url == "" {
		p.url = answer.URL
	}
	return nil
}

// firstLine reads what the process says of itself.
func firstLine(ctx context.Context, output io.Reader) (ready, error) {
	type line struct {
		ready
		err error
	}
	said := make(chan line, 1)
	go func() {
		var l line
		data, err := bufio.NewReader(output).ReadBytes('\n')
		if l.err = err; err == nil {
			l.err = json.Unmarshal(data, &l.ready)
		}
		said <- l
	}()
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	select {
	case l := <-said:
		return l.ready, l.err
	case <-timer.C:
		return ready{}, fmt.Errorf("it said nothing within %s", startTimeout)
	case <-ctx.Done():
		return ready{}, ctx.Err()
	}
}

// Kill ends the process at once, as kill -9 does, and returns when it is gone.
func (p *Process) Kill(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.command == nil {
		return errors.New("the host does not run")
	}
	return p.end()
}

// end kills the process that runs; the mutex is held. How it ended is no news.
func (p *Process) end() error {
	err := p.command.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	_ = p.input.Close()
	_ = p.command.Wait()
	p.command, p.input = nil, nil
	return err
}

// Close ends the process, where it runs, and removes its store.
func (p *Process) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	if p.command != nil {
		err = p.end()
	}
	return errors.Join(err, os.RemoveAll(p.directory))
}
