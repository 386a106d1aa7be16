package render

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

	"homelab/lab/appset"
	"homelab/lab/argo"
	"homelab/lab/strict"
)

var update = flag.Bool("update", false, "update the expected output in testdata")

// Each file of testdata is a case: source.yaml, a repository, and the expected output.
func TestRender(t *testing.T) {
	cases, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil || len(cases) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, name := range cases {
		t.Run(strings.TrimSuffix(strings.TrimPrefix(name, "testdata/"), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			repo, values := fstest.MapFS{}, fstest.MapFS{}
			var source, want *txtar.File
			minor := argo.Newest
			for i := range archive.Files {
				switch f := &archive.Files[i]; {
				case f.Name == "source.yaml":
					source = f
				case f.Name == "want":
					want = f
				case f.Name == "minor":
					minor, _ = argo.ParseMinor(strings.TrimSpace(string(f.Data)))
				case strings.HasPrefix(f.Name, "ref/"):
					values[strings.TrimPrefix(f.Name, "ref/")] = &fstest.MapFile{Data: f.Data}
				default:
					repo[f.Name] = &fstest.MapFile{Data: f.Data}
				}
			}
			s := Source{FS: repo, Application: "app", Project: "default", Namespace: "argocd", Minor: minor, Sources: []appset.Source{{Ref: "values"}, {Ref: "elsewhere"}}, Ref: func(name string) fs.FS {
				if name == "values" {
					return values
				}
				return nil
			}}
			if err := sigsyaml.UnmarshalStrict(source.Data, &s.Source); err != nil {
				t.Fatal(err)
			}
			got := dumpDocuments(t, s)
			if *update {
				want.Data = []byte(got)
				if err := os.WriteFile(name, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(string(want.Data), got); d != "" {
				t.Errorf("(-update updates the case)\n%s", d)
			}
		})
	}
}

// dumpDocuments formats the documents of a source with the file and line of each line.
func dumpDocuments(t *testing.T, s Source) string {
	t.Helper()
	docs, err := Render(s)
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			t.Fatalf("%T %v", err, err)
		}
		return fmt.Sprintf("error: %v\nremote: %q\n", e, e.Remote)
	}
	var b strings.Builder
	for _, d := range docs {
		fmt.Fprintf(&b, "--- %s", d.File)
		if d.Line > 0 {
			fmt.Fprintf(&b, ":%d", d.Line)
		}
		text, err := yaml.Marshal(d.Node)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "\n%s", text)
		if name := field(d.Node, "metadata", "name"); name != nil && name.Line > 0 {
			fmt.Fprintf(&b, "(name in line %d)\n", name.Line)
		}
	}
	return b.String()
}

func field(n *yaml.Node, keys ...string) *yaml.Node {
	for _, key := range keys {
		var next *yaml.Node
		for i := 0; n != nil && i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				next = n.Content[i+1]
			}
		}
		n = next
	}
	return n
}

func chartOf(files map[string]string) Source {
	repo := fstest.MapFS{"c/Chart.yaml": {Data: []byte("apiVersion: v2\nname: c\nversion: 0.1.0\n")}}
	for name, data := range files {
		repo["c/"+name] = &fstest.MapFile{Data: []byte(data)}
	}
	return Source{FS: repo, Source: appset.Source{Path: "c"}, Application: "app", Namespace: "ns"}
}

func TestTooManyFiles(t *testing.T) {
	files := map[string]string{}
	for i := range maxFiles + 1 {
		files[fmt.Sprintf("files/%d", i)] = ""
	}
	if _, err := Render(chartOf(files)); err == nil || !strings.Contains(err.Error(), "too much") {
		t.Errorf("%v", err)
	}
	if _, err := Render(chartOf(map[string]string{"big": strings.Repeat("x", maxBytes+1)})); err == nil || !strings.Contains(err.Error(), "too much") {
		t.Errorf("%v", err)
	}
}

