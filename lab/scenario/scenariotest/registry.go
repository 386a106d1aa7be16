package scenariotest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"homelab/lab/scenario"
)

// Registry is a registry in memory. Every image exists, except those whose names contain "none".
type Registry struct {
	mu   sync.Mutex
	tags map[string]string // NAME:TAG -> digest
}

// Push implements scenario.Registry.
func (r *Registry) Push(ctx context.Context, image, as string) (string, error) {
	if strings.Contains(image, "none") {
		return "", fmt.Errorf("no image %s", image)
	}
	sum := sha256.Sum256([]byte(image))
	digest := "sha256:" + hex.EncodeToString(sum[:])
	return digest, r.Tag(ctx, as, digest)
}

// Digest implements scenario.Registry.
func (r *Registry) Digest(ctx context.Context, name string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tags[name], ctx.Err()
}

// Tag implements scenario.Registry.
func (r *Registry) Tag(ctx context.Context, name, digest string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tags == nil {
		r.tags = map[string]string{}
	}
	if r.tags[name] = digest; digest == "" {
		delete(r.tags, name)
	}
	return nil
}

// Tags returns the digests by NAME:TAG.
func (r *Registry) Tags() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.tags)
}

// RegistryContract tests an empty registry; there are images "one" and "two", and no image "none".
func RegistryContract(t *testing.T, r scenario.Registry) {
	t.Helper()
	digest := func(want string) {
		t.Helper()
		if got, err := r.Digest(t.Context(), "team/web:1"); err != nil || got != want {
			t.Errorf("digest %q, %v; want %q", got, err, want)
		}
	}
	push := func(image string) string {
		t.Helper()
		d, err := r.Push(t.Context(), image, "team/web:1")
		if err != nil || !strings.HasPrefix(d, "sha256:") {
			t.Fatalf("push %s: %q, %v", image, d, err)
		}
		digest(d)
		return d
	}
	digest("")
	one := push("one")
	two := push("two")
	if one == two {
		t.Error("both images have the same digest")
	}
	if err := r.Tag(t.Context(), "team/web:1", one); err != nil {
		t.Error(err)
	}
	digest(one)
	for range 2 {
		if err := r.Tag(t.Context(), "team/web:1", ""); err != nil {
			t.Error(err)
		}
		digest("")
	}
	if _, err := r.Push(t.Context(), "none", "team/web:1"); err == nil {
		t.Error("an image that does not exist was pushed")
	}
	digest("")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Push(ctx, "one", "team/web:1"); err == nil {
		t.Error("a cancelled push succeeds")
	}
}
