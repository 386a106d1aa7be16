package provenance_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/provenance"
	"homelab/lab/render"
)

// subject is a source of Argo CD.
func subject(s render.Source) provenance.Subject {
	options := map[string]any{}
	data, _ := json.Marshal(s.Source)
	_ = json.Unmarshal(data, &options)
	return provenance.Subject{
		Options: options,
		Render: func(options map[string]any, open func(string, fs.FS) fs.FS) ([]render.Document, error) {
			of := s
			if options != nil {
				data, err := json.Marshal(options)
				if err == nil {
					of.Source = appset.Source{}
					err = json.Unmarshal(data, &of.Source)
				}
				if err != nil {
					return nil, err
				}
			}
			of.FS = open("", s.FS)
			return render.Render(of)
		},
		Name: func(_, file string) string { return file },
		At:   func(path []string) []lab.Position { return nil },
	}
}

func TestTrace(t *testing.T) {
	files := fstest.MapFS{}
	for name, text := range map[string]string{
		"web/Chart.yaml":                "apiVersion: v2\nname: web\nversion: 1.0.0\n",
		"web/values.yaml":               "replicas: 1\nimage:\n  tag: 1.2.3\n  name: web\nunused: 1\nenabled: true\n",
		"web/prod.yaml":                 "replicas: 3\n",
		"web/templates/deployment.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  replicas: {{ .Values.replicas }}\n  template:\n    spec:\n      containers:\n      - name: web\n        image: {{ include \"image\" . }}\n",
		"web/templates/_helpers.tpl":    "{{ define \"image\" }}{{ .Values.image.name }}:{{ .Values.image.tag }}{{ end }}\n",
		"web/templates/cm.yaml":         "{{ if .Values.enabled }}\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\ndata:\n  fixed: yes-it-is\n  random: {{ randAlphaNum 20 }}\n  message: {{ .Values.message | quote }}\n{{ end }}\n",
		"k/kustomization.yaml":          "resources: [cm.yaml]\npatches:\n- patch: |\n    apiVersion: v1\n    kind: ConfigMap\n    metadata: {name: a}\n    data: {x: patched}\nnamePrefix: pre-\n",
		"k/cm.yaml":                     "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: base\n  y: kept\n",
	} {
		files[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	for _, tc := range []struct {
		name   string
		source appset.Source
		want   []string
	}{
		{"chart", appset.Source{Path: "web", Helm: &appset.Helm{ValueFiles: []string{"prod.yaml"}, Parameters: []appset.HelmParameter{{Name: "message", Value: "hello"}}}}, []string{
			"data.fixed yes-it-is <- web/templates/cm.yaml:7",
			"data.random ? <- web/templates/cm.yaml:8, random",
			"data.message hello <- helm.parameters.0.name, helm.parameters.0.value",
			"spec.replicas 3 <- web/prod.yaml:1 replicas",
			"spec.template.spec.containers[0].image web:1.2.3 <- web/values.yaml:3 image.tag, web/values.yaml:4 image.name",
			"kind Deployment <- web/templates/deployment.yaml:2",
		}},
		{"kustomization", appset.Source{Path: "k"}, []string{
			"data.x patched <- k/kustomization.yaml:7 patches[0].patch data.x",
			"data.y kept <- k/cm.yaml:6 data.y",
			"metadata.name pre-a <- k/cm.yaml:3 metadata.name, k/kustomization.yaml:8 namePrefix",
		}},
		{"texts of the source", appset.Source{Path: "k", Kustomize: &appset.Kustomize{Patches: []appset.KustomizePatch{{Patch: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {y: theirs, z: more}\n"}}}}, []string{
			"data.y theirs <- kustomize.patches.0.patch data.y",
			"data.z more <- kustomize.patches.0.patch data.z",
		}},
		{"values of the source", appset.Source{Path: "web", Helm: &appset.Helm{Values: "replicas: 5\nmessage: hello\n"}}, []string{
			"data.message hello <- helm.values message",
			"spec.replicas 5 <- helm.values replicas",
		}},
		{"folder", appset.Source{Path: "k", Directory: &appset.Directory{Include: "cm.yaml"}}, []string{"data.x base <- k/cm.yaml:5 data.x"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res, err := provenance.Trace(subject(render.Source{FS: files, Source: tc.source, Application: "web", Namespace: "web"}))
			if err != nil || !res.Complete {
				t.Fatalf("%v, complete: %t", err, res.Complete)
			}
			got := map[string]bool{}
			var all strings.Builder
			for _, f := range res.Fields {
				var from []string
				for _, v := range f.From {
					from = append(from, strings.TrimSpace(v.Position.String()+" "+v.Path))
				}
				if len(from) == 0 {
					from = []string{f.At.String()}
				}
				if f.Random {
					f.Text, from = "?", append(from, "random")
				}
				line := fmt.Sprintf("%s %s <- %s", f.Path, f.Text, strings.Join(from, ", "))
				got[line] = true
				all.WriteString(line + "\n")
			}
			for _, want := range tc.want {
				if !got[want] {
					t.Errorf("no %q", want)
				}
			}
			if t.Failed() {
				t.Log(all.String())
			}
		})
	}
}

// Aliases that refer to aliases stand for more values than there is memory.
func TestAliases(t *testing.T) {
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		text += fmt.Sprintf("a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i+1, i+1, i, i, i, i, i, i, i, i)
	}
	s := subject(render.Source{FS: fstest.MapFS{"k/a[0.yaml": {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")}, "k/b.yaml": {Data: []byte(text)}}, Source: appset.Source{Path: "k", Directory: &appset.Directory{}}})
	render := s.Render
	s.Render = func(options map[string]any, open func(string, fs.FS) fs.FS) ([]docs, error) {
		return render(options, func(tree string, files fs.FS) fs.FS {
			opened := open(tree, files)
			_, _ = fs.ReadFile(opened, "k/b.yaml")
			return fstest.MapFS{"k/a[0.yaml": &fstest.MapFile{Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")}}
		})
	}
	if res, err := provenance.Trace(s); err != nil || len(res.Fields) != 3 {
		t.Errorf("%d fields, %v", len(res.Fields), err)
	}
}

type docs = render.Document
