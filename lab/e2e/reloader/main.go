// Command reloader restarts Deployments whose ConfigMaps and Secrets change, if they or their pods have the annotation reloader.stakater.com/auto. It
// stands in for Stakater's Reloader in the examples. Like Reloader, it loses its state on a restart.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

const (
	account = "/var/run/secrets/kubernetes.io/serviceaccount"
	every   = 2 * time.Second
	timeout = 10 * time.Second // of a request
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	if err := run(ctx, log); err != nil {
		log.Error("reloader ends", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, log *slog.Logger) error {
	pem, err := os.ReadFile(filepath.Join(account, "ca.crt"))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return errors.New("ca.crt holds no certificate")
	}
	r := &reloader{
		api:    "https://" + os.Getenv("KUBERNETES_SERVICE_HOST") + ":" + os.Getenv("KUBERNETES_SERVICE_PORT"),
		token:  func() ([]byte, error) { return os.ReadFile(filepath.Join(account, "token")) }, // renewed by the kubelet
		client: &http.Client{Timeout: timeout, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}},
		log:    log,
		seen:   map[string]string{},
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if err := r.look(ctx); err != nil && ctx.Err() == nil {
			log.Error("look", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
