package source

import (
	"errors"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"golang.org/x/mod/module"

	"homelab/lab"
)

var update = flag.Bool("update", false, "write what was got into testdata")

func TestBuiltin(t *testing.T) {
	r, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	if r.index("node") > r.index("gitea") || r.index("gitea") > r.index("argocd") {
		t.Error("components are not in the order of `lab up`")
	}
	refs := map[string]string{}
	for _, c := range r.Components {
		if c.Ref == "" {
			continue
		}
		if other, ok := refs[c.Ref]; ok {
			t.Errorf("%s and %s have the same ref %s", other, c.Name, c.Ref)
		}
		refs[c.Ref] = c.Name
		if c.Kind == KindImage && len(c.Entrypoint) == 0 && len(c.Cmd) == 0 && !strings.Contains(c.Ref, "kube-") && !strings.HasPrefix(c.Name, "etcd") {
			t.Errorf("%s has no command, not even in kubeadm's manifests", c.Name)
		}
	}
	if got := r.ImagesOf("podinfo", "6.7.0"); !slices.Equal(got, []string{"podinfo-old"}) {
		t.Errorf("podinfo 6.7.0 runs %v", got)
	}
	if got := r.ImagesOf("argo-cd", "9.9.9"); !slices.Equal(got, []string{"argocd", "redis"}) {
		t.Errorf("argo-cd runs %v", got)
	}
}

// The bridge reports the version before there is a node.
func TestNodeVersion(t *testing.T) {
	r, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	c, ok := r.Get("node")
	if !ok || !strings.HasPrefix(c.Version, "v"+lab.KubernetesVersion+".") {
		t.Errorf("the node runs Kubernetes %s, lab.KubernetesVersion is %s", c.Version, lab.KubernetesVersion)
	}
}

// The node image must contain both images of its storage class.
func TestNodeHasStorageImages(t *testing.T) {
	r, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	kind, err := exec.Command("go", "list", "-m", "-f", "{{.Path}}@{{.Version}} {{.Dir}}", "sigs.k8s.io/kind").Output()
	if err != nil {
		t.Fatal(err)
	}
	module, dir, _ := strings.Cut(strings.TrimSpace(string(kind)), " ")
	node, _ := r.Get("node")
	i := slices.IndexFunc(node.Contents, func(c Content) bool { return c.Const != "" })
	from := node.Contents[i]
	if from.Module != module {
		t.Errorf("the manifest is of %s, lab creates clusters with %s", from.Module, module)
	}
	manifest, err := constant(filepath.Join(dir, from.Path), from.Const, from.With)
	if err != nil || strings.Count(manifest, "image: ") != 2 {
		t.Fatalf("%v\n%s", err, manifest)
	}
	var refs []string
	for _, p := range node.Preload {
		c, _ := r.Get(p)
		refs = append(refs, c.Ref)
	}
	for line := range strings.Lines(manifest) {
		if _, image, ok := strings.Cut(strings.TrimSpace(line), "image: "); ok && !slices.Contains(refs, image) {
			t.Errorf("%s is not preloaded", image)
		}
	}
}

// Each file has invalid recipes and their expected problems.
func TestProblems(t *testing.T) {
	files, err := filepath.Glob("testdata/recipes/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse("recipes.yaml", a.Files[0].Data)
			var problems lab.Problems
			if !errors.As(err, &problems) {
				t.Fatalf("got %v, want problems", err)
			}
			golden(t, file, a, problems.Error()+"\n")
		})
	}
}

