package estate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// Each file of testdata/roots overlays the base with a variant of an estate and the expected Applications, addons and
// notes. UPDATE_GOLDEN=1 updates these.
func TestRoots(t *testing.T) {
	cases, err := filepath.Glob("testdata/roots/*.txtar")
	if err != nil || len(cases) < 8 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, file := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			last := len(archive.Files) - 1
			want := archive.Files[last]
			dir, fsys := build(t, &txtar.Archive{Comment: archive.Comment, Files: archive.Files[:last]})
			got := loaded(t, fsys, dir)
			if os.Getenv("UPDATE_GOLDEN") != "" {
				archive.Files[last].Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(want.Data) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want.Data)
			}
		})
	}
}

func loaded(t *testing.T, fsys fs.FS, dir string) string {
	t.Helper()
	e, err := Load(fsys, dir, "homelab")
	if err != nil {
		t.Fatal(errors.Unwrap(err))
	}
	var b strings.Builder
	for _, a := range e.Applications {
		fmt.Fprintf(&b, "application %s: %s on %s, written at %s", a.Name, a.Addon, a.Cluster, a.At)
		for _, c := range a.Charts {
			fmt.Fprintf(&b, ", %s %s at %s", c.Name, c.Version, c.At)
		}
		if a.Leads {
			b.WriteString(", leads to others")
		}
		b.WriteString("\n")
	}
	for _, a := range e.Addons {
		fmt.Fprintf(&b, "addon %s: sets %s in %s", a.Name, strings.Join(a.Sets, " "), a.Position(""))
		if a.Leads {
			b.WriteString(", leads to others")
		}
		for _, c := range e.Clusters {
			if c.Selected[a.Name] {
				b.WriteString(", on " + c.Name)
			}
		}
		for _, r := range a.Reads {
			fmt.Fprintf(&b, ", reads %s at %s", r.Key, r.At)
		}
		b.WriteString("\n")
	}
	notes := slices.Clone(e.Notes)
	notes.Sort()
	for _, n := range notes {
		fmt.Fprintf(&b, "note %s\n", n)
	}
	return b.String()
}
