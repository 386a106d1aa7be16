//go:build e2e

package source_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"homelab/lab/supply/source"
	"homelab/lab/supply/store"
)

// TestBuild builds the images in LAB_BUILD (comma-separated; default all but other versions of an image, which take minutes each) into the user's cache, twice: the
// second run must build nothing.
func TestBuild(t *testing.T) {
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	s := store.Open(filepath.Join(cache, "lab", "store"))
	recipes, err := source.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	b := source.New(recipes, s)
	var names []string
	if v := os.Getenv("LAB_BUILD"); v != "" {
		names = strings.Split(v, ",")
	} else {
		for _, c := range recipes.Components {
			if (c.Kind == source.KindImage || c.Kind == source.KindNode) && c.VariantOf == "" {
				names = append(names, c.Name)
			}
		}
	}
	for _, name := range names {
		start := time.Now()
		img, err := b.Image(t.Context(), name, func(s string) { t.Log(s) })
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Logf("IMAGE %s %s %s %d bytes, %.1fs", name, img.Ref, img.Archive, img.Size, time.Since(start).Seconds())
	}
	start := time.Now()
	for _, name := range names {
		if _, err := b.Image(t.Context(), name, func(s string) { t.Errorf("%s: rebuilt: %s", name, s) }); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("looking up %d images took %s", len(names), took)
	}
}
