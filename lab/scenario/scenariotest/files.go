package scenariotest

import (
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"golang.org/x/tools/txtar"
)

// Files copies an estate into memory, with more files laid over it.
func Files(t *testing.T, estate fs.FS, more map[string]string) fstest.MapFS {
	t.Helper()
	out := fstest.MapFS{}
	for _, dir := range []string{"addons", "clusters", "environments", "scenarios"} {
		err := fs.WalkDir(estate, dir, func(name string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			data, err := fs.ReadFile(estate, name)
			out[name] = &fstest.MapFile{Data: data, Mode: 0o644}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range more {
		out[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	return out
}

// Estate is files of which many labs of a test are made. What labs read of a tree is kept with them: reading is most of what a lab in memory takes.
type Estate struct {
	fs.FS

	mu    sync.Mutex
	trees map[string]*reading // by the tree's name
}

// Reused is an estate for many labs.
func Reused(files fs.FS) *Estate { return &Estate{FS: files, trees: map[string]*reading{}} }

// read reads a tree, once.
func (e *Estate) read(tree string, read func() (*reading, error)) (*reading, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r, known := e.trees[tree]; known {
		return r, nil
	}
	r, err := read()
	if err == nil {
		e.trees[tree] = r
	}
	return r, err
}

// Sabotage is a change of the estate that makes a story fail: what it must then say.
type Sabotage struct {
	Name  string
	Story string
	Unmet string            // title of the step that fails
	Says  string            // part of what is told of it
	Files map[string]string // path -> content, changed
}

// ReadSabotage reads a txtar: story, unmet, says, and under a path of the estate what is replaced, =>, and by what. A case may shorten the deadline of the step
// that fails: what will not come need not be waited for.
func ReadSabotage(name string, data []byte, estate fs.FS) (Sabotage, error) {
	s := Sabotage{Name: name, Files: map[string]string{}}
	for _, f := range txtar.Parse(data).Files {
		text := string(f.Data)
		switch f.Name {
		case "story":
			s.Story = strings.TrimSpace(text)
		case "unmet":
			s.Unmet = strings.TrimSpace(text)
		case "says":
			s.Says = strings.TrimSpace(text)
		default:
			was, is, ok := strings.Cut(strings.TrimSuffix(text, "\n"), "\n=>\n")
			whole, err := fs.ReadFile(estate, f.Name)
			if err != nil {
				return s, err
			}
			if !ok || strings.Count(string(whole), was) != 1 {
				return s, fmt.Errorf("%s: %q is not in %s once", name, was, f.Name)
			}
			s.Files[f.Name] = strings.Replace(string(whole), was, is, 1)
		}
	}
	return s, nil
}
