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
	said, into := io.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, config, secrets, slog.New(slog.NewJSONHandler(into, nil))) }()
	line := make([]byte, 1024)
	if n, err := said.Read(line); err != nil || !strings.Contains(string(line[:n]), "front serves") {
		t.Errorf("said %q, %v", line[:n], err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	write(secrets, `{"webhook": "s", "password": 1, "other": 2}`)
	if err := run(t.Context(), config, secrets, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), secrets) {
		t.Errorf("got %v", err)
	}
}
