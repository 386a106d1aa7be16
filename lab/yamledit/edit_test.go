package yamledit

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"golang.org/x/tools/txtar"

	"homelab/lab/fieldpath"
)

var update = flag.Bool("update", false, "write the golden files")

// Each archive has a file ("in"), edits, one "path = value" per line, and the result ("out") or "error".
func TestSet(t *testing.T) {
	cases, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(cases) == 0 {
		t.Fatal("no cases", err)
	}
	for _, file := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			files := map[string]string{}
			for _, f := range archive.Files {
				files[f.Name] = string(f.Data)
			}
			got, failure := []byte(files["in"]), ""
			for line := range strings.Lines(files["edits"]) {
				path, text, _ := strings.Cut(strings.TrimSpace(line), " = ")
				at, err := fieldpath.Parse(path)
				if err != nil {
					t.Fatal(err)
				}
				var value any
				if err := yaml.Unmarshal([]byte(text), &value); err != nil {
					t.Fatal(err)
				}
				out, err := Set(got, at, value)
				if err != nil {
					failure += err.Error() + "\n"
					continue
				}
				got = out
			}
			if *update {
				archive.Files = []txtar.File{{Name: "in", Data: []byte(files["in"])}, {Name: "edits", Data: []byte(files["edits"])}, {Name: "out", Data: got}}
				if failure != "" {
					archive.Files = append(archive.Files, txtar.File{Name: "error", Data: []byte(failure)})
				}
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(files["out"], string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(files["error"], failure); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReplaceScalar(t *testing.T) {
	in := "a: # why\n  - v: 6.7.0 # pinned\n  - {v: '6.7.0', w: x}\n"
	for _, c := range []struct {
		line, column int
		to, want     string
	}{
		{2, 8, "6.9.2", "a: # why\n  - v: 6.9.2 # pinned\n  - {v: '6.7.0', w: x}\n"},
		{2, 8, "6.9", "a: # why\n  - v: \"6.9\" # pinned\n  - {v: '6.7.0', w: x}\n"}, // a number without quotes
		{3, 9, "6.9.2", "a: # why\n  - v: 6.7.0 # pinned\n  - {v: '6.9.2', w: x}\n"},
	} {
		got, err := ReplaceScalar([]byte(in), c.line, c.column, c.to)
		if err != nil || string(got) != c.want {
			t.Errorf("%d:%d: %v\n%s", c.line, c.column, err, got)
		}
	}
	several := "a: 1\n---\nb: &x 1\nc: *x\n---\nd: 1 # kept\n"
	if got, err := ReplaceScalar([]byte(several), 6, 4, "two"); err != nil || string(got) != strings.Replace(several, "d: 1", "d: two", 1) {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := ReplaceScalar([]byte(in), 2, 7, "x"); err == nil {
		t.Error("replaced a missing scalar")
	}
}

func FuzzSet(f *testing.F) {
	for _, s := range []string{"a: 1\nb: {c: [x, 'y'], d: \"z\"}\n", "a:\n  - b: |\n      text\n    c: d # e\n", "a:\nb: ~\n", "a: {b: {c: 1}} # }\n"} {
		for _, p := range []string{"a", "a.b", "b.c", "a[0].c", "b.d", "b.new.key"} {
			f.Add(s, p, "v: #")
		}
	}
	f.Fuzz(func(t *testing.T, in, path, value string) {
		at, err := fieldpath.Parse(path)
		if err != nil {
			return
		}
		out, err := Set([]byte(in), at, value)
		if err != nil {
			return
		}
		_, v, err := read(out)
		if err != nil {
			t.Fatalf("%q -> %q: %v", in, out, err)
		}
		if got, ok := at.Get(v); !ok || got != value {
			if !strings.Contains(path, "=") {
				t.Errorf("%q -> %q: %v", in, out, got)
			}
		}
	})
}
