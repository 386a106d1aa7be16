package render

import (
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"homelab/lab/appset"
	"homelab/lab/argo"
)

// seen is a tree that records what is asked of it.
type seen struct {
	fs.FS
	read map[string]bool
}

func (w seen) Open(name string) (fs.File, error) {
	w.read[name] = true
	return w.FS.Open(name)
}

func (w seen) ReadFile(name string) ([]byte, error) {
	w.read[name] = true
	return fs.ReadFile(w.FS, name)
}

func (w seen) ReadDir(name string) ([]fs.DirEntry, error) {
	w.read[name] = true
	return fs.ReadDir(w.FS, name)
}

func (w seen) Stat(name string) (fs.FileInfo, error) {
	if name != "." { // kustomize edit looks at its working directory
		w.read[name] = true
	}
	return fs.Stat(w.FS, name)
}

func (w seen) Lstat(name string) (fs.FileInfo, error) {
	w.read[name] = true
	return fs.Lstat(w.FS, name)
}

func (w seen) ReadLink(name string) (string, error) {
	w.read[name] = true
	return fs.ReadLink(w.FS, name)
}

// The inputs of every case have all that its rendering reads.
func TestInputsAreComplete(t *testing.T) {
	bounded := 0
	for _, c := range casesOf(t) {
		t.Run(c.name, func(t *testing.T) {
			m, _ := argo.ParseMinor(versions[0])
			app, _ := appset.API{Minor: m}.ParseApplication("application.yaml", c.application)
			trees := map[string]seen{} // by URL
			repository := func(url string) fs.FS {
				dir, ok := c.repositories[url]
				if !ok {
					return nil
				}
				if _, ok := trees[url]; !ok {
					trees[url] = seen{os.DirFS(dir), map[string]bool{}}
				}
				return trees[url]
			}
			for _, s := range c.sources(app, m, repository) {
				has := map[string][]string{} // by URL
				if _, err := s.Inputs(func(ref, name string) string {
					url := s.RepoURL
					for _, o := range s.Sources {
						if o.Ref == ref && ref != "" {
							url = o.RepoURL
						}
					}
					has[url] = append(has[url], name)
					return name
				}); err != nil {
					t.Fatal(err)
				}
				if !slices.Contains(has[s.RepoURL], ".") || s.Path == "." {
					bounded++
				}
				globbed := map[string]bool{} // by Inputs itself: which files patterns match decides the digest
				for _, w := range trees {
					maps.Copy(globbed, w.read)
					clear(w.read)
				}
				_, _ = Render(s)
				for url, w := range trees {
					for name := range maps.Keys(w.read) {
						if !globbed[name] && !slices.ContainsFunc(has[url], func(in string) bool { return in == "." || name == in || strings.HasPrefix(name, in+"/") }) {
							t.Errorf("%s of %s was read, inputs are %q", name, url, has[url])
						}
					}
				}
			}
		})
	}
	if bounded < 50 {
		t.Errorf("only %d sources do not depend on their whole repository", bounded)
	}
}

func TestInputs(t *testing.T) {
	files := func() fstest.MapFS {
		return fstest.MapFS{
			"web/Chart.yaml":            {Data: []byte("apiVersion: v2\nname: web\nversion: 1.0.0\n")},
			"web/templates/a.yaml":      {Data: []byte("kind: A\n")},
			"values/web.yaml":           {Data: []byte("a: 1\n")},
			"values/other.yaml":         {Data: []byte("a: 1\n")},
			"kustomized/base.yaml":      {Data: []byte("kind: A\n")},
			"kustomized/Kustomization":  {Data: []byte("resources: [base.yaml, ../base]\n")},
			"base/kustomization.yaml":   {Data: []byte("resources: [a.yaml]\n")},
			"base/a.yaml":               {Data: []byte("kind: A\n")},
			"inflated/Kustomization":    {Data: []byte("helmCharts: [{name: web, repo: 'https://charts.example.com', version: 1.0.0}]\nresources: ['https://example.com/install.yaml', a.yaml]\n")},
			"inflated/a.yaml":           {Data: []byte("kind: A\n")},
			"home/Kustomization":        {Data: []byte("helmGlobals: {chartHome: ../charts}\nhelmCharts: [{name: web}]\n")},
			"plain/a.yaml":              {Data: []byte("kind: A\n")},
			"web/templates/_helper.tpl": {Data: []byte("\n")},
		}
	}
	inputs := func(files fstest.MapFS, path string) string {
		s := Source{FS: files, Application: "web", Source: appset.Source{Path: path}}
		if path == "web" {
			s.Helm = &appset.Helm{ValueFiles: []string{"../values/web.yaml", "../values/missing.yaml"}, IgnoreMissingValueFiles: true}
		}
		text, err := s.Inputs(func(_, name string) string { return Digest(files, name) })
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for _, tc := range []struct {
		change, path string
		differs      bool
	}{
		{"web/templates/_helper.tpl", "web", true},
		{"values/web.yaml", "web", true},
		{"values/missing.yaml", "web", true},
		{"values/other.yaml", "web", false},
		{"web/.argocd-source.yaml", "web", true},
		{"values/other.yaml", "plain", false},
		{"plain/b.yaml", "plain", true},
		{"values/other.yaml", "kustomized", false},
		{"kustomized/base.yaml", "kustomized", true},
		{"kustomized/Kustomization", "kustomized", true},
		{"base/a.yaml", "kustomized", true},
		{"base/kustomization.yaml", "kustomized", true},
		{"kustomized/.argocd-source.yaml", "kustomized", true},
		{"values/other.yaml", "inflated", false},
		{"inflated/a.yaml", "inflated", true},
		{"inflated/Kustomization", "inflated", true},
		{"values/other.yaml", "home", true}, // it may read anything
		{"values/other.yaml", "missing", true},
	} {
		changed := files()
		changed[tc.change] = &fstest.MapFile{Data: []byte("a: 2\n")}
		if differs := inputs(files(), tc.path) != inputs(changed, tc.path); differs != tc.differs {
			t.Errorf("%s of %s: %t", tc.change, tc.path, differs)
		}
	}
}
