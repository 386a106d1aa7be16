package source

import (
	"archive/zip"
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/mod/sumdb/dirhash"

	"homelab/lab/supply/gosum"
)

// goProxy serves a module from a folder, so that builds need no network, and returns its sums.
func goProxy(t *testing.T, module, version string, files map[string]string) gosum.Sums {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("GOPROXY", "file://"+filepath.ToSlash(dir))
	t.Setenv("GOSUMDB", "off")
	cache := t.TempDir()
	t.Cleanup(func() { // the go command makes the files read-only
		_ = filepath.WalkDir(cache, func(p string, _ fs.DirEntry, _ error) error { return os.Chmod(p, 0o755) })
	})
	t.Setenv("GOMODCACHE", cache)
	return publish(t, dir, module, version, files)
}

// publish adds a module to a proxy's folder.
func publish(t *testing.T, dir, module, version string, files map[string]string) gosum.Sums {
	t.Helper()
	at := filepath.Join(dir, module, "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	for name, content := range files {
		w, err := z.Create(module + "@" + version + "/" + name)
		if err == nil {
			_, err = w.Write([]byte(content))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{".info": []byte(`{"Version":"` + version + `"}`), ".mod": []byte(files["go.mod"]), ".zip": buf.Bytes()} {
		if err := os.WriteFile(filepath.Join(at, version+name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	zipSum, err := dirhash.HashZip(filepath.Join(at, version+".zip"), dirhash.Hash1)
	if err != nil {
		t.Fatal(err)
	}
	modSum, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) { return os.Open(filepath.Join(at, version+".mod")) })
	if err != nil {
		t.Fatal(err)
	}
	return gosum.Sums{module + " " + version: zipSum, module + " " + version + "/go.mod": modSum}
}

const helloRecipes = `components:
- {name: hello, kind: programs, module: example.com/hello, version: v1.2.3, packages: [./cmd/hello], ldflags: [-X main.version=v1.2.3]}
- {name: a, kind: image, ref: "a:1", contents: [{from: hello, paths: [hello], to: /hello}, {module: example.com/hello@v1.2.3, path: ui, to: /ui}]}
- {name: b, kind: image, ref: "b:1", contents: [{from: hello, paths: [hello], to: /hello}]}
`

func TestProgramsBuiltOnce(t *testing.T) {
	if Possible() != nil {
		t.Skip("needs Linux")
	}
	sums := goProxy(t, "example.com/hello", "v1.2.3", map[string]string{
		"go.mod":            "module example.com/hello\n\ngo 1.21\n\nreplace example.com/x => ./x\n",
		"cmd/hello/main.go": "package main\n\nvar version string\n\nfunc main() { print(version) }\n",
		"ui/index.html":     "<p>hi</p>",
	})
	r, err := Parse("recipes.yaml", []byte(helloRecipes))
	if err != nil {
		t.Fatal(err)
	}
	s := newStore(t)
	b := New(r, s, WithSums(sums))
	var mu sync.Mutex
	var said []string
	say := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, line)
	}
	b.board.every = time.Hour // never reached: each activity is reported once
	w := b.board.watch(say)
	defer w.stop()
	var group sync.WaitGroup
	for _, name := range []string{"a", "b", "a"} {
		group.Go(func() {
			if _, err := b.Image(t.Context(), name, nil); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	group.Wait()
	compiled := slices.DeleteFunc(slices.Clone(said), func(line string) bool { return !strings.HasPrefix(line, "compiling hello,") })
	if len(compiled) != 1 {
		t.Errorf("progress %q", said)
	}
	program, err := b.Program(t.Context(), "hello", "hello", nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := run(t.Context(), "", nil, "sh", "-c", "exec "+program+" 2>&1")
	if err != nil || string(out) != "v1.2.3" {
		t.Errorf("%q, %v", out, err)
	}
	if left, err := os.ReadDir(filepath.Join(s.Dir(), ".work")); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	items, err := b.Items()
	if err != nil || len(items) != 3 || !items[0].Present || !items[2].Present {
		t.Errorf("%+v, %v", items, err)
	}
}

func TestBuildFailure(t *testing.T) {
	if Possible() != nil {
		t.Skip("needs Linux")
	}
	sums := goProxy(t, "example.com/hello", "v1.2.3", map[string]string{
		"go.mod": "module example.com/hello\n\ngo 1.21\n", "cmd/hello/main.go": "package main\n\nfunc main() { undefinedHere() }\n",
	})
	r, err := Parse("recipes.yaml", []byte(helloRecipes))
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(r, newStore(t), WithSums(sums)).Image(t.Context(), "b", nil)
	if err == nil || !strings.Contains(err.Error(), "build hello:") || !strings.Contains(err.Error(), "undefinedHere") {
		t.Errorf("got %v", err)
	}
}

func TestUnknownImage(t *testing.T) {
	r, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	b := New(r, newStore(t))
	for _, name := range []string{"nothing", "kubernetes"} {
		if _, err := b.Image(t.Context(), name, nil); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Between components the board is idle for a moment; after a failure it stays idle.
func TestTimeLeftBetweenComponents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, other := &Component{Name: "one", Seconds: 100}, &Component{Name: "other", Seconds: 100}
		b := New(&Recipes{}, newStore(t))
		b.board.expect(map[string]*Component{"one": one, "other": other})
		b.board.say(one, "compiling one")
		time.Sleep(100 * time.Second)
		b.board.made(one, 100)
		if left := b.Left(); left != 100*time.Second {
			t.Errorf("%s left between two components", left)
		}
		time.Sleep(idleLimit + time.Second)
		if left := b.Left(); left != 0 {
			t.Errorf("%s left while stopped", left)
		}
	})
}

func TestBoardTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := Parse("recipes.yaml", []byte(strings.ReplaceAll(helloRecipes, "module: example.com/hello, ", "module: example.com/hello, seconds: 100, ")))
		if err != nil {
			t.Fatal(err)
		}
		img, _ := r.Get("a")
		hello, _ := r.Get("hello")
		b := New(r, newStore(t))
		if err := b.Expect("a", "b", "a", "nothing"); err != nil {
			t.Fatal(err)
		}
		if left := b.Left(); left != 0 {
			t.Errorf("%s left before anything is built", left)
		}
		var said, other []string
		w := b.board.watch(func(s string) { said = append(said, s) })
		b.board.say(hello, "compiling hello")
		late := b.board.watch(func(s string) { other = append(other, s) }) // waits for b and sees its progress
		time.Sleep(31 * time.Second)
		if left := b.Left(); left != 69*time.Second {
			t.Errorf("%s left of 100s after 31s", left)
		}
		b.board.done(hello)
		b.board.say(img, "packing a")
		w.stop()
		late.stop()
		want := []string{
			"compiling hello, 0 of 3 made, 0s so far, about 1m40s left",
			"compiling hello, 0 of 3 made, 30s so far, about 1m10s left",
			"packing a, 1 of 3 made, 31s so far",
		}
		for i, line := range want {
			if !slices.Contains(said, line) {
				t.Errorf("%q is not among %q", line, said)
			}
			if i > 0 && !slices.Contains(other, line) {
				t.Errorf("%q is not among %q", line, other)
			}
		}
	})
}
