package chainsaw_test

import (
	"errors"
	"flag"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"homelab/lab"
	"homelab/lab/scenario"
	"homelab/lab/scenario/chainsaw"
	"homelab/lab/scenario/verb"
)

var update = flag.Bool("update", false, "write the expected files")

// Each case has a test with its files, and either the scenario, which must be valid, as want/FILE, or problems.
func TestImport(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			in, want := fstest.MapFS{}, map[string]string{}
			kept := a.Files[:0:0]
			for _, f := range a.Files {
				if name, is := strings.CutPrefix(f.Name, "want/"); is || f.Name == "problems" {
					want[name] = string(f.Data)
					continue
				}
				kept = append(kept, f)
				in[f.Name] = &fstest.MapFile{Data: f.Data}
			}
			got := map[string]string{}
			o := chainsaw.Options{Cluster: "dev"}
			out, notes, err := chainsaw.Import(in, "chainsaw-test.yaml", &o)
			if invalid := new(lab.Error); errors.As(err, &invalid) {
				got["problems"] = invalid.Problems.Error() + "\n"
			} else if err != nil {
				t.Fatal(err)
			}
			if len(notes) > 0 {
				got["notes"] = notes.Error() + "\n"
			}
			estate := fstest.MapFS{}
			for name, data := range out {
				got[name] = string(data)
				estate["scenarios/"+o.Name+"/"+name] = &fstest.MapFile{Data: data}
			}
			if len(out) > 0 {
				if _, err := scenario.Load(estate, o.Name, verb.All()); err != nil {
					t.Error(err)
				}
			}
			if *update {
				a.Files = kept
				for _, name := range slices.Sorted(maps.Keys(got)) {
					f := txtar.File{Name: "want/" + name, Data: []byte(got[name])}
					if name == "problems" {
						f.Name = name
					}
					a.Files = append(a.Files, f)
				}
				if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("-want +got, go test -update writes it\n%s", d)
			}
		})
	}
}

// FuzzImport expects no panic, and either files or an error.
func FuzzImport(f *testing.F) {
	files, _ := fs.Glob(os.DirFS("testdata"), "*.txtar")
	for _, file := range files {
		a, err := txtar.ParseFile(filepath.Join("testdata", file))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(a.Files[0].Data))
	}
	f.Fuzz(func(t *testing.T, text string) {
		out, _, err := chainsaw.Import(fstest.MapFS{"x.yaml": &fstest.MapFile{Data: []byte(text)}}, "x.yaml", &chainsaw.Options{Cluster: "dev"})
		if (len(out) == 0) == (err == nil) {
			t.Errorf("%d files, %v", len(out), err)
		}
	})
}
