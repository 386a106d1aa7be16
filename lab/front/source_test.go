package front

import (
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

func TestSourceComplete(t *testing.T) {
	var want []string
	for _, dir := range []string{"program", "proxy", "sshd"} {
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if strings.HasSuffix(f.Name(), ".go") && !strings.HasSuffix(f.Name(), "_test.go") {
				want = append(want, path.Join(dir, f.Name()))
			}
		}
	}
	got, err := fs.Glob(Source(), "*/*")
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("embedded %q, %v; want %q", got, err, want)
	}
}
