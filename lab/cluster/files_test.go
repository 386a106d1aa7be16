package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A kubeconfig is replaced atomically, has mode 0600, and leaves no temporary files even on failure.
func TestWriteAndForgetKubeconfig(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kubeconfigs")
	file := filepath.Join(dir, "dev.yaml")
	for _, text := range []string{"first", "second"} {
		if err := writeKubeconfig(file, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
	}
	if fi, err := os.Stat(file); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "taken.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writeKubeconfig(filepath.Join(dir, "taken.yaml"), []byte("text")); err == nil {
		t.Error("replaced a folder")
	}
	if got := names(t, dir); !slices.Equal(got, []string{"dev.yaml", "taken.yaml"}) {
		t.Errorf("files %q", got)
	}
	for _, name := range []string{"dev.yaml.lock", "dev.yaml.12345", "dev.yml", "prod.yaml"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := forgetKubeconfig(file); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(t, dir); !slices.Equal(got, []string{"dev.yml", "prod.yaml", "taken.yaml"}) {
		t.Errorf("files %q", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "taken.yaml", "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := forgetKubeconfig(filepath.Join(dir, "taken.yaml")); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Errorf("forgetKubeconfig of a folder = %v", err)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}
