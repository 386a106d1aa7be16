// Lab brings up a GitOps estate on one machine: Kind clusters, a Git server, Argo CD, and the addons that follow their labels.
package main

import (
	"context"
	"embed"
	"os"
	"os/signal"
	"syscall"

	"homelab/lab/cli"
)

// The repository is itself the default estate; the program carries it.
//
//go:embed all:clusters all:environments all:addons all:scenarios
var estate embed.FS

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	exit := cli.Run(ctx, cli.Env{Args: os.Args, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Estate: estate})
	stop()
	os.Exit(int(exit))
}
