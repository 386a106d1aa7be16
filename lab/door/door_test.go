package door

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestSourceComplete(t *testing.T) {
	files, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	want := slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "_test.go") })
	got, err := fs.Glob(Source(), "*/*.go")
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("embedded %q, %v; want %q", got, err, want)
	}
	for _, f := range want {
		parsed, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range parsed.Imports {
			if name, _ := strconv.Unquote(i.Path.Value); strings.Contains(name, ".") || strings.HasPrefix(name, "homelab/") && !strings.HasPrefix(name, Module+"/") {
				t.Errorf("%s imports %s", f, name)
			}
		}
	}
}
