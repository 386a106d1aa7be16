package cli

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"homelab/lab/scenario"
	"homelab/lab/scenario/verb"
	"homelab/lab/supply/source"
)

// The images that a story requires are known, and its manifests use them, or it pushes them.
func TestStoriesImages(t *testing.T) {
	root := os.DirFS(filepath.Join("..", ".."))
	names, err := scenario.List(root)
	if err != nil {
		t.Fatal(err)
	}
	stories, err := scenario.LoadAll(root, names, verb.All())
	if err != nil {
		t.Fatal(err)
	}
	recipes, err := source.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stories {
		for _, image := range slices.Sorted(maps.Keys(s.Requires.Images)) {
			c, ok := recipes.Get(image)
			if !ok || c.Ref == "" {
				t.Errorf("%s: lab has no image %s", s.Name, image)
				continue
			}
			if !mentions(t, s.Files, "image: "+c.Ref+"\n") && !mentions(t, s.Files, "push-image: {image: "+image+",") {
				t.Errorf("%s: no file uses %s, and no step pushes it", s.Name, c.Ref)
			}
		}
	}
}

func mentions(t *testing.T, files fs.FS, text string) bool {
	t.Helper()
	found := false
	err := fs.WalkDir(files, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		found = found || strings.Contains(string(data), text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