// Charts ask for the kinds that every cluster has.
func TestBuiltinKinds(t *testing.T) {
	s := chartOf(map[string]string{"templates/cm.yaml": `apiVersion: v1
kind: ConfigMap
metadata: {name: asked}
data:
{{- range tuple "v1" "v1/Pod" "batch/v1/CronJob" "networking.k8s.io/v1/Ingress" "policy/v1beta1/PodSecurityPolicy" "example.com/v1/Thing" }}
  {{ replace "/" "." . }}: {{ $.Capabilities.APIVersions.Has . | quote }}
{{- end }}
`})
	docs, err := Render(s)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"v1": "true", "v1.Pod": "true", "batch.v1.CronJob": "true", "networking.k8s.io.v1.Ingress": "true",
		"policy.v1beta1.PodSecurityPolicy": "false", "example.com.v1.Thing": "false",
	} {
		if got := strict.Text(docs[0].Node, "data", name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestTypeOf(t *testing.T) {
	file := func(names ...string) fstest.MapFS {
		m := fstest.MapFS{"a/b.yaml": {}}
		for _, n := range names {
			m[n] = &fstest.MapFile{}
		}
		return m
	}
	for _, c := range []struct {
		repo   fstest.MapFS
		source appset.Source
		want   Type
	}{
		{file(), appset.Source{}, Plain},
		{file("a/Chart.yaml"), appset.Source{}, Helm},
		{file("a/Chart.yaml/x"), appset.Source{}, Plain},
		{file("a/Kustomization"), appset.Source{}, Kustomize},
		{file("a/Chart.yaml", "a/kustomization.yml"), appset.Source{}, Kustomize},
		{file("a/c/Chart.yaml"), appset.Source{}, Plain},
		{file("a/Chart.yaml"), appset.Source{Directory: &appset.Directory{}}, Plain},
		{file("a/kustomization.yaml"), appset.Source{Helm: &appset.Helm{}}, Helm},
		{file("a/Chart.yaml"), appset.Source{Kustomize: &appset.Kustomize{}}, Kustomize},
		{file("a/Chart.yaml"), appset.Source{Plugin: &appset.Plugin{}}, Plugin},
	} {
		c.source.Path = "a"
		if got := TypeOf(c.repo, c.source); got != c.want {
			t.Errorf("%v %+v: %s, want %s", c.repo, c.source, got, c.want)
		}
	}
}

// CRDs exceed the limits for handwritten files.
func TestLargeDocument(t *testing.T) {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: large\ndata:\n")
	for i := range 60_000 {
		fmt.Fprintf(&b, "  k%d: v\n", i)
	}
	crd := b.String()
	docs, err := Render(chartOf(map[string]string{"templates/a.yaml": "---\n---\n" + crd, "crds/b.yaml": crd}))
	if err != nil || len(docs) != 2 || docs[0].Line != 1 {
		t.Errorf("%d documents, %v", len(docs), err)
	}
}

func TestKustomizeLimits(t *testing.T) {
	repo := fstest.MapFS{}
	for i := range 12 {
		var b strings.Builder
		b.WriteString("resources:\n")
		for range 3 {
			fmt.Fprintf(&b, "- ../k%d\n", i+1)
		}
		repo[fmt.Sprintf("k%d/kustomization.yaml", i)] = &fstest.MapFile{Data: []byte(b.String())}
	}
	repo["k12/kustomization.yaml"] = &fstest.MapFile{Data: []byte("resources: []\n")}
	if _, err := Render(Source{FS: repo, Source: appset.Source{Path: "k0"}}); err == nil || !strings.Contains(err.Error(), "more than 1000") {
		t.Errorf("%v", err)
	}
}

func TestMentions(t *testing.T) {
	repo := fstest.MapFS{
		"k/kustomization.yaml": {Data: []byte("resources: [../b]\n")}, "b/kustomization.yaml": {Data: []byte("resources: [a.yaml]\n")},
		"b/a.yaml": {Data: []byte("apiVersion: argoproj.io/v1alpha1\n")}, "b/other.yaml": {Data: []byte("kind: Else\n")},
		"c/Chart.yaml": {}, "c/templates/a.yaml": {Data: []byte("apiVersion: argoproj.io/{{ .Values.v }}\n")},
	}
	for _, c := range []struct {
		source appset.Source
		word   string
		want   bool
	}{
		{appset.Source{Path: "k"}, "argoproj.io", true},
		{appset.Source{Path: "k/"}, "Else", false},
		{appset.Source{Path: "c"}, "argoproj.io", true},
		{appset.Source{Path: "c"}, "Else", false},
		{appset.Source{Path: "c", Helm: &appset.Helm{Values: "a: Else"}}, "Else", true},
		{appset.Source{Path: "../c"}, "argoproj.io", false},
	} {
		if got := Mentions(Source{FS: repo, Source: c.source}, c.word); got != c.want {
			t.Errorf("%+v mentions %s: %t", c.source, c.word, got)
		}
	}
}
