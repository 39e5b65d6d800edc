package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/spf13/cobra"

	"wopcert/corpus"
	"wopcert/report"
	"wopcert/requirements"
)

// Exit codes, the same for every command.
const (
	exitYes      = 0 // the answer is yes
	exitNo       = 1 // the answer is no
	exitUsage    = 2 // the command line or the configuration is wrong
	exitUnknown  = 3 // not enough to answer
	exitRejected = 4 // the evidence is rejected
	exitInternal = 5 // the program's own contract does not hold
)

// streams are the program's standard streams. Only the answer goes to out.
type streams struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// exitError carries an exit code, what went wrong and what to do about it. An
// empty text means that the command has said all there is to say.
type exitError struct {
	code int
	text string
	hint string
}

func (e *exitError) Error() string { return e.text }

func usageError(hint, format string, args ...any) error {
	return &exitError{code: exitUsage, text: fmt.Sprintf(format, args...), hint: hint}
}

func unknownError(hint, format string, args ...any) error {
	return &exitError{code: exitUnknown, text: fmt.Sprintf(format, args...), hint: hint}
}

// answered ends a command that has printed its answer with the code it means.
func answered(code int) error {
	if code == exitYes {
		return nil
	}
	return &exitError{code: code}
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, s streams) (code int) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(s.err, "wopcert: internal error: %v\n%s", p, debug.Stack())
			code = exitInternal
		}
	}()
	began := false
	root := newRoot(s, &began)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitYes
	}
	var exit *exitError
	switch {
	case errors.As(err, &exit):
	case !began:
		exit = &exitError{code: exitUsage, text: err.Error(), hint: "run wopcert --help, or wopcert COMMAND --help"}
	default:
		exit = &exitError{code: exitUnknown, text: err.Error()}
	}
	if exit.text != "" {
		fmt.Fprintf(s.err, "wopcert: error: %s\n", report.Clean(exit.text))
		if exit.hint != "" {
			fmt.Fprintf(s.err, "wopcert: hint: %s\n", report.Clean(exit.hint))
		}
	}
	return exit.code
}

// newRoot builds a fresh command tree. began is set when a command's own code
// starts, which tells a wrong command line from a failed command.
func newRoot(s streams, began *bool) *cobra.Command {
	root := &cobra.Command{
		Use:           "wopcert",
		Short:         "Certify OpenWOP v2 hosts, verify certification bundles, run the reference host",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          group,
		Version:       Version,
	}
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetVersionTemplate("wopcert {{.Version}}\n")
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(helpCommand(root))
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		*began = true
		return selfCheck()
	}
	root.AddCommand(
		certifyCommand(s), doctorCommand(s), mergeCommand(s), verifyCommand(s), reportCommand(s), diffCommand(s), hostCommand(s),
		listCommand(s), explainCommand(s), coverageCommand(s), faultsCommand(s), variantsCommand(s),
		keygenCommand(s), canonCommand(s), fixturesCommand(s), completionCommand(s, root), supervisedCommand(s),
	)
	completeIDs(root)
	return root
}

// selfCheck refuses to run on contract files or requirement tables that are
// not those the program was made with (conformance.md, "Two products, two ledgers").
func selfCheck() error {
	_, err := corpus.Load()
	if err == nil {
		err = requirements.Load()
	}
	if err != nil {
		return &exitError{code: exitInternal, text: err.Error(), hint: "the program's own files do not hold together; build it again from a clean checkout"}
	}
	return nil
}

// group is what a command that only holds others does when called alone.
func group(c *cobra.Command, _ []string) error {
	return usageError("run "+c.CommandPath()+" --help", "%s needs a command", c.CommandPath())
}

// helpCommand replaces cobra's, which ends well for a topic that is none.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Explain a command",
		RunE: func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return usageError("run wopcert --help for the commands", "no command %q", args)
			}
			return c.Help()
		},
	}
}

// formatFlag adds --format and returns where its value lands.
func formatFlag(c *cobra.Command) *format {
	f := format("text")
	c.Flags().Var(&f, "format", "output format: text or json")
	return &f
}

// format is the value of --format.
type format string

func (f *format) String() string { return string(*f) }
func (f *format) Type() string   { return "FORMAT" }
func (f *format) json() bool     { return *f == "json" }

func (f *format) Set(v string) error {
	if v != "text" && v != "json" {
		return fmt.Errorf("want text or json")
	}
	*f = format(v)
	return nil
}
