package render

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"homelab/lab/appset"
)

func TestTakes(t *testing.T) {
	for _, c := range []struct {
		dir, file string
		d         appset.Directory
		want      bool
	}{
		{"apps", "apps/a.yaml", appset.Directory{}, true},
		{"apps/", "apps/a.yml", appset.Directory{}, true},
		{"apps", "apps/a.json", appset.Directory{}, true},
		{"apps", "apps/a.txt", appset.Directory{}, false},
		{"apps", "others/a.yaml", appset.Directory{}, false},
		{"apps", "apps/b/a.yaml", appset.Directory{}, false},
		{"apps", "apps/b/a.yaml", appset.Directory{Recurse: true}, true},
		{".", "a.yaml", appset.Directory{}, true},
		{".", "apps/a.yaml", appset.Directory{}, false},
		{"apps", "apps/b/a.yaml", appset.Directory{Recurse: true, Include: "b*"}, true},
		{"apps", "apps/a.yaml", appset.Directory{Include: "b*"}, false},
		{"apps", "apps/a.yaml", appset.Directory{Exclude: "a*"}, false},
		{"apps", "apps/a.yaml", appset.Directory{Exclude: "b*"}, true},
		{"apps", "apps/a.yaml", appset.Directory{Include: "["}, false},
		{"apps", "apps/a.txt", appset.Directory{DisableExtensionFilter: true}, true},
		{"apps", "apps/a.yaml.sealed", appset.Directory{DisableExtensionFilter: true, Include: "*.sealed"}, true},
		{"apps", "apps/a.yaml", appset.Directory{DisableExtensionFilter: true, Include: "*.sealed"}, false},
		{"apps", "apps/b/a.txt", appset.Directory{DisableExtensionFilter: true}, false},
	} {
		if got := Takes(c.dir, c.file, c.d); got != c.want {
			t.Errorf("Takes(%q, %q, %+v) = %t, want %t", c.dir, c.file, c.d, got, c.want)
		}
	}
}

// Argo CD's limit is on all manifests of a folder, not on a file or its documents.
func TestDirectoryLimits(t *testing.T) {
	object := func(i, size int) string {
		return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web-%d}\ndata: {a: %q}\n---\n", i, strings.Repeat("x", size))
	}
	many, large := "", ""
	for i := range 150 {
		many += object(i, 1)
	}
	for i := range 3 {
		large += object(i, 1_000_000)
	}
	for _, c := range []struct {
		files fstest.MapFS
		want  int
		err   string
	}{
		{fstest.MapFS{"web/a.yaml": {Data: []byte(many)}}, 150, ""},
		{fstest.MapFS{"web/a.yaml": {Data: []byte(large)}}, 3, ""},
		{fstest.MapFS{"web/a.yaml": {Data: []byte(large)}, "web/b.yaml": {Data: []byte(large)}, "web/c.yml": {Data: []byte(large)}}, 9, ""},
		{fstest.MapFS{"web/a.yaml": {Data: []byte(large)}, "web/b.yaml": {Data: []byte(large)}, "web/c.yml": {Data: []byte(large)}, "web/d.yaml": {Data: []byte(large)}}, 0, "web: more than 10 MB of manifests, Argo CD's limit"},
	} {
		docs, err := Render(Source{FS: c.files, Source: appset.Source{Path: "web"}})
		if err == nil && (c.err != "" || len(docs) != c.want) || err != nil && err.Error() != c.err {
			t.Errorf("%d documents, %v, want %d, %q", len(docs), err, c.want, c.err)
		}
	}
}
