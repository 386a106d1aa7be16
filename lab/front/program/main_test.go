package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestRun(t *testing.T) {
	dir := t.TempDir()
	config, secrets := filepath.Join(dir, "config.json"), filepath.Join(dir, "secrets.json")
	write := func(file, text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(config, `{"proxy": "127.0.0.1:0", "ssh": "127.0.0.1:0", "webhooks": "127.0.0.1:0", "engine": "http://127.0.0.1:1", "mirrors": []}`)
	write(secrets, `{"webhook": "s"}`)
	output, w := io.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- run(ctx, config, secrets, slog.New(slog.NewJSONHandler(w, nil))) }()
	line := make([]byte, 1024)
	if n, err := output.Read(line); err != nil || !strings.Contains(string(line[:n]), "front serves") {
		t.Errorf("log line %q, %v", line[:n], err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("run: %v", err)
	}
	write(secrets, `{"webhook": "s", "password": 1, "other": 2}`)
	if err := run(t.Context(), config, secrets, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), secrets) {
		t.Errorf("invalid secrets: error %v", err)
	}
}
