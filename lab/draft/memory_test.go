package draft_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"go.yaml.in/yaml/v3"
	"golang.org/x/tools/txtar"

	"homelab/lab"
	"homelab/lab/draft"
)

// drafts drafts states of a repository in memory, with the answers in the newest.
func drafts(url string, states ...fs.FS) ([]*draft.Draft, error) {
	a, err := draft.Answered(states[len(states)-1])
	if err != nil {
		return nil, err
	}
	return draft.InMemory("test", lab.Repository{Name: "gitops", URL: url, Dir: draft.Own, Branch: "main"}, a, states...)
}

// Whatever file a change adds or removes, nothing that is a guess differs: clusters that no file registers, and labels and placeholders of those that both states have.
func TestInMemoryAlike(t *testing.T) {
	cases, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for n, file := range cases {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		repositories := strings.Fields(string(archive.Files[0].Data))
		if len(repositories) != 2 || strings.HasPrefix(filepath.Base(file), "flux-") { // whose clusters are its folders
			continue
		}
		all := fstest.MapFS{}
		for _, f := range archive.Files {
			if name, ok := strings.CutPrefix(f.Name, repositories[1]+"/"); ok {
				all[name] = &fstest.MapFile{Data: f.Data, Mode: 0o644}
			}
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			names := slices.Sorted(maps.Keys(all))
			for i := n % 3; i < len(names); i += 1 + len(names)/3 { // some of each
				name := names[i]
				if !strings.HasSuffix(name, "ml") || bytes.Contains(all[name].Data, []byte("argocd.argoproj.io/secret-type")) {
					continue
				}
				less := maps.Clone(all)
				delete(less, name)
				for _, states := range [][]fs.FS{{all, less}, {less, all}} {
					d, err := drafts(repositories[0], states...)
					if err != nil {
						continue // one of them deploys nothing
					}
					compared++
					if diff := guesses(t, d[0].Files, d[1].Files); diff != "" {
						t.Errorf("%s (%t): %s", name, len(states[0].(fstest.MapFS)) > len(all)-1, diff)
					}
				}
			}
		})
	}
	if compared < 100 {
		t.Errorf("compared %d", compared)
	}
}

// guesses returns how the clusters of two drafts for Argo CD differ.
func guesses(t *testing.T, a, b fs.FS) string {
	t.Helper()
	for _, files := range []fs.FS{a, b} {
		if _, err := fs.Stat(files, lab.RootFile); err != nil {
			return ""
		}
	}
	var diff []string
	values := [2]map[string]string{}
	for i, files := range []fs.FS{a, b} {
		values[i] = map[string]string{}
		for _, pattern := range []string{"clusters/*/cluster.yaml", "environments/*/environment.yaml"} {
			names, _ := fs.Glob(files, pattern)
			for _, name := range names {
				data, err := fs.ReadFile(files, name)
				var doc struct {
					Spec struct {
						Environment string
						Labels      map[string]string
						Metadata    map[string]string
					}
				}
				if err == nil {
					err = yaml.Unmarshal(data, &doc)
				}
				if err != nil {
					t.Fatal(err)
				}
				at := path.Dir(name)
				if strings.HasPrefix(name, lab.ClustersDir) {
					values[i][at] = doc.Spec.Environment
				}
				for _, m := range []map[string]string{doc.Spec.Labels, doc.Spec.Metadata} {
					for k, v := range m {
						values[i][at+" "+k] = v
					}
				}
			}
		}
	}
	for key, v := range values[0] {
		if other, both := values[1][key]; both && other != v {
			diff = append(diff, fmt.Sprintf("%s: %s or %s", key, v, other))
		} else if !both && !strings.Contains(key, " ") {
			diff = append(diff, key+" is gone")
		}
	}
	for key := range values[1] {
		if _, both := values[0][key]; !both && !strings.Contains(key, " ") {
			diff = append(diff, key+" is new")
		}
	}
	slices.Sort(diff)
	return strings.Join(diff, "; ")
}
