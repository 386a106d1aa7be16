package forgetest

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"homelab/lab"
	"homelab/lab/forge"
)

// unserved checks that all calls to a forge without a repository return no_forge.
func unserved(t *testing.T, f Forge, tree forge.Tree) {
	t.Helper()
	for name, err := range calls(t, f, tree) {
		if !hasCode(err, "no_forge") {
			t.Errorf("%s: %v, want no_forge", name, err)
		}
	}
}

// unanswered checks that all calls to a silent forge end soon, with an error that names a cure.
func unanswered(t *testing.T, f Forge, tree forge.Tree) {
	t.Helper()
	began := time.Now()
	for name, err := range calls(t, f, tree) {
		var e *lab.Error
		if !errors.As(err, &e) || e.Code != "forge" || !strings.Contains(e.Message, "did not answer") || !strings.Contains(e.Cure, "lab up") {
			t.Errorf("%s: %#v, want an error with a cure", name, err)
		}
	}
	const soon = 20 * time.Second
	if took := time.Since(began); took > soon {
		t.Errorf("the calls took %s", took)
	}
}

// calls makes all calls at the same time, and returns their errors.
func calls(t *testing.T, f Forge, tree forge.Tree) map[string]error {
	ctx := t.Context()
	charts := []lab.Chart{{Name: "demo", Version: "1.0.0", Digest: "sha256:0"}}
	mirror := forge.Mirror{Name: "m", Branch: "main", Tree: tree}
	var mu sync.Mutex
	var all sync.WaitGroup
	errs := map[string]error{}
	for name, ask := range map[string]func() error{
		"push":     func() error { _, err := f.Push(ctx, tree, "x"); return err },
		"pull":     func() error { _, err := f.Pull(ctx, tree, false); return err },
		"diff":     func() error { _, err := f.Diff(ctx, tree); return err },
		"ahead":    func() error { _, err := f.Ahead(ctx, tree); return err },
		"log":      func() error { _, err := f.Log(ctx, 1); return err },
		"charts":   func() error { _, err := f.MissingCharts(ctx, charts); return err },
		"webhook":  func() error { _, err := f.HasWebhook(ctx, "http://x", "s"); return err },
		"publish":  func() error { _, err := f.PublishCharts(ctx, charts); return err },
		"mirror":   func() error { _, err := f.Mirror(ctx, mirror, "http://x", "s"); return err },
		"mirrored": func() error { _, err := f.Mirrored(ctx, mirror, "http://x", "s"); return err },
		"new hook": func() error { _, err := f.EnsureWebhook(ctx, "http://x", "s"); return err },
	} {
		all.Go(func() {
			err := ask()
			mu.Lock()
			defer mu.Unlock()
			errs[name] = err
		})
	}
	all.Wait()
	return errs
}
