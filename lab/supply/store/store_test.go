package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"homelab/lab/supply/store"
)

const key = "0123456789abcdef0123456789abcdef"

func open(t testing.TB) *store.Store {
	t.Helper()
	return store.Open(t.TempDir())
}

func writes(content string) func(context.Context, string) (store.Meta, error) {
	return func(_ context.Context, dir string) (store.Meta, error) {
		return store.Meta{Ref: "r:1"}, os.WriteFile(filepath.Join(dir, "f"), []byte(content), 0o644)
	}
}

func TestMakeLookup(t *testing.T) {
	s := open(t)
	if _, ok, err := s.Lookup("x", key); ok || err != nil {
		t.Fatalf("empty store: %v, %v", ok, err)
	}
	made, err := s.Make(t.Context(), "x", key, nil, writes("hello"))
	if err != nil {
		t.Fatal(err)
	}
	got, ok, err := s.Lookup("x", key)
	if !ok || err != nil || got.Meta != made.Meta || got.Size != 5 || got.Ref != "r:1" || got.Key != key {
		t.Errorf("got %+v, %v, %v; made %+v", got, ok, err, made)
	}
	if data, err := os.ReadFile(got.Path("f")); string(data) != "hello" {
		t.Errorf("%q, %v", data, err)
	}
	again, err := s.Make(t.Context(), "x", key, nil, func(context.Context, string) (store.Meta, error) {
		t.Error("rebuilt")
		return store.Meta{}, nil
	})
	if err != nil || again.Meta != made.Meta {
		t.Errorf("%+v, %v", again, err)
	}
	if list, err := s.Entries(); err != nil || len(list) != 1 || list[0].Name != "x" {
		t.Errorf("entries %+v, %v", list, err)
	}
	if err := s.Remove(got); err != nil {
		t.Fatal(err)
	}
	if _, ok, _ := s.Lookup("x", key); ok {
		t.Error("exists after Remove")
	}
}

func TestKeyPrefixCollision(t *testing.T) {
	s := open(t)
	if _, err := s.Make(t.Context(), "x", key, nil, writes("a")); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := s.Lookup("x", key+"0"); ok || err != nil {
		t.Errorf("another key's result was found: %v", err)
	}
}

func TestFailedBuild(t *testing.T) {
	s := open(t)
	boom := errors.New("boom")
	_, err := s.Make(t.Context(), "x", key, nil, func(_ context.Context, dir string) (store.Meta, error) {
		if err := os.WriteFile(filepath.Join(dir, "half"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		return store.Meta{}, boom
	})
	if !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	if _, ok, err := s.Lookup("x", key); ok || err != nil {
		t.Errorf("failed build found: %v", err)
	}
	if left := work(t, s); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

func work(t *testing.T, s *store.Store) []string {
	t.Helper()
	list, err := os.ReadDir(filepath.Join(s.Dir(), ".work"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// Leftovers of a killed build are not a result, and are removed by the next build; builds in progress are kept.
func TestSweepKilledBuild(t *testing.T) {
	s := open(t)
	for _, dead := range []string{"x-0123456789abcdef.123", "chart-a-1.2.3-ffffffffffffffff.9-77"} {
		if err := os.MkdirAll(filepath.Join(s.Dir(), ".work", dead, "etc"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok, _ := s.Lookup("x", key); ok {
		t.Fatal("partial build found")
	}
	_, err := s.Make(t.Context(), "living", key, nil, func(ctx context.Context, dir string) (store.Meta, error) {
		extra, err := store.WorkDir(dir)
		if err != nil {
			return store.Meta{}, err
		}
		defer os.RemoveAll(extra)
		if _, err := s.Make(ctx, "x", key, nil, writes("a")); err != nil {
			return store.Meta{}, err
		}
		for _, d := range []string{dir, extra} {
			if _, err := os.Stat(d); err != nil {
				t.Errorf("folder of a running build removed: %v", err)
			}
		}
		return writes("b")(ctx, dir)
	})
	if err != nil {
		t.Fatal(err)
	}
	if left := work(t, s); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// Locks belong to open files, so goroutines can stand for processes.
func TestConcurrentMake(t *testing.T) {
	s := open(t)
	var built, waited atomic.Int32
	release := make(chan struct{})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			e, err := s.Make(t.Context(), "x", key, func() {
				if waited.Add(1) == 3 {
					close(release)
				}
			}, func(ctx context.Context, dir string) (store.Meta, error) {
				built.Add(1)
				<-release
				return writes("a")(ctx, dir)
			})
			if err != nil || e.Size != 1 {
				t.Errorf("%+v, %v", e, err)
			}
		})
	}
	group.Wait()
	if built.Load() != 1 || waited.Load() != 3 {
		t.Errorf("built %d times, %d waited", built.Load(), waited.Load())
	}
}

func TestWaitCancelled(t *testing.T) {
	s := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.Make(t.Context(), "x", key, nil, func(_ context.Context, dir string) (store.Meta, error) {
		_, err := s.Make(ctx, "x", key, cancel, writes("a"))
		return store.Meta{}, err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestPrune(t *testing.T) {
	s := open(t)
	keys := []string{"aaaaaaaaaaaaaaaaaaaa", "cccccccccccccccccccc", "bbbbbbbbbbbbbbbbbbbb"} // in creation order
	for _, k := range keys {
		if _, err := s.Make(t.Context(), "x", k, nil, writes("a")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Make(t.Context(), "x-y", keys[0], nil, writes("a")); err != nil {
		t.Fatal(err)
	}
	if err := s.Prune("x", 2); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, true, true} {
		if _, ok, err := s.Lookup("x", keys[i]); ok != want || err != nil {
			t.Errorf("%s: %v, %v", keys[i], ok, err)
		}
	}
	if _, ok, _ := s.Lookup("x-y", keys[0]); !ok {
		t.Error("another name's result removed")
	}
}

func TestBrokenMeta(t *testing.T) {
	s := open(t)
	e, err := s.Make(t.Context(), "x", key, nil, writes("a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(e.Path("meta.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Lookup("x", key); err == nil || !strings.Contains(err.Error(), "x") {
		t.Errorf("got %v", err)
	}
}

func BenchmarkLookup(b *testing.B) {
	s := open(b)
	if _, err := s.Make(b.Context(), "x", key, nil, writes("a")); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, ok, err := s.Lookup("x", key); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}
