package source

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"homelab/lab"
	"homelab/lab/supply/gosum"
)

// A proxy that serves other modules than the recorded ones is noticed without a checksum database, before anything of
// them is compiled: whether it is the program's own module, one that upstream's go.sum has, or one that nobody has.
func TestTamperedModules(t *testing.T) {
	if Possible() != nil {
		t.Skip("needs Linux")
	}
	program := func(deps string) map[string]string {
		return map[string]string{
			"go.mod":            "module example.com/hello\n\ngo 1.21\n" + deps,
			"cmd/hello/main.go": "package main\n\nimport _ \"example.com/dep\"\n\nfunc main() {}\n",
		}
	}
	const needs = "\nrequire example.com/dep v1.0.0\n"
	dep := map[string]string{"go.mod": "module example.com/dep\n\ngo 1.21\n", "dep.go": "package dep\n"}
	evil := map[string]string{"go.mod": dep["go.mod"], "dep.go": "package dep\n\nfunc init() { println(`evil`) }\n"}
	r, err := Parse("recipes.yaml", []byte("components:\n- {name: hello, kind: programs, module: example.com/hello, version: v1.2.3, packages: [./cmd/hello]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		tamper func(dir string, sums gosum.Sums)
		want   string // in the error; empty if all is well
	}{
		"untouched": {func(string, gosum.Sums) {}, ""},
		"its own module": {func(dir string, sums gosum.Sums) {
			publish(t, dir, "example.com/hello", "v1.2.3", program(needs+"// evil\n"))
		}, "example.com/hello@v1.2.3 does not match"},
		"a module with another sum": {func(dir string, _ gosum.Sums) {
			publish(t, dir, "example.com/dep", "v1.0.0", evil)
		}, "checksum mismatch"},
		"a module without a sum": {func(_ string, sums gosum.Sums) {
			delete(sums, "example.com/dep v1.0.0")
		}, "example.com/dep@v1.0.0 does not match"},
		"a go.mod without a sum": {func(_ string, sums gosum.Sums) {
			delete(sums, "example.com/dep v1.0.0/go.mod")
		}, "example.com/dep@v1.0.0/go.mod does not match"},
	} {
		t.Run(name, func(t *testing.T) {
			sums := goProxy(t, "example.com/hello", "v1.2.3", program(needs))
			dir := strings.TrimPrefix(os.Getenv("GOPROXY"), "file://")
			sums = gosum.Join(sums, publish(t, filepath.FromSlash(dir), "example.com/dep", "v1.0.0", dep))
			test.tamper(filepath.FromSlash(dir), sums)
			_, err := New(r, newStore(t), WithSums(sums)).Program(t.Context(), "hello", "hello", nil)
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			var e *lab.Error
			if strings.Contains(test.want, "not the one") && (!errors.As(err, &e) || e.Code != "module_differs" || e.Cure == "" || len(e.Details) == 0) {
				t.Errorf("%#v", e)
			}
		})
	}
}
