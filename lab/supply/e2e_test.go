//go:build e2e

package supply_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"homelab/lab/docker"
	"homelab/lab/supply"
)

// TestSupply fetches everything into the user's cache, saves it, and loads it into an empty cache.
func TestSupply(t *testing.T) {
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	say := func(s string) { t.Log(s) }
	from, err := supply.Open(t.Context(), supply.Options{Mode: supply.ModeSource, CacheDir: filepath.Join(cache, "lab"), Docker: docker.New()})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "lab.tar.zst")
	start := time.Now()
	if err := from.Save(t.Context(), file, say); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("saved %d MB in %s", info.Size()>>20, time.Since(start))

	start = time.Now()
	o := supply.Options{CacheDir: t.TempDir(), StateDir: t.TempDir()}
	if _, err := supply.Accept(t.Context(), o, file, supply.Terms{Any: true}, say); err != nil {
		t.Fatal(err)
	}
	to, err := supply.Load(t.Context(), o, file, say)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("loaded in %s", time.Since(start))
	want, err := from.Choose(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range want {
		t.Logf("%s %s: %s, %d MB, %.0f s", i.Kind, i.Title(), i.Ref, i.Size>>20, i.Seconds)
		if !i.Present {
			t.Errorf("%s %s is missing after Save", i.Kind, i.Title())
		}
		if i.Kind == supply.KindChart {
			got, err := to.Chart(t.Context(), i.Name, i.Version, say)
			if err != nil || got.Digest != i.Digest {
				t.Errorf("chart %s: %v, %v", i.Title(), got, err)
			}
			continue
		}
		got, err := to.Image(t.Context(), i.Name, say)
		if err != nil || got.Digest != i.Digest || got.Ref != i.Ref {
			t.Errorf("image %s: %v, %v", i.Title(), got, err)
		}
	}
}