// golden compares got with the archive's second file.
func golden(t *testing.T, file string, a *txtar.Archive, got string) {
	t.Helper()
	if *update {
		a.Files = append(a.Files[:1], txtar.File{Name: "want", Data: []byte(got)})
		if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(a.Files[1].Data), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// graph is output of `go mod graph`.
const graph = `lab.build/dns example.com/net@v0.49.0
lab.build/dns k8s.io/api@v0.36.3
example.com/dns@v1.0.0 example.com/net@v0.51.0
example.com/alone@v1.0.0 example.com/net@v0.50.0
example.com/alone@v1.0.0 example.com/net@v0.48.0
example.com/dns@v1.0.0 k8s.io/api@v0.35.2
`

func TestGoMod(t *testing.T) {
	tests := map[string]*Component{
		"kubernetes": {Name: "kubernetes", Module: "k8s.io/kubernetes", Version: "v1.36.3", Local: "v0.36.3"},
		"drop":       {Name: "argocd", Module: "github.com/argoproj/argo-cd/v3", Version: "v3.2.11"},
		"with":       {Name: "dns", Module: "example.com/dns", Version: "v1.0.0", With: "kubernetes"},
		"override":   {Name: "flannel", Module: "example.com/flannel", Version: "v0.1.0", Replace: map[string]string{"example.com/cloud": "example.com/cloud@v1.3.103"}},
		"adds":       {Name: "web", Module: "example.com/web", Version: "v1.0.0", Adds: map[string]string{"dist/index.html": "hello"}},
		"path":       {Name: "seal", Module: "example.com/new/seal", Path: "example.com/old/seal", Version: "v0.40.0"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("testdata", "gomod", name+".txtar")
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var versions map[string]string
			var excluded []module.Version
			if c.With != "" {
				versions = map[string]string{"example.com/net": "v0.49.0", "k8s.io/api": "v0.36.3", "example.com/other": "v1.0.0"}
				excluded = newer([]byte(graph), versions)
			}
			got, err := goMod(c, a.Files[0].Data, versions, excluded)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, file, a, string(got))
		})
	}
}

