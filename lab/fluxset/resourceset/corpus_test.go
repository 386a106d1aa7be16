package resourceset

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

	"homelab/lab/render"
	"homelab/lab/strict"
)

var record = flag.String("record", "", "record the corpus with this program of Flux Operator: go test ./lab/fluxset/resourceset -record PATH")

// A case of the corpus is a folder: resourceset.yaml, providers.yaml if it has any, and what `flux-operator build rset` made of them: want.yaml or, of an error,
// want.txt.
const (
	setFile, providersFile = "resourceset.yaml", "providers.yaml"
	wantFile, errorFile    = "want.yaml", "want.txt"
)

// The corpus is what the real program printed: what lab says must equal it, object by object. testdata/exceptions.yaml lists what does not, with the cause.
func TestCorpus(t *testing.T) {
	dirs, err := filepath.Glob("testdata/cases/*")
	if err != nil || len(dirs) < 25 {
		t.Fatalf("%d cases, %v", len(dirs), err)
	}
	var listed map[string]string
	data, err := os.ReadFile("testdata/exceptions.yaml")
	if err == nil {
		err = sigsyaml.UnmarshalStrict(data, &listed)
	}
	if err != nil {
		t.Fatal(err)
	}
	equal := 0
	for _, dir := range dirs {
		if *record != "" {
			recordCase(t, dir)
		}
		name := filepath.Base(dir)
		differs := compare(t, dir)
		switch _, known := listed[name]; {
		case differs == "" && known:
			t.Errorf("%s: equal, but testdata/exceptions.yaml lists it", name)
		case differs == "":
			equal++
		case !known:
			t.Errorf("%s: %s", name, differs)
		}
		delete(listed, name)
	}
	for name := range listed {
		t.Errorf("testdata/exceptions.yaml: there is no case %s", name)
	}
	t.Logf("%d of %d ResourceSets equal", equal, len(dirs))
}

func recordCase(t *testing.T, dir string) {
	t.Helper()
	args := []string{"build", "rset", "-f", filepath.Join(dir, setFile)}
	if _, err := os.Stat(filepath.Join(dir, providersFile)); err == nil {
		args = append(args, "--inputs-from-provider", filepath.Join(dir, providersFile))
	}
	cmd := exec.Command(*record, args...)
	cmd.Env = []string{"HOME=/"}
	var failed bytes.Buffer
	cmd.Stderr = &failed
	out, err := cmd.Output()
	file, other := wantFile, errorFile
	if err != nil {
		file, other, out = other, file, failed.Bytes()
	}
	if err := os.Remove(filepath.Join(dir, other)); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, file), out, 0o644); err != nil {
		t.Fatal(err)
	}
}

// compare returns what lab says differently of a case, or "".
func compare(t *testing.T, dir string) string {
	t.Helper()
	set := caseOf(t, dir)
	docs, unknown, err := set.Expand()
	if text, absent := os.ReadFile(filepath.Join(dir, errorFile)); absent == nil {
		if err == nil {
			return "is an error, but lab does not say so: " + string(text)
		}
		return ""
	}
	text, absent := os.ReadFile(filepath.Join(dir, wantFile))
	switch {
	case absent != nil:
		return "is not recorded"
	case err != nil:
		return "works, but lab says: " + err.Error()
	case len(unknown) > 0:
		return "is known, but not to lab: " + unknown.Error()
	}
	var want, have []any
	for _, doc := range strings.Split("\n"+string(text), "\n---\n") {
		var o any
		if err := sigsyaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatal(err)
		}
		if o != nil {
			want = append(want, o)
		}
	}
	for _, d := range docs {
		var o any
		if err := strict.Into(d.Node, &o); err != nil {
			t.Fatal(err)
		}
		have = append(have, o)
	}
	return cmp.Diff(want, have)
}

func caseOf(t *testing.T, dir string) Set {
	t.Helper()
	read := func(name string) (list []render.Document) {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		var nodes []*yaml.Node
		if err == nil {
			var problems error
			nodes, problems = parsed(name, data)
			err = problems
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes {
			list = append(list, render.Document{Node: n, File: name})
		}
		return list
	}
	sets := read(setFile)
	if len(sets) != 1 {
		t.Fatalf("%s: %d documents", dir, len(sets))
	}
	return Set{Document: sets[0], Providers: read(providersFile)}
}

func parsed(name string, data []byte) ([]*yaml.Node, error) {
	nodes, problems := strict.Parse(name, data)
	if len(problems) > 0 {
		return nil, problems
	}
	return nodes, nil
}
