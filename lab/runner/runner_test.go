package runner

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"homelab/lab"
	"homelab/lab/docker"
)

// A static program needs nothing, a dynamic one its loader and libraries, and a script is none.
func TestNeeded(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := elf.Open(self); err != nil {
		t.Skip("no Linux")
	}
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	var e *lab.Error
	if _, err := needed(script); !errors.As(err, &e) || e.Code != "runner_program" || e.Cure == "" {
		t.Errorf("%v", err)
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	files, err := needed(sh)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s: %v", f, err)
		}
	}
	if dynamic := slices.ContainsFunc(files, func(f string) bool { return strings.Contains(f, "libc.") }); !dynamic {
		t.Logf("%s is static", sh)
	}
}

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
	at := Options{Place: Place{Lab: "demo"}, Image: func() (Image, error) { return Image{Program: program}, nil }, Forge: "lab-demo-forge"}
	worker, supervisor := New("demo", docker.New(), nil, at)
	if worker.Inputs() == supervisor.Inputs() || worker.Name() != WorkerName || supervisor.Name() != Name {
		t.Error("both are the same")
	}
	at.Secrets.Password = "other"
	if _, changed := New("demo", docker.New(), nil, at); changed.Inputs() == supervisor.Inputs() {
		t.Error("another password changes nothing")
	}
	at.Image = func() (Image, error) { return Image{}, errors.New("no program") }
	if worker, _ = New("demo", docker.New(), nil, at); worker.Inputs() != "no program" {
		t.Error(worker.Inputs())
	}
	if err := worker.Start(t.Context(), func(string) {}); err == nil {
		t.Error("it starts")
	}
}
