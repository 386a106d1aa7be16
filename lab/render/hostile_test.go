package render

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"text/template"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	sigsyaml "sigs.k8s.io/yaml"

	"homelab/lab/appset"
)

// kinds of hostile inputs, each a folder of at least ten cases.
var hostileKinds = []string{"archives", "charts", "documents", "jsonnet", "kustomizations"}

// Each case is a repository whose rendering would take too much time or memory, or leave the repository. It ends with an error that names a file, within the budget.
// Files that end in .gen are templates, between << and >>, of large ones.
func TestHostile(t *testing.T) {
	for _, kind := range hostileKinds {
		cases, err := filepath.Glob("testdata/hostile/" + kind + "/*.txtar")
		if err != nil || len(cases) < 10 {
			t.Fatalf("%s: only %d cases, %v", kind, len(cases), err)
		}
		for _, name := range cases {
			t.Run(kind+"/"+strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
				archive, err := txtar.ParseFile(name)
				if err != nil {
					t.Fatal(err)
				}
				repo := fstest.MapFS{}
				s := Source{FS: repo, Application: "app", Project: "default", Namespace: "argocd", Budget: NewBudget()}
				var want *txtar.File
				for i := range archive.Files {
					switch f := &archive.Files[i]; {
					case f.Name == "source.yaml":
						if err := sigsyaml.UnmarshalStrict(f.Data, &s.Source); err != nil {
							t.Fatal(err)
						}
					case f.Name == "want":
						want = f
					case strings.HasSuffix(f.Name, ".gen"):
						generate(t, f, repo)
					default:
						repo[f.Name] = &fstest.MapFile{Data: f.Data}
					}
				}
				docs, err := Render(s)
				var e *Error
				if !errors.As(err, &e) || e.File == "" {
					t.Fatalf("%d documents, error %v", len(docs), err)
				}
				steps, bytes := total*maxSteps-s.Budget.steps, total*maxBytes-s.Budget.bytes
				if steps > maxSteps*2 || bytes > maxBytes*2 || s.Budget.files < (total-2)*maxFiles {
					t.Errorf("spent %d steps, %d bytes", steps, bytes)
				}
				got := fmt.Sprintf("error: %v\nlimit: %t\n", e, e.Limit)
				if len(got) > 700 {
					t.Errorf("a long message: %s", got)
				}
				if *update {
					want.Data = []byte(got)
					if err := os.WriteFile(name, txtar.Format(archive), 0o644); err != nil {
						t.Fatal(err)
					}
					return
				}
				if d := cmp.Diff(string(want.Data), got); d != "" {
					t.Errorf("(-update updates the case)\n%s", d)
				}
			})
		}
		runtime.GC()
	}
}

// generate adds the files of a template. A line "-- NAME --" in its output begins another file.
func generate(t *testing.T, f *txtar.File, repo fstest.MapFS) {
	t.Helper()
	funcs := template.FuncMap{
		"times": func(n int, text string) string { return strings.Repeat(text, n) },
		"upto":  func(n int) []int { return make([]int, n) },
		"add":   func(a, b int) int { return a + b },
		// tgz is an archive of one chart with a number of files of a size; of zeros, which compress well.
		"tgz": func(files, size int) string {
			return packed(t, "x", map[string]string{"Chart.yaml": "apiVersion: v2\nname: x\nversion: 1.0.0\n"}, files, size)
		},
		// nested is a chart in an archive in an archive, and so on.
		"nested": func(n int) string {
			inner := packed(t, "x", map[string]string{"Chart.yaml": "apiVersion: v2\nname: x\nversion: 1.0.0\n"}, 0, 0)
			for range n {
				inner = packed(t, "x", map[string]string{"Chart.yaml": "apiVersion: v2\nname: x\nversion: 1.0.0\n", "charts/x.tgz": inner}, 0, 0)
			}
			return inner
		},
		"member": func(name, text string) string { return packed(t, "", map[string]string{name: text}, 0, 0) },
	}
	parsed, err := template.New("").Delims("<<", ">>").Funcs(funcs).Parse(strings.TrimSuffix(string(f.Data), "\n"))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := parsed.Execute(&b, nil); err != nil {
		t.Fatal(err)
	}
	name := strings.TrimSuffix(f.Name, ".gen")
	text := b.String()
	for text != "" {
		before, after, more := strings.Cut(text, "\n== ")
		repo[name] = &fstest.MapFile{Data: []byte(before)}
		if !more {
			return
		}
		name, text, _ = strings.Cut(after, "\n")
	}
}

// packed returns an archive of the files in a folder, and of more files of zeros.
func packed(t *testing.T, dir string, files map[string]string, more, size int) string {
	t.Helper()
	var b bytes.Buffer
	zip, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(zip)
	write := func(name string, data []byte) {
		if dir != "" {
			name = dir + "/" + name
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		write(name, []byte(text))
	}
	zeros := make([]byte, size)
	for i := range more {
		write(fmt.Sprint("zeros/", i), zeros)
	}
	if err := errors.Join(w.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What the evaluator does without steps cannot be stopped, but lab stops: the error is known, and the program ends.
func TestJsonnetRunaway(t *testing.T) {
	const text = `local f(n) = if n == 0 then [1] else (local x = f(n - 1); [x, x]); "" + f(60)`
	if os.Getenv("LAB_TEST_RUNAWAY") != "" {
		maxAllocs = 1 << 30
		_, err := Render(Source{FS: fstest.MapFS{"c/a.jsonnet": {Data: []byte(text)}}, Source: appset.Source{Path: "c"}})
		fmt.Println(err)
		os.Exit(0)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestJsonnetRunaway$")
	cmd.Env = append(os.Environ(), "LAB_TEST_RUNAWAY=1")
	out, err := cmd.Output()
	if want := "c/a.jsonnet: needs more than 1 GiB to evaluate"; err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%v: %s, want %s", err, out, want)
	}
}
