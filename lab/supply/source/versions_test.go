package source

import (
	"strings"
	"testing"

	"homelab/lab/supply/gosum"
)

func TestPlaceholders(t *testing.T) {
	const recipes = `versions: {hello: 1.37.2, odd: "3.10"}
components:
- {name: hello, kind: programs, module: example.com/hello, version: v$(hello), local: v0.$(hello.minor).$(hello.patch), packages: [.]}
`
	r, err := Parse("recipes.yaml", []byte(recipes))
	if err != nil {
		t.Fatal(err)
	}
	if c := r.Components[0]; c.Version != "v1.37.2" || c.Local != "v0.37.2" {
		t.Errorf("%+v", c)
	}
	for text, want := range map[string]string{
		"v$(other)":     "recipes.yaml:3: $(other) stands for no version",
		"v$(odd.patch)": "recipes.yaml:3: $(odd.patch) stands for no version",
	} {
		if _, err := Parse("recipes.yaml", []byte(strings.Replace(recipes, "v$(hello)", text, 1))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestToolchain(t *testing.T) {
	sums := gosum.Parse([]byte("golang.org/toolchain v0.0.1-go1.27.3.linux-amd64 h1:x=\ngolang.org/toolchain v0.0.1-go1.27.3.linux-amd64/go.mod h1:y=\n"))
	if amd, arm := sums.Toolchain("linux-amd64"), sums.Toolchain("linux-arm64"); amd != "go1.27.3" || arm != "" {
		t.Errorf("%q %q", amd, arm)
	}
	if env, err := (gosum.Sums{}).Env(t.Context()); env != nil || err != nil {
		t.Errorf("%q, %v", env, err)
	}
}
