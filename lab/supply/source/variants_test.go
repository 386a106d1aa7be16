package source

import (
	"slices"
	"strings"
	"testing"
)

const versioned = `versions: {engine: 3.6.1, tool: 4.3.1, other: 1.0.0}
variants:
- {image: engine, versions: {engine: 3.2.11, tool: 3.22.0}}
components:
- {name: base, kind: rootfs, suite: trixie}
- {name: lib, kind: programs, module: example.com/lib, version: v$(other), packages: [.]}
- {name: tool, kind: programs, module: example.com/tool/v$(tool.major), version: v$(tool), packages: [.], with: lib}
- {name: program, kind: programs, module: example.com/engine, version: v$(engine), packages: [.], with: tool}
- {name: engine, kind: image, version: v$(engine), ref: "example.com/engine:v$(engine)", base: base, charts: [engine], contents: [{from: program, paths: [engine], to: /bin/}, {from: tool, paths: [tool], to: /bin/}]}
- {name: other, kind: image, version: v$(other), ref: "example.com/other:v$(other)", contents: [{from: lib, paths: [lib], to: /bin/}]}
`

func TestVariants(t *testing.T) {
	r, err := Parse("recipes.yaml", []byte(versioned))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range r.Components[6:] {
		names = append(names, c.Name+" "+c.Version+" of "+c.VariantOf)
	}
	if want := []string{"tool-3.2.11 v3.22.0 of tool", "program-3.2.11 v3.2.11 of program", "engine-3.2.11 v3.2.11 of engine"}; !slices.Equal(names, want) {
		t.Fatalf("%q, want %q", names, want)
	}
	c, _ := r.Get("engine-3.2.11")
	if c.Base != "base" || c.Contents[0].From != "program-3.2.11" || c.Ref != "example.com/engine:v3.2.11" || !c.Optional {
		t.Errorf("%+v", c)
	}
	if c, _ := r.Get("engine"); c.Contents[0].From != "program" || c.Optional {
		t.Errorf("the image itself was changed: %+v", c)
	}
	if tool, _ := r.Get("tool-3.2.11"); tool.Module != "example.com/tool/v3" || tool.With != "" {
		t.Errorf("%+v, which may not compile with other libraries", tool)
	}
	if got := r.ImagesOf("engine", "3.2.11"); !slices.Equal(got, []string{"engine"}) {
		t.Errorf("the chart runs %v", got)
	}
	var versions []string
	for _, c := range r.Versioned("engine") {
		versions = append(versions, c.Version)
	}
	if !slices.Equal(versions, []string{"v3.6.1", "v3.2.11"}) {
		t.Errorf("versions %v", versions)
	}
	// Variants do not change what else is built, so that nothing is built twice.
	plain, err := Parse("recipes.yaml", []byte(strings.Replace(versioned, "- {image: engine", "# ", 1)))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range plain.Components {
		one, _ := plain.Key(c.Name)
		if other, _ := r.Key(c.Name); one != other {
			t.Errorf("%s has another key", c.Name)
		}
	}
}

func TestVariantProblems(t *testing.T) {
	for variant, want := range map[string]string{
		"{image: missing, versions: {engine: 3.2.11}}":                                                             `recipes.yaml:3: variant of "missing": no such image`,
		"{image: program, versions: {engine: 3.2.11}}":                                                             `recipes.yaml:3: variant of "program": no such image`,
		"{image: engine, versions: {engin: 3.2.11}}":                                                               `recipes.yaml:3: variant of "engine": engin is not under versions`,
		"{image: engine, versions: {other: 1.0.0}}":                                                                `recipes.yaml:3: variant of "engine": it is the image itself`,
		"{image: engine, versions: {tool: x}}":                                                                     "$(tool.major) stands for no version",
		"{image: engine, versions: {engine: 3.2.11, tool: 3.22.0}, a: []}":                                         "recipes.yaml:3: field a not found",
		"{image: engine, versions: {engine: 3.2.11}}\n- {image: engine, versions: {engine: 3.2.11, tool: 3.22.0}}": `recipes.yaml:4: variant of "engine": duplicate version v3.2.11`,
	} {
		text := strings.Replace(versioned, "{image: engine, versions: {engine: 3.2.11, tool: 3.22.0}}", variant, 1)
		if _, err := Parse("recipes.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", variant, err, want)
		}
	}
}
