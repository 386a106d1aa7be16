package source

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"homelab/lab/supply/store"
)

func newStore(t testing.TB) *store.Store {
	t.Helper()
	return store.Open(t.TempDir())
}

// tree writes files to a new folder; a trailing slash means a folder, content with the prefix -> a symlink.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		target, isLink := strings.CutPrefix(content, "->")
		switch {
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(file, 0o755)
		case isLink:
			err = os.Symlink(target, file)
		default:
			err = os.WriteFile(file, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func written(t *testing.T, l layer) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := l.write(&buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestLayerReproducible(t *testing.T) {
	files := map[string]string{"etc/passwd": "root", "a-b": "1", "a/c": "2", "usr/bin/x": "->../lib/x", "empty/": "", "dev/null": "", "proc/1/x": ""}
	var tars [2][]byte
	for i := range tars {
		root := tree(t, files)
		old := time.Now().Add(-time.Duration(i) * time.Hour)
		for name := range files {
			if err := os.Chtimes(filepath.Join(root, name), old, old); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
		l := layer{}
		if err := l.tree(root); err != nil {
			t.Fatal(err)
		}
		tars[i] = written(t, l)
	}
	if !bytes.Equal(tars[0], tars[1]) {
		t.Error("layers of the same tree differ")
	}
	names := namesIn(t, tars[0])
	want := []string{"a/", "a/c", "a-b", "dev/", "empty/", "etc/", "etc/passwd", "proc/", "usr/", "usr/bin/", "usr/bin/x"}
	if !slices.Equal(names, want) {
		t.Errorf("got %q, want %q: container mount points must be skipped", names, want)
	}
}

func namesIn(t *testing.T, data []byte) []string {
	t.Helper()
	var names []string
	tr := tar.NewReader(bytes.NewReader(data))
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(fixedTime) {
			t.Errorf("%s has time %s", h.Name, h.ModTime)
		}
		names = append(names, h.Name)
	}
}

// Hard links must follow their targets: names sort differently with and without slashes.
func TestHardLinkOrder(t *testing.T) {
	root := tree(t, map[string]string{"a/z": "data", "a-b/": ""})
	if err := os.Link(filepath.Join(root, "a/z"), filepath.Join(root, "a-b/link")); err != nil {
		t.Fatal(err)
	}
	l := layer{}
	if err := l.tree(root); err != nil {
		t.Fatal(err)
	}
	tr := tar.NewReader(bytes.NewReader(written(t, l)))
	seen := map[string]bool{}
	links := 0
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeLink {
			links++
			if !seen[h.Linkname] {
				t.Errorf("%s links to %s, which is after it", h.Name, h.Linkname)
			}
		}
		seen[h.Name] = true
	}
	if links != 1 {
		t.Errorf("%d hard links, want 1", links)
	}
}

func TestParents(t *testing.T) {
	l := layer{}
	l.bytes("a/b/c", nil, 0o644, 0, 0)
	l.dir("a/b", 0o700, 1, 1)
	l.bytes("usr/bin/x", nil, 0o755, 0, 0)
	l.parents(func(dir string) bool { return dir == "usr" || dir == "usr/bin" })
	if got, want := namesIn(t, written(t, l)), []string{"a/", "a/b/", "a/b/c", "usr/bin/x"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q: folders of the base must not be written again, with other owners", got, want)
	}
	if l["a/b"].header.Mode != 0o700 {
		t.Error("folder mode missing")
	}
}

func indexOf(t *testing.T, l layer) *index {
	t.Helper()
	file := filepath.Join(t.TempDir(), "layer.tar")
	if _, err := l.writeFile(file); err != nil {
		t.Fatal(err)
	}
	x, err := openIndex(file)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestResolve(t *testing.T) {
	l := layer{}
	l.link("bin", "usr/bin")
	l.link("lib64", "/usr/lib64")
	l.link("usr/bin/awk", "/etc/alternatives/awk")
	l.link("etc/alternatives/awk", "../../usr/bin/mawk")
	l.link("loop", "loop")
	l.bytes("usr/bin/mawk", []byte("awk!"), 0o755, 0, 0)
	x := indexOf(t, l)
	for name, want := range map[string]string{
		"/bin/awk": "usr/bin/mawk", "bin/new": "usr/bin/new", "/lib64/x/y": "usr/lib64/x/y", "nowhere/at/all": "nowhere/at/all", "/../bin/mawk": "usr/bin/mawk",
	} {
		if got := x.resolve(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	x.resolve("/loop/x") // terminates
	data, ok, err := x.read("/bin/awk")
	if !ok || err != nil || string(data) != "awk!" {
		t.Errorf("%q, %v, %v", data, ok, err)
	}
	if _, ok, err := x.read("/bin/none"); ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}

// A program is taken with its loader and its libraries, recursively.
func TestTake(t *testing.T) {
	const program = "/bin/ls"
	bin, err := elf.Open(program)
	if err != nil {
		t.Skip("no ELF program: ", err)
	}
	defer bin.Close()
	libs, err := bin.ImportedLibraries()
	if err != nil || len(libs) == 0 {
		t.Skip("program is static: ", err)
	}
	l := layer{}
	if err := l.file("usr/bin/prog", program, 0o755, 0, 0); err != nil {
		t.Fatal(err)
	}
	l.link("lib", "usr/lib")
	l.link("lib64", "usr/lib64")
	l.dir("usr/lib/x86_64-linux-gnu", 0o755, 0, 0)
	want := []string{"usr/bin/prog"}
	for _, lib := range libs {
		l.bytes(path.Join("usr/lib/x86_64-linux-gnu", lib), []byte("a library"), 0o644, 0, 0)
		want = append(want, path.Join("usr/lib/x86_64-linux-gnu", lib))
	}
	loader, _, err := (&index{file: program}).libraries(indexed{header: tar.Header{Size: 1 << 40}})
	if err != nil || loader == "" {
		t.Skip("program has no loader: ", err)
	}
	l.bytes("usr"+loader, []byte("the loader"), 0o755, 0, 0)
	l.bytes("usr/bin/unrelated", nil, 0o755, 0, 0)
	x := indexOf(t, l)
	got := layer{}
	if err := x.take(got, "/usr/bin/pro*"); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(want, "usr"+loader) {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
	if _, ok := got["usr/bin/unrelated"]; ok {
		t.Error("too many files")
	}
	if err := x.take(layer{}, "/usr/bin/none"); err == nil {
		t.Error("no error for a missing file")
	}
	delete(x.entries, want[1])
	if err := x.take(layer{}, "/usr/bin/prog"); err == nil || !strings.Contains(err.Error(), libs[0]) {
		t.Errorf("a missing library is reported as %v", err)
	}
}
