package estate

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"homelab/lab"
	"homelab/lab/finding"
)

// Each testdata/broken/NAME.txtar has files that overlay testdata/base.txtar, and a last one, "problems", with the
// expected problems. Lines above the files do what files cannot: "link PATH -> TARGET", "remove PATH", "folder PATH",
// "unreadable PATH". UPDATE_GOLDEN=1 updates the problems.
func TestBroken(t *testing.T) {
	cases, err := filepath.Glob("testdata/broken/*.txtar")
	if err != nil || len(cases) < 10 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, file := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			last := len(archive.Files) - 1
			if last < 0 || archive.Files[last].Name != "problems" {
				archive.Files = append(archive.Files, txtar.File{Name: "problems"})
				last++
			}
			dir, denied := build(t, archive)
			before := snapshot(t, dir)
			_, err = Load(denied, dir, "homelab", WithoutLoadBalancer(), WithCharts(func(c lab.ChartUse) bool { return c.Version == "6.9.2" || c.Version == "6.7.0" }))

			var failed *lab.Error
			if !errors.As(err, &failed) || failed.Exit != lab.ExitInvalid || failed.Code != "invalid_estate" || len(failed.Problems) == 0 {
				t.Fatalf("error %v, want an invalid estate", err)
			}
			for _, p := range failed.Problems {
				if p.File == "" || p.Line < 1 {
					t.Errorf("no file and line: %v", p)
				}
				if _, known := finding.ByCode(p.Code); !known && !strings.HasPrefix(p.Message, "and ") {
					t.Errorf("no rule: %q of %v", p.Code, p)
				}
			}
			got := failed.Problems.Error() + "\n"
			if os.Getenv("UPDATE_GOLDEN") != "" {
				archive.Files[last].Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want := string(archive.Files[last].Data); got != want {
				t.Errorf("problems:\n%s\nwant:\n%s", got, want)
			}
			if !bytes.Equal(before, snapshot(t, dir)) {
				t.Error("the estate was touched")
			}
		})
	}
}

func TestBase(t *testing.T) {
	dir, fsys := build(t, &txtar.Archive{})
	if _, err := Load(fsys, dir, "homelab"); err != nil {
		t.Fatal(err.(*lab.Error).Problems)
	}
}

// build writes an overlaid base into a new folder, next to a file that must not be read.
func build(t *testing.T, archive *txtar.Archive) (string, fs.FS) {
	t.Helper()
	base, err := txtar.ParseFile("testdata/base.txtar")
	if err != nil {
		t.Fatal(err)
	}
	above := t.TempDir()
	dir := filepath.Join(above, "estate")
	put(t, above, "secret.yaml", "a: secret")
	for _, f := range append(base.Files, archive.Files...) {
		if f.Name != "problems" {
			put(t, dir, f.Name, string(f.Data))
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	fsys := denying{FS: root.FS()}
	for line := range strings.SplitSeq(string(archive.Comment), "\n") {
		verb, rest, _ := strings.Cut(line, " ")
		switch verb {
		case "link":
			from, to, _ := strings.Cut(rest, " -> ")
			put(t, dir, from, "")
			must(t, os.Remove(filepath.Join(dir, from)))
			must(t, os.Symlink(to, filepath.Join(dir, from)))
		case "remove":
			must(t, os.RemoveAll(filepath.Join(dir, rest)))
		case "folder":
			must(t, os.MkdirAll(filepath.Join(dir, rest), 0o755))
		case "unreadable":
			fsys.names = append(fsys.names, rest)
		}
	}
	return dir, fsys
}

func put(t *testing.T, dir, name, data string) {
	t.Helper()
	file := filepath.Join(dir, name)
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(t, os.WriteFile(file, []byte(data), 0o644))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// denying denies access to some files; permission bits would not stop root, who may run the tests.
type denying struct {
	fs.FS
	names []string
}

func (d denying) Open(name string) (fs.File, error) {
	if slices.Contains(d.names, name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return d.FS.Open(name)
}

func (d denying) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(d.FS, name) }
func (d denying) Stat(name string) (fs.FileInfo, error)  { return fs.Stat(d.FS, name) }
func (d denying) ReadLink(name string) (string, error)   { return fs.ReadLink(d.FS, name) }

// snapshot lists all names below dir with size and time.
func snapshot(t *testing.T, dir string) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		b.WriteString(name + info.ModTime().String() + info.Mode().String() + "\n")
		return nil
	}))
	return b.Bytes()
}
