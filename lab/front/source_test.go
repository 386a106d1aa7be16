package front

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
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

// The program is compiled with lab's own versions, checked by lab's own sums. -update writes them.
func TestSourceModules(t *testing.T) {
	root, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	own, err := modfile.Parse("go.mod", root, nil)
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile("../../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	const module = "golang.org/x/crypto"
	i := slices.IndexFunc(own.Require, func(r *modfile.Require) bool { return r.Mod.Path == module })
	at := own.Require[i].Mod
	release := strings.Join(strings.Split(own.Go.Version, ".")[:2], ".")
	mod := fmt.Sprintf("module %s\n\ngo %s.0\n\nrequire %s %s\n", Module, release, at.Path, at.Version)
	sum := ""
	for line := range strings.Lines(string(sums)) {
		if strings.HasPrefix(line, at.Path+" "+at.Version) {
			sum += line
		}
	}
	for file, want := range map[string]string{"module/mod": mod, "module/sum": sum} {
		if *update {
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q (-update writes it)", file, got, err, want)
		}
	}
	if strings.Count(sum, "h1:") != 2 {
		t.Errorf("sums %q", sum)
	}
}
