package source

import (
	"os"
	"path/filepath"
	"testing"

	"homelab/lab"
	"homelab/lab/docker"
)

// fakeDocker puts a docker command on PATH that has one image with the given key and archive.
func fakeDocker(t *testing.T, key, archive string) {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\ncase \"$1\" in\nimage) echo '" + key + "' ;;\nsave) cp '" + archive + "' \"$3\" ;;\n*) exit 1 ;;\nesac\n"
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
}

func TestImageFromEngine(t *testing.T) {
	r, err := Parse("recipes.yaml", []byte(imageRecipes))
	if err != nil {
		t.Fatal(err)
	}
	built, err := New(r, made(t, r)).Image(t.Context(), "img", nil)
	if err != nil {
		t.Fatal(err)
	}
	fakeDocker(t, r.keys["img"], built.Archive)
	s := newStore(t) // none of the dependencies
	got, err := New(r, s, WithEngine(docker.New())).Image(t.Context(), "img", func(line string) { t.Errorf("built: %s", line) })
	if err != nil {
		t.Fatal(err)
	}
	if got.Digest != built.Digest || got.Ref != built.Ref || got.Origin != lab.OriginEngine || got.Size != built.Size {
		t.Errorf("got %+v, want %+v", got, built)
	}
	again, err := New(r, s).Image(t.Context(), "img", nil)
	if err != nil || again.Origin != lab.OriginEngine {
		t.Errorf("second time: %+v, %v", again, err)
	}
}

func TestImageFromEngineOtherRecipe(t *testing.T) {
	r, err := Parse("recipes.yaml", []byte(imageRecipes))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"", "another", "<no value>"} {
		fakeDocker(t, key, "/nonexistent")
		got, err := New(r, made(t, r), WithEngine(docker.New())).Image(t.Context(), "img", nil)
		if err != nil || got.Origin != lab.OriginSource {
			t.Errorf("key %q: %+v, %v", key, got, err)
		}
	}
	fakeDocker(t, r.keys["img"], "/nonexistent") // errors of the engine are ignored
	if got, err := New(r, made(t, r), WithEngine(docker.New())).Image(t.Context(), "img", nil); err != nil || got.Origin != lab.OriginSource {
		t.Errorf("%+v, %v", got, err)
	}
}
