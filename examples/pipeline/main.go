// Pipeline sends tensors from producers through workers to a collector. The collector acknowledges each tensor to its
// producer. README.md describes the pipeline.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	commands := map[string]func(context.Context, []string) error{
		"producer": producer, "worker": worker, "collector": collector, "run": run,
	}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: pipeline producer|worker|collector|run [flags]; -help after the name lists the flags")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := commands[os.Args[1]](ctx, os.Args[2:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "pipeline %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}
