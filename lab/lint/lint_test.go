package lint_test

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/tools/txtar"

	"homelab/lab"
	"homelab/lab/estate"
	"homelab/lab/finding"
	"homelab/lab/fluxset"
	"homelab/lab/lint"
)

const root = `
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: addons, namespace: argocd}
spec:
  project: default
  source: {repoURL: ., targetRevision: main, path: addons, directory: {recurse: true, include: '*/applicationset.yaml'}}
  destination: {server: https://kubernetes.default.svc, namespace: argocd}
  syncPolicy: {automated: {}}
`

const fluxRoot = `
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: flux-system, namespace: flux-system}
spec: {interval: 1m, url: https://git.example.com/lab/estate.git, ref: {branch: main}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: flux-system, namespace: flux-system}
spec: {interval: 10m, path: ./clusters/hub, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}
`

// set is the ApplicationSet of an addon with a chart or manifests.
const set = `
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: NAME, namespace: argocd}
spec:
  goTemplate: true
  generators: [{clusters: {selector: {matchLabels: {enable_LABEL: "true"}}}}]
  template:
    metadata: {name: '{{.name}}-NAME'}
    spec:
      project: default
      sources:
        - {repoURL: '{{.metadata.annotations.addons_repo_url}}', targetRevision: main, ref: values}
        - repoURL: '{{.metadata.annotations.addons_repo_url}}'
          targetRevision: main
          path: addons/NAME/OF
      destination: {name: '{{.name}}', namespace: default}
      syncPolicy: {automated: {}}
`

const helm = `          helm: {ignoreMissingValueFiles: true, valueFiles: [$values/environments/default/addons/NAME/values.yaml]}
`

// build completes an estate: sets for the addons without one, a hub that has all of them, and a root.
func build(files ...fstest.MapFS) fstest.MapFS {
	all := fstest.MapFS{"addons/root.yaml": {Data: []byte(root)}}
	sources := map[string]string{}
	for _, f := range files {
		for name, file := range f {
			all[name] = file
			if parts := strings.Split(name, "/"); parts[0] == lab.AddonsDir {
				sources[parts[1]] = parts[2]
			}
		}
	}
	var addons []string
	for name, of := range sources {
		addons = append(addons, name+": true")
		file := path.Join(lab.AddonsDir, name, "applicationset.yaml")
		if all[file] != nil {
			continue
		}
		text := set
		if of == "chart" {
			text = strings.Replace(set, "      destination", helm+"      destination", 1)
		}
		text = strings.NewReplacer("NAME", name, "LABEL", strings.ReplaceAll(name, "-", "_"), "OF", of).Replace(text)
		all[file] = &fstest.MapFile{Data: []byte(text)}
	}
	slices.Sort(addons)
	all["clusters/hub/cluster.yaml"] = &fstest.MapFile{Data: []byte(
		"apiVersion: lab/v1alpha1\nkind: Cluster\nmetadata: {name: hub}\nspec: {role: hub, provider: kind, addons: {" + strings.Join(addons, ", ") + "}}\n",
	)}
	return all
}

