package source

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConstant(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.go")
	if err := os.WriteFile(file, []byte("package a\n\nconst image = \"theirs\"\n\nvar n = 1 + 2\n\nconst manifest = `\nimage: ` + image + `\nnode: ` + \"a\\n\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name      string
		with      map[string]string
		want, err string
	}{
		{"manifest", nil, "\nimage: theirs\nnode: a\n", ""},
		{"manifest", map[string]string{"image": "ours"}, "\nimage: ours\nnode: a\n", ""},
		{"manifest", map[string]string{"picture": "ours"}, "", "manifest does not use picture"},
		{"document", nil, "", "no string constant document"},
	} {
		got, err := constant(file, tt.name, tt.with)
		if tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) || tt.err == "" && (err != nil || got != tt.want) {
			t.Errorf("%s, %v: %q, %v", tt.name, tt.with, got, err)
		}
	}
}
