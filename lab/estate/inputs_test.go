package estate_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"homelab/lab"
	"homelab/lab/desired"
	"homelab/lab/estate"
)

// Parts of two revisions with the same inputs have the same objects, whichever of some files of the default estate differs.
func TestInputs(t *testing.T) {
	files := fstest.MapFS{}
	for _, dir := range []string{"addons", "clusters", "environments"} {
		if err := fs.WalkDir(os.DirFS("../.."), dir, func(file string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			data, err := os.ReadFile("../../" + file)
			files[file] = &fstest.MapFile{Data: data, Mode: 0o644}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, engine := range lab.EngineTypes() {
		load := func(files fs.FS) map[string]desired.App {
			_, apps, err := estate.Desired(files, "", "homelab", estate.WithEngine(engine))
			if err != nil {
				return nil // the change breaks it
			}
			of := map[string]desired.App{}
			for _, a := range apps {
				of[a.Name] = a
			}
			return of
		}
		before := load(files)
		settled, changed, differ := 0, 0, 0
		for _, file := range slices.Sorted(maps.Keys(files)) {
			if !strings.Contains(file, "identity") && !strings.HasPrefix(file, "clusters/dev/") && !strings.HasPrefix(file, "environments/d") {
				continue
			}
			after := maps.Clone(files)
			after[file] = &fstest.MapFile{Data: []byte(strings.NewReplacer("dev", "wed", "5", "7", "replicas", "replica", "cloud", "mist").Replace(string(files[file].Data))), Mode: 0o644}
			for name, b := range load(after) {
				a := before[name]
				for i := range min(len(a.Parts), len(b.Parts)) {
					p, q := a.Parts[i], b.Parts[i]
					if p.Inputs == nil || q.Inputs == nil || p.Inputs() == "" {
						continue
					}
					same, x, y := p.Inputs() == q.Inputs(), rendered(p), rendered(q)
					switch {
					case same && x != y:
						t.Errorf("%s of %s: the same inputs after a change of %s, but\n%s\nis\n%s", p.Name, name, file, x, y)
					case same:
						settled++
					case x != y:
						differ++
						fallthrough
					default:
						changed++
					}
				}
			}
		}
		if settled < changed || differ == 0 {
			t.Errorf("%s: %d parts have the same inputs, %d others, and other objects %d", engine, settled, changed, differ)
		}
	}
}

// rendered returns the objects of a part as text.
func rendered(p desired.Part) string {
	docs, err := p.Render()
	text := fmt.Sprint(err)
	for _, d := range docs {
		data, err := desired.Object{Document: d}.JSON()
		text += fmt.Sprint(string(data), err)
	}
	return text
}