// buildFlux completes an estate for Flux: a hub that has all addons, unless there is one, a spoke, and generated files.
func buildFlux(t *testing.T, files fstest.MapFS) fstest.MapFS {
	t.Helper()
	all := maps.Clone(files)
	var addons []string
	for name := range files {
		if parts := strings.Split(name, "/"); parts[0] == lab.AddonsDir && !slices.Contains(addons, parts[1]+": true") {
			addons = append(addons, parts[1]+": true")
		}
	}
	of := ", provider: kind, addons: {" + strings.Join(addons, ", ") + "}}\n"
	for name, spec := range map[string]string{"hub": "{role: hub, engine: {type: flux}" + of, "dev": "{role: spoke, environment: dev" + of} {
		if file := lab.ClusterFile(name); all[file] == nil {
			all[file] = &fstest.MapFile{Data: []byte("apiVersion: lab/v1alpha1\nkind: Cluster\nmetadata: {name: " + name + "}\nspec: " + spec)}
		}
	}
	all[lab.FluxRootFile("hub")] = &fstest.MapFile{Data: []byte(fluxRoot)}
	all["environments/dev/environment.yaml"] = &fstest.MapFile{Data: []byte("apiVersion: lab/v1alpha1\nkind: Environment\nmetadata: {name: dev}\nspec: {order: 1}\n")}
	est, _, _, err := estate.Inspect(all, "", "test", estate.Ungenerated())
	if err != nil {
		t.Fatal(err)
	}
	generated, err := fluxset.Files(all, est.Clusters)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range generated {
		all[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return all
}

func run(t *testing.T, files fs.FS) lint.Result {
	t.Helper()
	est, apps, problems, err := estate.Inspect(files, "", "test")
	if err != nil {
		t.Fatal(err)
	}
	return lint.Run(lint.Model{Estate: est, Apps: apps, Problems: problems}, lint.Selection{})
}

// cases returns the cases of a folder by rule: files in bad/ and good/, and what is printed for the bad ones.
func cases(t *testing.T, dir string) map[string]struct {
	bad, good fstest.MapFS
	want      string
} {
	t.Helper()
	list := map[string]struct {
		bad, good fstest.MapFS
		want      string
	}{}
	files, err := filepath.Glob("testdata/" + dir + "/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c := list[file]
		c.bad, c.good, c.want = fstest.MapFS{}, fstest.MapFS{}, string(archive.Comment)
		for _, f := range archive.Files {
			if name, good := strings.CutPrefix(f.Name, "good/"); good {
				c.good[name] = &fstest.MapFile{Data: f.Data}
			} else {
				c.bad[strings.TrimPrefix(f.Name, "bad/")] = &fstest.MapFile{Data: f.Data}
			}
		}
		list[strings.TrimSuffix(filepath.Base(file), ".txtar")] = c
	}
	return list
}

// lines returns the findings of a rule as in cases.
func lines(findings []finding.Finding, rule string) string {
	var list []string
	for _, f := range findings {
		if f.Rule == rule {
			list = append(list, fmt.Sprintf("%s:%d %s\n", f.File, f.Line, f.Message))
		}
	}
	slices.Sort(list)
	return strings.Join(list, "")
}

func TestRules(t *testing.T) {
	builds := map[string]func(fstest.MapFS) fstest.MapFS{
		"rules": func(files fstest.MapFS) fstest.MapFS { return build(files) }, "flux": func(files fstest.MapFS) fstest.MapFS { return buildFlux(t, files) },
	}
	for dir, build := range builds {
		for rule, c := range cases(t, dir) {
			t.Run(dir+"/"+rule, func(t *testing.T) {
				if got := lines(run(t, build(c.bad)).Findings, rule); got != c.want {
					t.Errorf("got\n%swant\n%s", got, c.want)
				}
				for _, f := range run(t, build(c.good)).Findings {
					if f.Severity != finding.Note && f.Rule != finding.LeftOut {
						t.Errorf("%s: %s: %s", f.Rule, f.Position, f.Message)
					}
				}
			})
		}
	}
}

// TestEverythingBroken checks that one estate prints what all cases print.
func TestEverythingBroken(t *testing.T) {
	var all []fstest.MapFS
	list := cases(t, "rules")
	for _, c := range list {
		all = append(all, c.bad)
	}
	found := run(t, build(all...)).Findings
	for rule, c := range list {
		if rule == finding.UnusedIgnore { // what a chart that is not here would show is unknown
			continue
		}
		for line := range strings.Lines(c.want) {
			if !strings.Contains(lines(found, rule), line) {
				t.Errorf("%s: %s", rule, line)
			}
		}
	}
}

// TestBrokenEstates runs the rules on estates that are refused, of which parts are missing.
func TestBrokenEstates(t *testing.T) {
	base, err := txtar.ParseFile("../estate/testdata/base.txtar")
	if err != nil {
		t.Fatal(err)
	}
	broken, err := filepath.Glob("../estate/testdata/broken/*.txtar")
	if err != nil || len(broken) < 10 {
		t.Fatal(broken, err)
	}
	refused := 0
	for _, file := range broken {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		files := fstest.MapFS{}
		for _, f := range append(slices.Clone(base.Files), archive.Files[:len(archive.Files)-1]...) {
			files[f.Name] = &fstest.MapFile{Data: f.Data}
		}
		found := run(t, files).Findings
		if slices.ContainsFunc(found, func(f finding.Finding) bool { return f.Severity == finding.Error }) {
			refused++
		}
		for _, f := range found {
			if _, known := finding.ByCode(f.Rule); !known || f.Rule == finding.Other {
				t.Errorf("%s: rule %q of %s: %s", file, f.Rule, f.Position, f.Message)
			}
		}
	}
	if refused < len(broken)*3/4 { // some need links or permissions
		t.Errorf("%d of %d have errors", refused, len(broken))
	}
}
