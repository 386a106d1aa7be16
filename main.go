// Lab brings up a GitOps estate on one machine: Kind clusters, a Git server, Argo CD, and the addons that follow their labels.
package main

import (
	"context"
	"embed"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"homelab/lab/cli"
)

// The repository is itself the default estate; the program carries it.
//
//go:embed all:clusters all:environments all:addons all:scenarios
var estate embed.FS

func main() {
	if os.Getenv("GOGC") == "" { // collecting took a third of the processor time of reading a large estate
		debug.SetGCPercent(200)
	}
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	terminal := os.Stderr
	if none, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0); err == nil {
		os.Stderr = none // kustomize prints there what it finds deprecated in repositories that are not ours to fix
	}
	exit := cli.Run(ctx, cli.Env{Args: os.Args, Out: os.Stdout, Err: terminal, Getenv: os.Getenv, Estate: estate})
	stop()
	os.Exit(int(exit))
}
