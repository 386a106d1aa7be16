// Command front serves mirrors of Git repositories under their upstream's addresses.
package main

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"homelab/lab/front/proxy"
)

func main() {
	config := flag.String("config", "/etc/front/config.json", "configuration `file`")
	secrets := flag.String("secrets", "/etc/front-secrets/secrets.json", "`file` with secrets")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	if err := run(ctx, *config, *secrets, log); err != nil {
		log.Error("front ends", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, config, secrets string, log *slog.Logger) error {
	c, s, err := proxy.Read(config, secrets)
	if err != nil {
		return err
	}
	server, err := proxy.New(c, s, log)
	if err != nil {
		return err
	}
	listeners, err := server.Listen(ctx)
	if err != nil {
		return err
	}
	log.Info("front serves", "git", listeners.Git.Addr().String(), "ssh", listeners.SSH.Addr().String(), "webhooks", listeners.Webhooks.Addr().String(), "mirrors", len(c.Mirrors))
	return server.Serve(ctx, listeners)
}
