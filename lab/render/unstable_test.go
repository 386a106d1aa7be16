package render_test

import (
	"slices"
	"testing"
	"testing/fstest"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/render"
)

func TestUnstable(t *testing.T) {
	for _, tc := range []struct {
		name, template string
		line           int
		functions      []string
	}{
		{"random", "kind: Secret\ndata:\n  pin: {{ randAlphaNum 24 | b64enc }}\n", 3, []string{"randAlphaNum"}},
		{"unless it is there", "kind: Secret\ndata:\n  {{- with lookup \"v1\" \"Secret\" \"a\" \"b\" }}\n  pin: {{ .data.pin }}\n  {{- else }}\n  id: {{ uuidv4 }}\n  {{- end }}\n", 6, []string{"uuidv4"}},
		{"a certificate", "{{ $ca := genCA \"a\" 1 }}\nkind: Secret\nstringData:\n  ca: {{ $ca.Cert | quote }}\n", 4, []string{"genCA"}},
		{"not used", "kind: Secret\ndata:\n  pin: {{ if .Values.random }}{{ randAlphaNum 24 }}{{ else }}eA=={{ end }}\n", 0, nil},
		{"nothing random", "kind: ConfigMap\ndata: {a: b}\n", 0, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := render.Source{Application: "web", Namespace: "web", Source: appset.Source{Path: "web"}, FS: fstest.MapFS{
				"web/Chart.yaml":       {Data: []byte("apiVersion: v2\nname: web\nversion: 1.0.0\n")},
				"web/templates/a.yaml": {Data: []byte("apiVersion: v1\nmetadata: {name: a}\n" + tc.template)},
			}}
			docs, err := render.Render(s)
			if err != nil {
				t.Fatal(err)
			}
			want := lab.Position{}
			if tc.line > 0 {
				want = lab.Position{File: "web/templates/a.yaml", Line: tc.line + 2}
			}
			if at, functions := render.Unstable(s, docs, func(render.Document) bool { return false }); at != want || !slices.Equal(functions, tc.functions) {
				t.Errorf("%s %q, want %s %q", at, functions, want, tc.functions)
			}
		})
	}
}
