package render

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestOverlay(t *testing.T) {
	under := fstest.MapFS{"d/a": {Data: []byte("a")}, "d/b": {Data: []byte("b")}, "d/c": {Data: []byte("c")}}
	o := Overlay{FS: under, Files: map[string][]byte{"d/b": []byte("changed"), "d/c": nil, "d/added": []byte("new")}}
	var names []string
	entries, err := fs.ReadDir(o, "d")
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); err != nil || got != "a added b" {
		t.Errorf("%q, %v", got, err)
	}
	for name, want := range map[string]string{"d/a": "a", "d/b": "changed", "d/added": "new"} {
		if got, err := fs.ReadFile(o, name); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := fs.Stat(o, "d/c"); err == nil {
		t.Error("a hidden file exists")
	}
	if entries, _ := fs.ReadDir(under, "d"); !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "c" }) {
		t.Error("the file system below lost a file")
	}
}
