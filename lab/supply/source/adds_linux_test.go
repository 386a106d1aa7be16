package source

import (
	"testing"
)

// A program is compiled with the files that a component adds to its module, which stays as it is.
func TestAdds(t *testing.T) {
	sums := goProxy(t, "example.com/web", "v1.2.3", map[string]string{
		"go.mod":     "module example.com/web\n\ngo 1.21\n",
		"cmd/web.go": "package main\n\nimport \"example.com/web/ui\"\n\nfunc main() { print(ui.Page) }\n",
		"ui/ui.go":   "package ui\n\nimport _ \"embed\"\n\n//go:embed dist/index.html\nvar Page string\n",
	})
	build := func(adds string) error {
		r, err := Parse("recipes.yaml", []byte("components:\n- {name: web, kind: programs, module: example.com/web, version: v1.2.3, packages: [./cmd]"+adds+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = New(r, newStore(t), WithSums(sums)).Program(t.Context(), "web", "cmd", nil)
		return err
	}
	if err := build(`, adds: {ui/dist/index.html: hello}`); err != nil {
		t.Error(err)
	}
	if err := build(""); err == nil {
		t.Error("compiled without the file that it embeds")
	}
}
