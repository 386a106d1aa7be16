package runner

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"homelab/lab/docker"
)

// The image has the program, its charts, and folders for the users: no other file.
func TestImage(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("lab"), 0o600); err != nil {
		t.Fatal(err)
	}
	image := Image{Program: program, Charts: map[string][]byte{"lab/carried/web-1.0.0.tgz": []byte("chart")}}
	var b bytes.Buffer
	if err := image.write(&b, nil); err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(&b); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		if h.Name == "lab" && h.Mode != 0o555 || h.Name == "exchange/" && h.Uid != workerUser || h.Name == "secrets/" && (h.Uid != supervisorUser || h.Mode != 0o700) {
			t.Errorf("%+v", h)
		}
	}
	if want := []string{"exchange/", "secrets/", "tmp/", "cache/", "lab", "cache/lab/carried/web-1.0.0.tgz"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	first, err := image.ref()
	if err != nil {
		t.Fatal(err)
	}
	image.Charts["lab/carried/web-1.0.0.tgz"] = []byte("other")
	if second, err := image.ref(); err != nil || second == first || !strings.HasPrefix(second, "lab-runner:") {
		t.Errorf("%s and %s, %v", first, second, err)
	}
}

// What the containers are is in their digest, and a program that cannot be read is said when they start.
func TestInputs(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("lab"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := Options{Place: Place{Lab: "demo"}, Image: func(context.Context) (Image, error) { return Image{Program: program}, nil }, Forge: "lab-demo-forge"}
	first := New("demo", docker.New(), nil, at).Inputs()
	at.Secrets.Password = "other"
	if New("demo", docker.New(), nil, at).Inputs() == first {
		t.Error("another password changes nothing")
	}
	at.Image = func(context.Context) (Image, error) { return Image{}, errors.New("no program") }
	r := New("demo", docker.New(), nil, at)
	if got := r.Inputs(); got != "no program" {
		t.Error(got)
	}
	if err := r.Start(t.Context(), func(string) {}); err == nil {
		t.Error("it starts")
	}
}
