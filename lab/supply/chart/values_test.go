package chart

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"go.yaml.in/yaml/v3"
	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	kjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"

	"homelab/lab"
)

// oldestArgoCD returns the chart of the oldest version of Argo CD.
func oldestArgoCD(t *testing.T) (*helmchart.Chart, lab.Chart) {
	t.Helper()
	r, err := Find("argo-cd", "3.2.11")
	if err != nil {
		t.Fatal(err)
	}
	return build(t, r, cached(t, r))
}

// TestValues renders the chart with each case's values. A line of "want" is an object, a path in it and the expected
// JSON, a part of it after "~", or "absent"; a line with "!" is text that no object but argocd-cm and the CRDs may contain.
func TestValues(t *testing.T) {
	oldest, archive := oldestArgoCD(t)
	lintChart(t, archive.Archive)
	files, err := filepath.Glob("testdata/values/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(file)
			if err != nil || len(ar.Files) != 2 {
				t.Fatal(ar, err)
			}
			values := string(ar.Files[0].Data)
			objects := render(t, oldest, values)
			decodeStrictly(t, objects)
			for line := range strings.Lines(string(ar.Files[1].Data)) {
				checkLine(t, objects, strings.TrimSuffix(line, "\n"))
			}
			r, err := Find("argo-cd", "")
			if err != nil {
				t.Fatal(err)
			}
			t.Run("newest", func(t *testing.T) {
				newest, _ := build(t, r, cached(t, r))
				decodeStrictly(t, render(t, newest, values))
			})
		})
	}
}

func checkLine(t *testing.T, objects map[string]map[string]any, line string) {
	t.Helper()
	if text, ok := strings.CutPrefix(line, "! "); ok {
		for id, o := range objects {
			if id == "ConfigMap/argocd-cm" || strings.HasPrefix(id, "CustomResourceDefinition/") {
				o = map[string]any{"kind": o["kind"]}
			}
			b, _ := yaml.Marshal(o)
			if strings.Contains(string(b), text) {
				t.Errorf("%s holds %q:\n%s", id, text, b)
			}
		}
		return
	}
	id, rest, _ := strings.Cut(line, " ")
	path, want, ok := strings.Cut(rest, " ")
	if !ok {
		t.Fatalf("bad line %q", line)
	}
	o, ok := objects[id]
	if !ok {
		t.Errorf("%s is not rendered", id)
		return
	}
	got := "absent"
	if v, ok := lookup(o, path); ok {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		got = string(b)
	}
	if part, ok := strings.CutPrefix(want, "~"); got != want && !(ok && strings.Contains(got, part)) {
		t.Errorf("%s %s\n got %s\nwant %s", id, path, got, want)
	}
}

// lookup follows a dotted path. Keys with dots match as a whole; -1 is the last item.
func lookup(v any, path string) (any, bool) {
	if path == "" {
		return v, true
	}
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if rest, ok := strings.CutPrefix(path, k); ok && (rest == "" || rest[0] == '.') {
				if got, ok := lookup(x, strings.TrimPrefix(rest, ".")); ok {
					return got, true
				}
			}
		}
	case []any:
		head, rest, _ := strings.Cut(path, ".")
		i, err := strconv.Atoi(head)
		if i < 0 {
			i += len(v)
		}
		if err == nil && i >= 0 && i < len(v) {
			return lookup(v[i], rest)
		}
	}
	return nil, false
}

// decodeStrictly decodes objects like the API server with strict field validation.
func decodeStrictly(t *testing.T, objects map[string]map[string]any) {
	t.Helper()
	s := kjson.NewSerializerWithOptions(kjson.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, kjson.SerializerOptions{Yaml: true, Strict: true})
	for id, o := range objects {
		if o["kind"] == "CustomResourceDefinition" {
			continue
		}
		b, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Decode(b, nil, nil); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func TestUnknownValue(t *testing.T) {
	c, _ := oldestArgoCD(t)
	for _, values := range []string{"server: {ingress: {enabled: true}}", "redis-ha: {enabled: true}", "configs: {secret: {gogSecret: x}}"} {
		if _, err := tryRender(c, values); err == nil || !strings.Contains(err.Error(), "schema") {
			t.Errorf("%s: got %v", values, err)
		}
	}
}

// Changing any key of values.yaml must change the rendered output.
func TestKeysUsed(t *testing.T) {
	c, _ := oldestArgoCD(t)
	base := map[string]any{
		"fullnameOverride": "x", // so that nameOverride shows in labels only
		"server":           map[string]any{"service": map[string]any{"type": "NodePort"}},
		"configs": map[string]any{
			"secret":              map[string]any{"argocdServerAdminPassword": "p", "argocdServerAdminPasswordMtime": "m"},
			"repositories":        map[string]any{"r": map[string]any{"url": "u"}},
			"credentialTemplates": map[string]any{"r": map[string]any{"url": "u"}},
		},
	}
	// Comparing text without schema checks and parsing is fast enough for two hundred renderings.
	text := func(values map[string]any) (map[string]string, error) {
		top, err := chartutil.ToRenderValuesWithSchemaValidation(c, values, chartutil.ReleaseOptions{Name: "argocd", Namespace: "argocd"}, nil, true)
		if err != nil {
			return nil, err
		}
		return engine.Render(c, top)
	}
	want, err := text(base)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range leaves(c.Values, nil) {
		values := map[string]any{}
		m := values
		for _, k := range l.path[:len(l.path)-1] {
			next := map[string]any{}
			m[k], m = next, next
		}
		last := l.path[len(l.path)-1]
		m[last] = other(l.value)
		if last == "repositories" || last == "credentialTemplates" {
			m[last] = map[string]any{"other": map[string]any{"url": "u"}}
		}
		got, err := text(chartutil.CoalesceTables(values, base))
		if err != nil {
			t.Errorf("%v: %v", l.path, err)
		} else if maps.Equal(got, want) {
			t.Errorf("%v changes nothing", l.path)
		}
	}
}

type leaf struct {
	path  []string
	value any
}

func leaves(v any, path []string) []leaf {
	m, ok := v.(map[string]any)
	if !ok || len(m) == 0 {
		return []leaf{{path, v}}
	}
	var out []leaf
	for k, x := range m {
		out = append(out, leaves(x, append(slices.Clone(path), k))...)
	}
	return out
}

// other returns a different value of the same type.
func other(v any) any {
	switch v := v.(type) {
	case bool:
		return !v
	case map[string]any:
		return map[string]any{"other": "value"}
	case []any:
		return []any{map[string]any{"kind": "Other", "metadata": map[string]any{"name": "other"}, "name": "other"}}
	case string:
		return "other"
	}
	return 77
}
