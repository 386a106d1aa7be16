package scenariotest

import (
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"golang.org/x/tools/txtar"

	"homelab/lab"
)

// Files copies an estate into memory and overlays more.
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

// Estate is shared by the labs of a test. It caches parsed trees: parsing takes most of the time of an in-memory lab.
type Estate struct {
	fs.FS

	mu    sync.Mutex
	trees map[string]*reading // by engine and tree hash
}

// Reused returns an estate for several labs.
func Reused(files fs.FS) *Estate { return &Estate{FS: files, trees: map[string]*reading{}} }

// read reads each tree once.
func (e *Estate) read(tree string, on lab.EngineType, read func() (*reading, error)) (*reading, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	tree = string(on) + " " + tree
	if r, known := e.trees[tree]; known {
		return r, nil
	}
	r, err := read()
	if err == nil {
		e.trees[tree] = r
	}
	return r, err
}

// Sabotage is a change of the estate that makes a story fail, with the expected failure.
type Sabotage struct {
	Name    string
	Story   string
	Unmet   string            // title of the failing step
	Message string            // part of its message
	Files   map[string]string // path -> changed content
}

// ReadSabotage reads a txtar with story, unmet, message, and replacements: a file, old text, =>, new text. A file may occur several times. A case may shorten the
// deadline of the failing step to save time.
func ReadSabotage(name string, data []byte, estate fs.FS) (Sabotage, error) {
	s := Sabotage{Name: name, Files: map[string]string{}}
	for _, f := range txtar.Parse(data).Files {
		text := string(f.Data)
		switch f.Name {
		case "story":
			s.Story = strings.TrimSpace(text)
		case "unmet":
			s.Unmet = strings.TrimSpace(text)
		case "message":
			s.Message = strings.TrimSpace(text)
		default:
			was, is, ok := strings.Cut(strings.TrimSuffix(text, "\n"), "\n=>\n")
			whole, changed := s.Files[f.Name]
			if !changed {
				data, err := fs.ReadFile(estate, f.Name)
				if err != nil {
					return s, err
				}
				whole = string(data)
			}
			if !ok || strings.Count(whole, was) != 1 {
				return s, fmt.Errorf("%s: %q is not in %s once", name, was, f.Name)
			}
			s.Files[f.Name] = strings.Replace(whole, was, is, 1)
		}
	}
	return s, nil
}
