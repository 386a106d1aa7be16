package state

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Export skips locks, pages and torn files; Import replaces exported files and keeps the rest.
func TestExport(t *testing.T) {
	d := &Dir{Lab: "demo", Path: filepath.Join(t.TempDir(), "demo")}
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(d.Path, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"clusters/hub.json", "credentials.json", "forge.json", "kubeconfigs/hub.yaml", "lab.json"}
	for _, name := range append(want, "lock", "pull.json", "lab.json.garbled", "scenarios/drift.html", "kubeconfigs/hub.yaml.lock", "kubeconfigs/hub.yaml.123", "clusters/hub.json.4") {
		write(name, "first of "+name)
	}
	files, err := d.Export()
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, want) {
		t.Errorf("exported %v", got)
	}
	write("lab.json", "second")
	write("clusters/dev.json", "second")
	write("pull.json", "second")
	if err := d.Import(files); err != nil {
		t.Fatal(err)
	}
	again, err := d.Export()
	if err != nil || !maps.EqualFunc(files, again, slices.Equal) {
		t.Errorf("imported %v, %v", slices.Sorted(maps.Keys(again)), err)
	}
	if text, err := os.ReadFile(filepath.Join(d.Path, "pull.json")); err != nil || string(text) != "second" {
		t.Errorf("state of the pull: %q, %v", text, err)
	}
	if info, err := os.Stat(filepath.Join(d.Path, "credentials.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if err := d.Import(map[string][]byte{"../elsewhere": nil}); err == nil {
		t.Error("a file outside the lab's folder was written")
	}
}

func TestRestoring(t *testing.T) {
	d := &Dir{Lab: "demo", Path: filepath.Join(t.TempDir(), "demo")}
	for _, name := range []string{"", "ready", "other", "", ""} {
		if err := d.SaveRestoring(name); err != nil {
			t.Fatal(err)
		}
		if got := d.Restoring(); got != name {
			t.Errorf("restoring %q, want %q", got, name)
		}
	}
}

// Import keeps the clusters that are attached now, and only those.
func TestImportKeepsAttachedClusters(t *testing.T) {
	d := &Dir{Lab: "demo", Path: filepath.Join(t.TempDir(), "demo")}
	attach := func(name string) {
		t.Helper()
		if err := errors.Join(
			d.SaveCluster(name, Cluster{Attached: true, Whole: true}), os.MkdirAll(d.Kubeconfigs(), 0o700), os.WriteFile(filepath.Join(d.Kubeconfigs(), name+".yaml"), []byte(name), 0o600),
		); err != nil {
			t.Fatal(err)
		}
	}
	attach("released")
	if err := d.SaveCluster("hub", Cluster{Whole: true, Nodes: []string{"1"}}); err != nil {
		t.Fatal(err)
	}
	files, err := d.Export()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.ForgetCluster("released"), os.Remove(filepath.Join(d.Kubeconfigs(), "released.yaml")), d.ForgetCluster("hub")); err != nil {
		t.Fatal(err)
	}
	attach("since")
	if err := d.Import(files); err != nil {
		t.Fatal(err)
	}
	if names, err := d.Attached(); err != nil || !slices.Equal(names, []string{"since"}) {
		t.Errorf("attached: %q, %v", names, err)
	}
	if names, err := d.Contained(); err != nil || !slices.Equal(names, []string{"hub"}) {
		t.Errorf("with containers: %q, %v", names, err)
	}
	if names, err := filepath.Glob(filepath.Join(d.Kubeconfigs(), "*")); err != nil || len(names) != 1 || filepath.Base(names[0]) != "since.yaml" {
		t.Errorf("kubeconfigs: %q, %v", names, err)
	}
}
