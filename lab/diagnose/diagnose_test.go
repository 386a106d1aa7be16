package diagnose

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"homelab/lab/docker"
)

type containers struct{}

func (containers) Containers(context.Context, ...string) ([]docker.Container, error) {
	return []docker.Container{{Name: "demo-hub-control-plane", Running: true}, {Name: "lab-demo-forge", Running: true}}, nil
}

func (containers) Output(_ context.Context, _ io.Reader, args ...string) ([]byte, error) {
	return []byte("the log says hunter2\n"), nil
}

func (containers) Exec(context.Context, string, io.Reader, ...string) ([]byte, error) {
	return nil, errors.New("no journal")
}

func TestArchive(t *testing.T) {
	s := Subject{
		Lab: "demo", Clusters: []string{"hub"}, Containers: containers{},
		Reach: func(string) (*rest.Config, error) { return nil, errors.New("no such cluster") },
		Documents: []Document{
			{"version.json", func(context.Context) (any, error) { return map[string]string{"password": "hunter2"}, nil }},
			{"estate.txt", func(context.Context) (any, error) { return nil, errors.New("2 problems") }},
			{"clusters.txt", func(context.Context) (any, error) { return nil, nil }},
			{"status.json", func(context.Context) (any, error) { return nil, errors.New("no answer") }},
		},
	}
	name := filepath.Join(t.TempDir(), "demo.tar.gz")
	if err := Collect(t.Context(), s).Write(name, "hunter2", ""); err != nil {
		t.Fatal(err)
	}
	files := read(t, name)
	for file, text := range map[string]string{
		"version.json": `"password": "REDACTED"`, "estate.txt": "unavailable: 2 problems", "status.json": "unavailable: no answer",
		"logs/demo-hub-control-plane.log": "the log says REDACTED", "logs/demo-hub-control-plane.journal": "unavailable: no journal",
		"logs/lab-demo-forge.log": "REDACTED", "containers.json": "lab-demo-forge", "hub/error.txt": "unavailable: no such cluster",
	} {
		if !strings.Contains(files["lab-demo/"+file], text) {
			t.Errorf("%s: %q, want %q", file, files["lab-demo/"+file], text)
		}
	}
	if len(files) != 8 { // no journal of the forge, no file for an empty document
		t.Errorf("%d files: %v", len(files), files)
	}
}

func read(t *testing.T, name string) map[string]string {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(data)
	}
}

func TestSteady(t *testing.T) {
	pod := func(phase corev1.PodPhase, ready bool, restarts int32) corev1.Pod {
		return corev1.Pod{Status: corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{Ready: ready, RestartCount: restarts}}}}
	}
	for name, c := range map[string]struct {
		pod  corev1.Pod
		want bool
	}{
		"running": {pod(corev1.PodRunning, true, 0), true}, "not ready": {pod(corev1.PodRunning, false, 0), false},
		"restarted": {pod(corev1.PodRunning, true, 1), false}, "pending": {corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}, false},
	} {
		if got := steady(c.pod); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
