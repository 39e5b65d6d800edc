package certify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"wopcert/bundle"
	"wopcert/harness"
)

// maxDeclaration bounds a declaration file, in bytes.
const maxDeclaration = 1 << 20

// recoveryFile is what an operator declares of the host's recovery.
type recoveryFile struct {
	RecoveryBounds []bundle.RecoveryBound `json:"recoveryBounds"`
	MaxAttempts    int                    `json:"maxAttempts"`
	Classes        struct {
		KillAfterAccept     string `json:"killAfterAccept"`
		KillDuringExecution string `json:"killDuringExecution"`
	} `json:"classes"`
}

// ReadRecovery reads the file in which an operator declares the recovery bounds of
// a host: recoveryBounds as the bundle carries them (conformance.md §Recovery
// evidence), optionally maxAttempts, and classes with the recovery class each kind of
// kill belongs to. Whether a bound is the sum of its terms is for the run to find.
func ReadRecovery(path string) (*harness.Recovery, error) {
	var f recoveryFile
	if err := readDeclaration(path, &f); err != nil {
		return nil, &ConfigError{fmt.Sprintf("the recovery bounds in %s: %v", path, err),
			`as in {"recoveryBounds":[{"class":"restart","bound":6000,"terms":[{"name":"supervisor.delay","ms":1000},{"name":"boot","ms":5000}]}],"maxAttempts":3}`}
	}
	r := &harness.Recovery{Bounds: f.RecoveryBounds, MaxAttempts: f.MaxAttempts,
		AfterAccept: f.Classes.KillAfterAccept, DuringExecution: f.Classes.KillDuringExecution}
	for _, class := range []string{r.AfterAccept, r.DuringExecution} {
		if _, ok := r.Bound(class); !ok {
			return nil, &ConfigError{fmt.Sprintf("the recovery bounds in %s: no bound of class %q", path, class),
				"recoveryBounds has an entry for each class that classes names, and at least one"}
		}
	}
	if f.MaxAttempts < 0 {
		return nil, &ConfigError{fmt.Sprintf("the recovery bounds in %s: maxAttempts is negative", path), "leave it out where there is no limit"}
	}
	return r, nil
}

// ReadRelaxations reads the file in which an operator declares the settings under
// which the host runs relaxed: a list of host.relaxations entries (security-defaults.md
// §Relaxations).
func ReadRelaxations(path string) ([]bundle.Relaxation, error) {
	var list []bundle.Relaxation
	err := readDeclaration(path, &list)
	for _, r := range list {
		switch {
		case r.Obligation == "" || r.Reason == "":
			err = errors.New("an entry without an obligation or a reason")
		case r.Durability != "session" && r.Durability != "deployment" && r.Durability != "persisted":
			err = fmt.Errorf("durability %q of %q is not session, deployment or persisted", r.Durability, r.Obligation)
		}
	}
	if err == nil && len(list) == 0 {
		err = errors.New("it declares nothing")
	}
	if err != nil {
		return nil, &ConfigError{fmt.Sprintf("the relaxations in %s: %v", path, err),
			`as in [{"obligation":"webhooks.egress-guard","durability":"deployment","reason":"deliveries stay on the appliance"}]`}
	}
	return list, nil
}

// readDeclaration decodes one JSON value of a file strictly.
func readDeclaration(path string, into any) error {
	f, err := os.Open(path)
	if err != nil {
		return errors.Unwrap(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxDeclaration+1))
	switch {
	case err != nil:
		return err
	case len(data) > maxDeclaration:
		return fmt.Errorf("the file is larger than %d bytes", maxDeclaration)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("text after the JSON value")
	}
	return nil
}

// ShellCommand runs an operator's command line in a shell. What it prints goes to
// output, which is the operator's own and no part of the evidence; the error says how
// it ended and no more. A command that starts something in the background is done when
// the shell is.
func ShellCommand(line string, output *os.File) func(context.Context) error {
	return func(ctx context.Context) error {
		c := exec.CommandContext(ctx, "/bin/sh", "-c", line)
		c.Stdout, c.Stderr = output, output // files, so that nothing waits for who keeps them open
		c.WaitDelay = time.Second
		err := c.Run()
		var exit *exec.ExitError
		switch {
		case ctx.Err() != nil:
			return errors.New("the command did not end in time; it has to return, whatever it starts")
		case errors.As(err, &exit):
			return fmt.Errorf("the command ended with %s", exit.ProcessState)
		}
		return err
	}
}
