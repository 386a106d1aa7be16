package enginetest

import (
	"strconv"
	"testing"
	"time"

	"homelab/lab"
	"homelab/lab/engine"
)

func TestFake(t *testing.T) {
	f := NewFake()
	f.Commit("one")
	Contract(t, Subject{
		Engine: f, Chart: lab.Chart{Name: "argo-cd", Version: "3.2.11", Digest: "sha256:x"},
		Values: map[string]any{"a": 1}, OtherValues: map[string]any{"a": 2},
		Server:       "https://spoke:6443",
		Repositories: []engine.Repository{{Name: "estate", Type: "git", URL: "http://forge/estate.git", Username: "lab", Password: "hush"}},
		Root:         engine.Root{Manifest: []byte("root")},
		Revision:     "one",
		Break: func(*testing.T) string {
			f.Break("spoke-hello", "deployment hello: 0 of 1 ready")
			f.Commit("two")
			return "two"
		},
		Fix: func(*testing.T) string {
			f.Break("spoke-hello", "")
			f.Commit("three")
			return "three"
		},
		Region: func(t *testing.T) string {
			s, err := f.Observe(t.Context())
			if err != nil || len(s.Registrations) != 1 {
				t.Fatal(s, err)
			}
			return s.Registrations[0].Annotations["aws_region"]
		},
		Revoke:      func(*testing.T) { f.Revoke() },
		Holds:       func(*testing.T) []string { return f.Holds("spoke") },
		Applied:     func(*testing.T) []string { return append(f.Applied(), "namespace hello") },
		Traces:      func(*testing.T) []string { return f.Traces() },
		Fingerprint: func(*testing.T) []string { return []string{strconv.Itoa(f.Writes())} },
		Patience:    time.Minute,
	})
}
