// Command wopcert certifies OpenWOP v2 hosts, verifies certification bundles
// and runs the reference host.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		// The first signal asks for honest evidence of what was seen; a second
		// one ends the program at once, as the default handler does.
		<-ctx.Done()
		stop()
	}()
	os.Exit(run(ctx, os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}
