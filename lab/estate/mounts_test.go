package estate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/tools/txtar"

	"homelab/lab"
	"homelab/lab/bridge"
	"homelab/lab/fluxset"
	"homelab/lab/needs"
)

// foreignEstate is an estate next to a repository without lab's files.
const foreignEstate = `
-- estate/clusters/hub/cluster.yaml --
apiVersion: lab/v1alpha1
kind: Cluster
metadata: {name: hub}
spec:
  role: hub
  repositories:
    https://github.com/acme/gitops.git: ../gitops
-- estate/clusters/dev/cluster.yaml --
apiVersion: lab/v1alpha1
kind: Cluster
metadata: {name: dev}
spec:
  role: spoke
  environment: dev
  addons: {cert_manager: true}
  labels: {tier: gold}
-- estate/environments/dev/environment.yaml --
apiVersion: lab/v1alpha1
kind: Environment
metadata: {name: dev}
spec:
  order: 1
  metadata:
    addons_repo_url: git@github.com:acme/gitops.git
    addons_repo_revision: trunk
    addons_repo_basepath: platform/
-- estate/addons/root.yaml --
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: root, namespace: argocd}
spec:
  project: default
  source: {repoURL: https://github.com/acme/gitops, path: bootstrap, targetRevision: HEAD, directory: {recurse: true}}
  destination: {server: https://kubernetes.default.svc, namespace: argocd}
-- gitops/.git/HEAD --
ref: refs/heads/trunk
-- gitops/bootstrap/deep/sets.yml --
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: addons-cert-manager}
spec:
  generators: [{clusters: {selector: {matchLabels: {enable_cert_manager: "true"}}}}]
  template:
    metadata: {name: 'cert-manager-{{name}}'}
    spec:
      project: default
      sources:
        - repoURL: https://charts.jetstack.io
          chart: cert-manager
          targetRevision: v1.14.3
          helm: {valueFiles: ['$values/{{metadata.annotations.addons_repo_basepath}}charts/cert-manager/values.yaml']}
        - {repoURL: '{{metadata.annotations.addons_repo_url}}', targetRevision: '{{metadata.annotations.addons_repo_revision}}', ref: values}
      destination: {name: '{{name}}', namespace: cert-manager}
      syncPolicy: {automated: {}}
---
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: gold}
spec:
  generators:
    - matrix:
        generators:
          - clusters: {selector: {matchLabels: {tier: gold}}}
          - git: {repoURL: https://github.com/acme/gitops.git, revision: trunk, directories: [{path: apps/*}]}
  template:
    metadata: {name: '{{path.basename}}-{{name}}'}
    spec:
      project: default
      source: {repoURL: https://github.com/acme/gitops.git, path: '{{path}}', targetRevision: trunk}
      destination: {name: '{{name}}', namespace: apps}
      syncPolicy: {automated: {}}
-- gitops/apps/web/deployment.yaml --
kind: Deployment
-- gitops/apps/api/deployment.yaml --
kind: Deployment
`

func loadForeign(t *testing.T, change func(dir string)) (*lab.Estate, error) {
	t.Helper()
	root := extracted(t, foreignEstate, change)
	return Load(root.FS(), root.Name(), "test")
}