func TestVersionsOf(t *testing.T) {
	upstream := `module k8s.io/kubernetes
require (
	example.com/forked v1.0.0
	example.com/net v0.49.0
	example.com/pinned v1.2.0
	k8s.io/api v0.0.0
)
replace (
	example.com/forked => example.com/ours v2.0.0
	example.com/pinned => example.com/pinned v1.1.0
	k8s.io/api => ./staging/src/k8s.io/api
)`
	got, err := versionsOf(&Component{Module: "k8s.io/kubernetes", Local: "v0.36.3"}, []byte(upstream))
	want := map[string]string{"example.com/net": "v0.49.0", "example.com/pinned": "v1.1.0", "k8s.io/api": "v0.36.3"}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

func TestExcept(t *testing.T) {
	c := &Component{Except: []string{"example.com/family", "example.com/alone"}}
	for module, want := range map[string]bool{
		"example.com/family": true, "example.com/family/member": true, "example.com/alone": true,
		"example.com/familiar": false, "example.com": false,
	} {
		if got := c.excepts(module); got != want {
			t.Errorf("%s: %t", module, got)
		}
	}
}

func TestGoModInvalid(t *testing.T) {
	c := &Component{Name: "x", Module: "example.com/x", Version: "v1.0.0"}
	if _, err := goMod(c, []byte("not a go.mod"), nil, nil); err == nil {
		t.Error("no error")
	}
	c.Replace = map[string]string{"example.com/y": "no version"}
	if _, err := goMod(c, []byte("module example.com/x\n"), nil, nil); err == nil {
		t.Error("no error for a replacement without a version")
	}
}

const keyRecipes = `components:
- {name: root, kind: rootfs, suite: bookworm, debian: [bash], seconds: 5}
- {name: other, kind: programs, module: example.com/other, version: v1.0.0, packages: [.]}
- {name: beside, kind: programs, module: example.com/beside, version: v1.0.0, packages: [.], with: other, except: [a.b]}
- {name: prog, kind: programs, module: example.com/prog, version: v1.0.0, packages: [.], cgo: true, tags: [a], ldflags: [-X x=y]}
- name: img
  kind: image
  ref: example.com/img:1
  base: root
  contents: [{from: prog, paths: [prog], to: /prog}, {file: su-exec, to: /su-exec, mode: "0755"}]
  cmd: [/prog]
`

func keysOf(t *testing.T, recipes string) map[string]string {
	t.Helper()
	r, err := Parse("recipes.yaml", []byte(recipes))
	if err != nil {
		t.Fatal(err)
	}
	return r.keys
}

func TestKeysStable(t *testing.T) {
	want := keysOf(t, keyRecipes)
	// Estimates, comments and charts are not part of the key.
	same := "# a comment\n" + strings.Replace(keyRecipes, "seconds: 5", "seconds: 50", 1) + "  charts: [x]\n"
	if diff := cmp.Diff(want, keysOf(t, same)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestKeysSensitive(t *testing.T) {
	before := keysOf(t, keyRecipes)
	tests := []struct {
		old, new string
		changes  []string
	}{
		{"suite: bookworm", "suite: trixie", []string{"img", "root"}},
		{"debian: [bash]", "debian: [bash, git]", []string{"img", "root"}},
		{"prog, version: v1.0.0", "prog, version: v1.0.1", []string{"img", "prog"}},
		{"cgo: true", "cgo: false", []string{"img", "prog"}},
		{"tags: [a]", "tags: [b]", []string{"img", "prog"}},
		{"x=y", "x=z", []string{"img", "prog"}},
		{"other, version: v1.0.0", "other, version: v1.0.1", []string{"beside", "other"}},
		{"except: [a.b]", "except: [a.c]", []string{"beside"}},
		{"file: su-exec", "file: redis-entrypoint", []string{"img"}},
		{`mode: "0755"`, `mode: "0750"`, []string{"img"}},
		{"img:1", "img:2", []string{"img"}},
		{"base: root\n", "base: root\n  user: \"1\"\n", []string{"img"}},
	}
	for _, tt := range tests {
		t.Run(tt.new, func(t *testing.T) {
			after := keysOf(t, strings.Replace(keyRecipes, tt.old, tt.new, 1))
			var changed []string
			for name := range after {
				if after[name] != before[name] {
					changed = append(changed, name)
				}
			}
			slices.Sort(changed)
			if !slices.Equal(changed, tt.changes) {
				t.Errorf("changed: %v, want %v", changed, tt.changes)
			}
		})
	}
}

func TestNodeRefHasKey(t *testing.T) {
	r, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	node, _ := r.Get("node")
	ref, err := r.Ref(node)
	if err != nil || ref != "lab/node:"+node.Version+"-"+r.keys["node"][:12] {
		t.Errorf("%s, %v", ref, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(keyRecipes))
	f.Add([]byte("components: [null, {name: a, kind: node}]"))
	f.Add([]byte("components: {a: b}"))
	f.Add([]byte("components:\n- &a {name: x, contents: [*a]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Parse("f", data)
		if err != nil {
			var problems lab.Problems
			if !errors.As(err, &problems) {
				t.Errorf("%T without a position: %v", err, err)
			}
			return
		}
		for _, c := range r.Components {
			if key, err := r.Key(c.Name); err != nil || len(key) != 64 {
				t.Errorf("%s: key %q, %v", c.Name, key, err)
			}
		}
	})
}

func BenchmarkItems(b *testing.B) {
	r, err := Builtin()
	if err != nil {
		b.Fatal(err)
	}
	s := newStore(b)
	for b.Loop() {
		if _, err := New(r, s).Items(); err != nil {
			b.Fatal(err)
		}
	}
}

func TestByRef(t *testing.T) {
	r, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]string{
		"ghcr.io/stefanprodan/podinfo:6.9.2": "podinfo", "ghcr.io/stefanprodan/podinfo:6.9.2@sha256:0": "podinfo", "ghcr.io/stefanprodan/podinfo:0.0.1": "", "": "",
		"registry:3.1.2": "registry", "library/registry:3.1.2": "registry", "docker.io/library/registry:3.1.2": "registry", "index.docker.io/library/registry:3.1.2": "registry",
		"registry:3": "", "other/registry:3.1.2": "", "localhost/registry:3.1.2": "", "registry:5000/registry:3.1.2": "", "docker.io/lab/gate:v1": "gate", "lab/gate:v1": "gate",
	} {
		if got := r.ByRef(ref); got != want {
			t.Errorf("%q: %q", ref, got)
		}
	}
}
