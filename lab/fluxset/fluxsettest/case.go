// Package fluxsettest reads the corpus of Flux: manifests and repositories, and what the real controllers made of them.
package fluxsettest

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// Host is the nominal host of the corpus. Host + NAME is the repository of a case, with its files on branch main.
const Host = "https://git.example.com/"

// Source is the name of the GitRepository that each case has of its repository.
const Source = "repository"

// Case is a folder of the corpus: root.yaml with what somebody applies, repository/ with the files, and want.yaml with the recording. Objects of root.yaml
// without a namespace are in that of the case, which has its name. The case owns it and all whose names begin with its name and two hyphens.
type Case struct{ Name, Dir string }

// Want is what the controllers made of a case.
type Want struct {
	Refused        string            `json:"refused,omitempty"` // the API server's error for root.yaml
	Kustomizations map[string]Result `json:"kustomizations,omitempty"`
	Releases       map[string]Result `json:"releases,omitempty"`
}

// Result is what became of a Kustomization or a HelmRelease, by NAMESPACE/NAME.
type Result struct {
	Reason  string `json:"reason,omitempty"`  // of condition Ready, unless it is true
	Message string `json:"message,omitempty"` // likewise, its start

	// Of the Helm release. Storage is the namespace of its Secret.
	Storage   string `json:"storage,omitempty"`
	Name      string `json:"name,omitempty"`
	Namespace string `json:"namespace,omitempty"`

	Objects []map[string]any `json:"objects,omitempty"` // as applied, or as in the release's manifest, without the controller's labels
	Hooks   []map[string]any `json:"hooks,omitempty"`
	CRDs    []string         `json:"crds,omitempty"` // names of those that the chart's release applied
}

// Cases returns the cases of a corpus, by name.
func Cases(t testing.TB, corpus string) []Case {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(corpus, "cases", "*", "root.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases in %s: %v", corpus, err)
	}
	var cases []Case
	for _, file := range files {
		cases = append(cases, Case{Name: filepath.Base(filepath.Dir(file)), Dir: filepath.Dir(file)})
	}
	return cases
}

// Owns reports whether a namespace is the case's.
func (c Case) Owns(namespace string) bool {
	return namespace == c.Name || strings.HasPrefix(namespace, c.Name+"--")
}

// Files returns the folder of the case's repository.
func (c Case) Files() string { return filepath.Join(c.Dir, "repository") }

// Root returns the documents of root.yaml with their namespaces, after the GitRepository of the case's repository.
func (c Case) Root(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(c.Dir, "root.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	source := "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {name: " + Source + "}\nspec: {interval: 1h, url: " + Host + c.Name + ", ref: {branch: main}}\n"
	var all [][]byte
	for _, text := range bytes.Split(append([]byte(source+"---\n"), data...), []byte("\n---\n")) {
		var o map[string]any
		if err := yaml.Unmarshal(text, &o); err != nil {
			t.Fatal(err)
		}
		metadata, ok := o["metadata"].(map[string]any)
		if !ok {
			t.Fatalf("%s: no metadata", text)
		}
		if metadata["namespace"] == nil && o["kind"] != "Namespace" && o["kind"] != "CustomResourceDefinition" {
			metadata["namespace"] = c.Name
		}
		if text, err = yaml.Marshal(o); err != nil {
			t.Fatal(err)
		}
		all = append(all, text)
	}
	return bytes.Join(all, []byte("---\n"))
}

// Want returns the recording, or nil if there is none.
func (c Case) Want(t testing.TB) *Want {
	t.Helper()
	data, err := os.ReadFile(c.file())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	w := new(Want)
	if err == nil {
		err = yaml.UnmarshalStrict(data, w)
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// Record writes the recording.
func (c Case) Record(t testing.TB, w Want) {
	t.Helper()
	if err := os.WriteFile(c.file(), w.Marshal(t), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Marshal encodes a recording.
func (w Want) Marshal(t testing.TB) []byte {
	t.Helper()
	data, err := yaml.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (c Case) file() string { return filepath.Join(c.Dir, "want.yaml") }