// extracted returns the folder "estate" of an archive, with the others beside it.
func extracted(t *testing.T, archive string, change func(dir string)) *os.Root {
	t.Helper()
	dir := t.TempDir()
	for _, f := range txtar.Parse([]byte(archive)).Files {
		name := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if change != nil {
		change(dir)
	}
	root, err := os.OpenRoot(filepath.Join(dir, "estate"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

// rootEstate is an estate on Flux beside a repository whose root has objects of its own.
const rootEstate = `
-- estate/environments/default/environment.yaml --
apiVersion: lab/v1alpha1
kind: Environment
metadata: {name: default}
-- estate/clusters/home/cluster.yaml --
apiVersion: lab/v1alpha1
kind: Cluster
metadata: {name: home}
spec:
  role: hub
  engine: {type: flux, shape: standalone}
  repositories: {https://github.com/acme/home: ../home}
-- estate/clusters/home/flux-system/gotk-sync.yaml --
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: flux-system, namespace: flux-system}
spec: {interval: 1m, url: https://github.com/acme/home, ref: {branch: main}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: flux-system, namespace: flux-system}
spec: {interval: 10m, path: ./root, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}
-- home/root/apps.yaml --
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: apps, namespace: flux-system}
spec: {interval: 10m, path: ./apps, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}
---
apiVersion: v1
kind: Namespace
metadata: {name: web}
-- home/root/web.yaml --
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: web}
spec: {containers: [{name: web, image: "ghcr.io/acme/web:1.2.3"}]}
-- home/apps/config.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: config, namespace: web}
`

// openRoot returns rootEstate with the files that lab generates.
func openRoot(t *testing.T, change func(dir string)) *os.Root {
	t.Helper()
	return extracted(t, rootEstate, func(dir string) {
		own := filepath.Join(dir, "estate")
		e, err := Load(os.DirFS(own), own, "test", Ungenerated())
		if err != nil {
			t.Fatal(err)
		}
		files, err := fluxset.Files(os.DirFS(own), e.Clusters)
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(own, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if change != nil {
			change(dir)
		}
	})
}

// Objects in a root are part of the model, with what they need; a root that only leads to others is not.
func TestMountedRootWithObjects(t *testing.T) {
	names := func(change func(dir string)) (list []string, e *lab.Estate) {
		root := openRoot(t, change)
		e, apps, err := Desired(root.FS(), root.Name(), "test", WithImages(func(string) string { return "" }))
		if err != nil {
			t.Fatal(err)
		}
		for _, app := range apps {
			docs, err := app.Parts[0].Render()
			list = append(list, fmt.Sprint(app.Name, " ", len(docs), " ", err))
		}
		slices.Sort(list)
		return list, e
	}
	got, e := names(nil)
	if want := []string{"home-apps 1 <nil>", "home-flux-system 3 <nil>"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, a := range e.Applications {
		if root := a.Name == "home-flux-system"; a.Root != root || slices.Equal(a.Pulls, []string{"ghcr.io/acme/web:1.2.3"}) != root {
			t.Errorf("%s: root %t, pulls %q", a.Name, a.Root, a.Pulls)
		}
	}
	got, _ = names(func(dir string) {
		if err := os.Remove(filepath.Join(dir, "home/root/web.yaml")); err != nil {
			t.Error(err)
		}
	})
	if want := []string{"home-apps 1 <nil>"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestLoadMountedRepository(t *testing.T) {
	e, err := loadForeign(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, a := range e.Applications {
		names = append(names, a.Name+" "+a.Addon)
		if slices.Contains(a.Others, "https://github.com/acme/gitops.git") {
			t.Errorf("%s fetches a mounted repository: %v", a.Name, a.Others)
		}
	}
	slices.Sort(names)
	if want := []string{"api-dev gold", "cert-manager-dev cert-manager", "web-dev gold"}; !slices.Equal(names, want) {
		t.Errorf("applications %q, want %q", names, want)
	}
	if got := needs.Others(e); !slices.Equal(got, []string{"https://charts.jetstack.io"}) {
		t.Errorf("others %q", got)
	}
	a, _ := e.Addon("cert-manager")
	if a.File != "../gitops/bootstrap/deep/sets.yml" || a.Position("version") != (lab.Position{File: a.File, Line: 13, Column: 27}) {
		t.Errorf("addon in %s, version at %v", a.File, a.Position("version"))
	}
	r := e.Repositories[0]
	if len(e.Repositories) != 1 || r.Name != "gitops" || r.Branch != "trunk" || !filepath.IsAbs(r.Path) {
		t.Errorf("repositories %+v", e.Repositories)
	}
	if !r.Written {
		t.Error("address not recorded as written")
	}
	dev, _ := e.Cluster("dev")
	env, _ := e.Environment("dev")
	got := bridge.Build("test", env, lab.Environment{}, dev, bridge.InputsOf(e)).Annotations["addons_repo_url"]
	if got.Value != "http://lab-test-forge:3000/lab/gitops.git" || got.Origin != "environment.yaml, mirrored" {
		t.Errorf("addons_repo_url: %+v", got)
	}
}

// SSH addresses are served too, as spelled in manifests.
func TestLoadMountedOverSSH(t *testing.T) {
	const other = "git@gitlab.com:acme/gitops.git"
	for written, want := range map[string][]string{
		"git@github.com:acme/gitops.git":         {"git@github.com:acme/gitops.git"},
		"ssh://git@github.com:2222/Acme/gitops/": {"ssh://git@github.com:2222/Acme/gitops/"},
		"https://github.com/acme/gitops":         nil,
		other:                                    nil,
	} {
		e, err := loadForeign(t, func(dir string) {
			rewrite(t, filepath.Join(dir, "gitops/bootstrap/deep/sets.yml"), "source: {repoURL: https://github.com/acme/gitops.git,", "source: {repoURL: '"+written+"',")
		})
		if err != nil {
			t.Fatalf("%s: %v", written, err)
		}
		if r := e.Repositories[0]; !r.Written || !slices.Equal(r.SSH, want) {
			t.Errorf("%s: written %v, over SSH %q", written, r.Written, r.SSH)
		}
		if got := slices.Contains(needs.Others(e), written); got != (written == other) {
			t.Errorf("%s: others %q", written, needs.Others(e))
		}
	}
}

func rewrite(t *testing.T, file, old, text string) {
	t.Helper()
	was, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	now := strings.ReplaceAll(string(was), old, text)
	if now == string(was) {
		t.Fatalf("%s has no %q", file, old)
	}
	if err := os.WriteFile(file, []byte(now), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestLoadBrokenMount(t *testing.T) {
	for name, c := range map[string]struct {
		mounts string
		want   string
	}{
		"absent":       {"https://github.com/acme/gitops.git: ../elsewhere", "folder ../elsewhere of repository https://github.com/acme/gitops.git: no such file or directory: clone it there: git clone https://github.com/acme/gitops.git ../elsewhere"},
		"twice":        {"https://github.com/acme/gitops.git: ../gitops\n    git@github.com:acme/gitops.git: ../gitops", "a second repository github.com/acme/gitops: the first is ../gitops"},
		"no address":   {"gitops: ../gitops", `"gitops" is not the address of a Git repository: https://HOST/OWNER/NAME, as in manifests`},
		"no folder":    {`https://github.com/acme/gitops.git: ""`, "a repository without folder: name the folder of your clone, relative to the estate"},
		"a file":       {"https://github.com/acme/gitops.git: addons/root.yaml", "folder addons/root.yaml of repository https://github.com/acme/gitops.git: it is a file: clone it there: git clone https://github.com/acme/gitops.git addons/root.yaml"},
		"not a string": {"https://github.com/acme/gitops.git: [x]", "spec.repositories.https://github.com/acme/gitops.git must be text, not a list"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loadForeign(t, func(dir string) {
				rewrite(t, filepath.Join(dir, "estate/clusters/hub/cluster.yaml"), "https://github.com/acme/gitops.git: ../gitops", c.mounts)
			})
			var failed *lab.Error
			if !errors.As(err, &failed) || failed.Exit != lab.ExitInvalid {
				t.Fatalf("error %v", err)
			}
			for _, p := range failed.Problems {
				if p.File == "clusters/hub/cluster.yaml" && p.Line >= 7 && strings.HasSuffix(p.String(), c.want) {
					return
				}
			}
			t.Errorf("problems:\n%v\nwant %s", failed.Problems, c.want)
		})
	}
}

// Files of other tools are ignored.
func TestLoadForeignFolders(t *testing.T) {
	e, err := loadForeign(t, func(dir string) {
		for name, text := range map[string]string{
			"clusters/eu-1/kustomization.yaml":   "resources: [x]\n",
			"clusters/capi/cluster.yaml":         "apiVersion: cluster.x-k8s.io/v1beta1\nkind: Cluster\nmetadata: {name: other}\n",
			"environments/eu/values.yaml":        "a: b\n",
			"environments/eu/environment.yaml":   "apiVersion: example.com/v1\nkind: Environment\n",
			"addons/charts/external/Chart.yaml":  "name: external\n",
			"addons/Not_A_Name/readme.md":        "",
			"clusters/typo/clusters.yaml":        "x: y\n",
			"clusters/eu-2/argocd/projects.yaml": "kind: AppProject\n",
		} {
			file := filepath.Join(dir, "estate", name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Clusters) != 2 || len(e.Environments) != 1 {
		t.Errorf("%d clusters, %d environments", len(e.Clusters), len(e.Environments))
	}
	if len(e.Notes) != 1 || e.Notes[0].String() != "clusters/typo/clusters.yaml: is not read: lab reads cluster.yaml" {
		t.Errorf("notes %v", e.Notes)
	}
}

// A root that syncs its whole repository, including itself and lab's documents.
func TestLoadSelfSyncingRoot(t *testing.T) {
	files := fstest.MapFS{}
	for name, text := range map[string]string{
		"clusters/hub/cluster.yaml": "apiVersion: lab/v1alpha1\nkind: Cluster\nmetadata: {name: hub}\nspec:\n  role: hub\n  repositories: {https://github.com/acme/mono: .}\n",
		"apps/cm.yaml":              "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mono}\n",
		"addons/root.yaml": "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: root}\nspec:\n  project: default\n" +
			"  source: {repoURL: https://github.com/acme/mono, path: ., directory: {recurse: true}}\n  destination: {server: https://kubernetes.default.svc}\n",
	} {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	e, err := Load(files, "", "test")
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Repositories) != 1 || e.Repositories[0].Name != "estate" || !e.Repositories[0].Written {
		t.Errorf("repositories %+v", e.Repositories)
	}
}

// The flags that a repository gives to its own Flux are left out with a note.
func TestMountedRootFlags(t *testing.T) {
	root := openRoot(t, func(dir string) {
		for _, f := range txtar.Parse([]byte(`
-- gotk-components.yaml --
apiVersion: apps/v1
kind: Deployment
metadata: {name: helm-controller, namespace: flux-system, labels: {app.kubernetes.io/part-of: flux}}
spec: {template: {spec: {containers: [{name: manager, args: [--watch-all-namespaces=true]}]}}}
-- instance.yaml --
apiVersion: fluxcd.controlplane.io/v1
kind: FluxInstance
metadata: {name: flux, namespace: flux-system}
spec:
  cluster:
    multitenant: true
-- kustomization.yaml --
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [gotk-components.yaml]
patches:
- target: {kind: Deployment, name: helm-controller}
  patch: |
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: "--no-cross-namespace-refs=true"}
    # - --no-remote-bases=true
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: "--concurrent=20"}
`)).Files {
			name := filepath.Join(dir, "home/root/flux-system", f.Name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, f.Data, 0o644)); err != nil {
				t.Error(err)
			}
		}
	})
	e, err := Load(root.FS(), root.Name(), "test")
	if err != nil {
		t.Fatal(err)
	}
	var notes []string
	for _, n := range e.Notes {
		notes = append(notes, n.String())
	}
	const want = "../home/root/flux-system/instance.yaml:6: flags of Flux's controllers, left out, as the lab has its own Flux: multitenant: true, --no-cross-namespace-refs=true: "
	if !slices.ContainsFunc(notes, func(n string) bool { return strings.HasPrefix(n, want) }) {
		t.Errorf("%q lack %q", notes, want)
	}
}

func TestCureOf(t *testing.T) {
	for address, want := range map[string]string{
		"https://github.com/acme/web": "mount a clone of it", "oci://ghcr.io/acme/web": "lab reads no artifacts of registries", "cnoe://web": "it is a folder that idpbuilder serves",
		"git@github.com:acme/web.git": "mount a clone of it", "git@github.com:<your-org>/web.git": "it is a placeholder",
	} {
		if got := cureOf(address); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", address, got)
		}
	}
}
