package estate

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"homelab/lab"
	"homelab/lab/fluxset"
)

// defaultFiles returns an editable copy of the default estate.
func defaultFiles(t *testing.T) fstest.MapFS {
	t.Helper()
	return filesOf(t, "../..")
}

// filesOf returns an editable copy of the estate in a folder.
func filesOf(t *testing.T, at string) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	for _, dir := range []string{lab.ClustersDir, lab.EnvironmentsDir, lab.AddonsDir} {
		root := os.DirFS(at)
		err := fs.WalkDir(root, dir, func(name string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			data, err := fs.ReadFile(root, name)
			files[name] = &fstest.MapFile{Data: data, Mode: 0o644}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func onFlux(t *testing.T, files fs.FS) (*lab.Estate, lab.Problems) {
	t.Helper()
	e, err := Load(files, "", "homelab", WithEngine(lab.EngineFlux))
	var failed *lab.Error
	if err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	if failed != nil {
		return nil, failed.Problems
	}
	return e, nil
}

// Both engines generate the same applications and charts.
func TestSameApplicationsOnFlux(t *testing.T) {
	type has struct{ name, addon, cluster, namespace, chart string }
	applications := func(e *lab.Estate) []has {
		var list []has
		for _, a := range e.Applications {
			h := has{a.Name, a.Addon, a.Cluster, a.Namespace, ""}
			for _, c := range a.Charts {
				h.chart += c.Name + " " + c.Version + " " + c.Repository
				if c.At.Line == 0 {
					t.Errorf("%s: no position of version %s", a.Name, c.Version)
				}
			}
			list = append(list, h)
		}
		slices.SortFunc(list, func(a, b has) int { return strings.Compare(a.name, b.name) })
		return list
	}
	flux, problems := onFlux(t, defaultFiles(t))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	argo := load(t, "../..")
	if got, want := applications(flux), applications(argo); len(got) != 10 || !slices.Equal(got, want) {
		t.Errorf("Flux generates\n%v\nArgo CD\n%v", got, want)
	}
	for _, a := range argo.Addons {
		other, ok := flux.Addon(a.Name)
		if !ok || a.Chart != other.Chart || a.Path != other.Path || a.Namespace != other.Namespace {
			t.Errorf("addon %s: %+v, Flux has %+v", a.Name, a, other)
		}
		for _, env := range []string{"", "dev", "staging", "prod"} {
			got, at := other.Version(env)
			if want, _ := a.Version(env); got != want || want != "" && at.Line == 0 {
				t.Errorf("%s in %q: version %q at %s, Argo CD has %q", a.Name, env, got, at, want)
			}
		}
	}
	if flux.RootFile() != "clusters/hub/flux-system/gotk-sync.yaml" || argo.RootFile() != lab.RootFile {
		t.Errorf("roots %s and %s", flux.RootFile(), argo.RootFile())
	}
}

func TestFluxProblems(t *testing.T) {
	const release = "addons/podinfo/flux/release.yaml"
	for name, c := range map[string]struct {
		edit func(files fstest.MapFS)
		want []string // "file:line" and words of each problem
	}{
		"no manifests": {
			func(f fstest.MapFS) { delete(f, "addons/identity/flux/release.yaml") },
			[]string{
				"addons/identity/flux:1 does not exist: clusters enable the addon",
				"clusters/dev/cluster.yaml:8 no addon identity", "clusters/prod/cluster.yaml:9 no addon identity", "clusters/staging/cluster.yaml:8 no addon identity",
			},
		},
		"stale": {
			func(f fstest.MapFS) { replace(f, "clusters/dev/cluster.yaml", "identity: true", "identity: false") },
			[]string{
				"clusters/dev/addons/identity/kustomization.yaml:1 is left over: no longer needed: lab generate removes it",
				"clusters/dev/flux.yaml:1 is stale: edited, or older than cluster.yaml and addons/: lab generate writes it",
			},
		},
		"foreign file": {
			func(f fstest.MapFS) { f["clusters/dev/flux.yaml"].Data = []byte("# mine\n") },
			[]string{"clusters/dev/flux.yaml:1 was not written by lab: move it away"},
		},
		"missing": {
			func(f fstest.MapFS) { delete(f, "clusters/prod/addons/podinfo/kustomization.yaml") },
			[]string{"clusters/prod/addons/podinfo/kustomization.yaml:1 does not exist, but Flux needs it: lab generate writes it"},
		},
		"unset variable": {
			func(f fstest.MapFS) { replace(f, release, "on ${cloud}", "on ${cluod}") },
			[]string{
				release + ":25 variable cluod is not set for cluster dev: set it in spec.metadata",
			},
		},
		"missing chart source": {
			func(f fstest.MapFS) { replace(f, release, "name: charts", "name: chart") },
			[]string{release + ":1 HelmRelease podinfo: chart source HelmRepository flux-system/chart does not exist: add it to the release's folder"},
		},
		"releases and manifests": {
			func(f fstest.MapFS) {
				f["addons/podinfo/flux/more.yaml"] = &fstest.MapFile{Data: []byte("apiVersion: v1\nkind: Service\nmetadata: {name: x}\n")}
			},
			[]string{"addons/podinfo/flux/more.yaml:1 an addon is HelmReleases or manifests, not both: " + release},
		},
		"no root": {
			func(f fstest.MapFS) { delete(f, "clusters/hub/flux-system/gotk-sync.yaml") },
			[]string{"clusters/hub/flux-system/gotk-sync.yaml:1 does not exist: it contains Flux's first GitRepository"},
		},
		"root without Kustomization": {
			func(f fstest.MapFS) {
				f["clusters/hub/flux-system/gotk-sync.yaml"].Data = []byte("kind: GitRepository\n")
			},
			[]string{"clusters/hub/flux-system/gotk-sync.yaml:1 contains no Kustomization"},
		},
		"unknown source": {
			func(f fstest.MapFS) {
				replace(f, "clusters/hub/flux-system/gotk-sync.yaml", "sourceRef: {kind: GitRepository, name: flux-system}", "sourceRef: {kind: GitRepository, name: other}")
			},
			[]string{"clusters/hub/flux-system/gotk-sync.yaml:29 Kustomization flux-system: source GitRepository flux-system/other does not exist"},
		},
		"missing folder": {
			func(f fstest.MapFS) {
				replace(f, "clusters/hub/flux-system/gotk-sync.yaml", "./clusters/hub", "./clusters/hup")
			},
			[]string{"clusters/hup no such folder"},
		},
		"missing chart folder": {
			func(f fstest.MapFS) {
				replace(f, "addons/identity/flux/release.yaml", "./addons/identity/chart", "./addons/identity/chrt")
			},
			[]string{"addons/identity/flux/release.yaml:2 no folder addons/identity/chrt in the estate"},
		},
		"engine namespace": {
			func(f fstest.MapFS) {
				replace(f, "clusters/hub/cluster.yaml", "{type: argocd}", "{type: flux, namespace: gitops}")
			},
			[]string{"clusters/hub/cluster.yaml:9 Flux runs in namespace flux-system: leave it out"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := defaultFiles(t)
			c.edit(files)
			_, problems := onFlux(t, files)
			if len(problems) != len(c.want) {
				t.Fatalf("%d problems, want %d:\n%v", len(problems), len(c.want), problems)
			}
			for i, p := range problems {
				got := p.File
				if p.Line > 0 {
					got = strings.TrimSuffix(lab.Position{File: p.File, Line: p.Line}.String(), ":")
				}
				if got += " " + p.Message + ": " + p.Cure; !strings.HasPrefix(got, c.want[i]) {
					t.Errorf("%s\nwant %s", got, c.want[i])
				}
			}
		})
	}
}

func replace(files fstest.MapFS, name, was, is string) {
	files[name].Data = []byte(strings.Replace(string(files[name].Data), was, is, 1))
}

func TestArgoCDIgnoresStaleFluxFiles(t *testing.T) {
	files := defaultFiles(t)
	files["clusters/dev/flux.yaml"].Data = []byte("# mine\n")
	if _, err := Load(files, "", "homelab"); err != nil {
		t.Errorf("%v", err.(*lab.Error).Problems)
	}
}

// generated adds the files that lab generates for Flux.
func generated(t *testing.T, files fstest.MapFS) fstest.MapFS {
	t.Helper()
	e, err := Load(files, "", "homelab", Ungenerated())
	if err != nil {
		t.Fatal(err)
	}
	want, err := fluxset.Files(files, e.Clusters)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range want {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}

// Both shapes of Flux generate the same applications.
func TestStandalone(t *testing.T) {
	files := defaultFiles(t)
	replace(files, "clusters/hub/cluster.yaml", "{type: argocd}", "{type: flux, shape: standalone}")
	if _, problems := onFlux(t, files); len(problems) == 0 || !strings.Contains(problems[0].Cure, "lab generate") {
		t.Errorf("files of the other shape: %v", problems)
	}
	own, problems := onFlux(t, generated(t, files))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	hub, _ := onFlux(t, defaultFiles(t))
	names := func(e *lab.Estate) []string {
		var list []string
		for _, a := range e.Applications {
			list = append(list, a.Name+" "+a.Cluster+" "+a.Namespace)
		}
		slices.Sort(list)
		return list
	}
	if got, want := names(own), names(hub); len(got) != 10 || !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if got := own.RootFileOf("dev"); got != "clusters/dev/flux-system/gotk-sync.yaml" || hub.RootFileOf("dev") != "" || hub.RootFileOf("hub") != hub.RootFile() {
		t.Errorf("roots %q, and of the other shape %q and %q", got, hub.RootFileOf("dev"), hub.RootFileOf("hub"))
	}

	// A cluster's root that reads another cluster's folder.
	files["clusters/dev/flux-system/gotk-sync.yaml"].Data = []byte(strings.Replace(string(defaultFiles(t)["clusters/hub/flux-system/gotk-sync.yaml"].Data), "./clusters/hub", "./clusters/prod", 1))
	_, problems = onFlux(t, files)
	if len(problems) == 0 || problems[0].File != "clusters/prod/flux.yaml" || !strings.Contains(problems[0].Message, "of cluster prod is reached from clusters/dev/flux-system/gotk-sync.yaml") {
		t.Errorf("%v", problems)
	}
}
