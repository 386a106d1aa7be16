package draft_test

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"homelab/lab"
	"homelab/lab/desired"
	"homelab/lab/draft"
	"homelab/lab/estate"
	"homelab/lab/needs"
)

// Each testdata/NAME.txtar has "repositories", a list of addresses and folders, the folders' files, and "want", the
// expected draft; "root" is the wanted root. UPDATE_GOLDEN=1 updates it.
func TestNew(t *testing.T) {
	cases, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(cases) < 5 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	var fields, traced int
	defer func() {
		const least = 0.99
		if t.Logf("%d of %d fields traced", traced, fields); float64(traced) < least*float64(fields) || fields < 500 {
			t.Errorf("traced %d of %d fields, want %v", traced, fields, least)
		}
	}()
	for _, file := range cases {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			want, wishes := "", draft.Wishes{}
			var repositories []lab.Repository
			archive.Files = slices.DeleteFunc(archive.Files, func(f txtar.File) bool {
				if f.Name == "want" {
					want = string(f.Data)
				}
				if f.Name == "root" {
					wishes.Root = strings.TrimSpace(string(f.Data))
				}
				return f.Name == "want"
			})
			for _, f := range archive.Files {
				write(t, filepath.Join(dir, f.Name), f.Data)
			}
			for line := range strings.Lines(string(archive.Files[0].Data)) {
				url, folder, _ := strings.Cut(strings.TrimSpace(line), " ")
				repositories = append(repositories, lab.Repository{URL: url, Dir: "../" + folder})
			}
			home := filepath.Join(dir, "estate")
			write(t, filepath.Join(home, "none"), nil)
			mounted, err := estate.Mount(home, repositories)
			if err != nil {
				t.Fatal(err)
			}
			d, err := draft.New("test", mounted, wishes)
			if err != nil {
				t.Fatal(err)
			}
			got := printed(t, d)
			if slices.Reverse(mounted); len(mounted) > 1 {
				other, err := draft.New("test", mounted, wishes)
				if err != nil {
					t.Fatal(err)
				}
				if printed(t, other) != got {
					t.Errorf("with the repositories in another order:\n%s\nand not:\n%s", printed(t, other), got)
				}
			}
			if err := os.CopyFS(home, d.Files); err != nil {
				t.Fatal(err)
			}
			root, err := os.OpenRoot(home)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			images := estate.WithImages(func(ref string) string {
				if strings.Contains(ref, "podinfo") {
					return "podinfo"
				}
				return ""
			})
			switch e, apps, err := estate.Desired(root.FS(), home, "test", images); {
			case err != nil:
				got += fmt.Sprintf("# lab up: %v\n", err)
				var failed *lab.Error
				if errors.As(err, &failed) {
					got += failed.Problems.Error() + "\n"
				}
			default:
				for _, a := range apps {
					got += fmt.Sprintf("# application %s on %s\n", a.Name, a.Cluster)
					if explained(name) {
						explain(t, a, &fields, &traced)
					}
				}
				for _, n := range e.Notes {
					got += fmt.Sprintf("# note %s\n", n)
				}
				silent := map[string]error{}
				for _, url := range needs.Others(e) {
					silent[url] = errors.New("silent")
				}
				needs.Mark(e, silent)
				for _, a := range e.Applications {
					if a.LeftOut != "" {
						got += fmt.Sprintf("# left out %s: %s\n", a.Name, a.LeftOut)
					}
					if len(a.Images) > 0 {
						got += fmt.Sprintf("# images of %s: %s\n", a.Name, strings.Join(a.Images, ", "))
					}
				}
			}
			if os.Getenv("UPDATE_GOLDEN") != "" {
				archive.Files = append(archive.Files, txtar.File{Name: "want", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("drafted:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func printed(t *testing.T, d *draft.Draft) string {
	t.Helper()
	var b strings.Builder
	err := fs.WalkDir(d.Files, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := fs.ReadFile(d.Files, name)
		fmt.Fprintf(&b, "## %s\n%s", name, text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range d.Keys {
		if k.In != "" {
			fmt.Fprintf(&b, "# %s %s: %q, %s, %s\n", k.In, k.Name, k.Value, k.How, k.At)
			continue
		}
		fmt.Fprintf(&b, "# key %s (label: %t): %q, %s, %s\n", k.Name, k.Label, k.Value, k.How, k.At)
	}
	for _, a := range d.Addons {
		fmt.Fprintf(&b, "# addon %s: %t %s, %s\n", a.Addon, a.On, a.Why, a.At)
	}
	for _, at := range d.Roots {
		fmt.Fprintf(&b, "# root %s\n", at)
	}
	for _, o := range d.Without {
		fmt.Fprintf(&b, "# without %s: %s\n", o.At, o.Why)
	}
	for _, c := range d.Choices {
		fmt.Fprintf(&b, "# choice %s: %s of %s, %s\n", c.About, c.Took, strings.Join(c.Of, ", "), c.At)
	}
	for _, at := range d.Beside {
		fmt.Fprintf(&b, "# beside %s\n", at)
	}
	return b.String()
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// explained reports whether a case's fields are explained, which takes hundreds of renderings: the cases with most patches, and a quarter of the others, by name.
func explained(name string) bool {
	return slices.Contains([]string{"flux-encrypted", "flux-former-apis"}, name) || crc32.ChecksumIEEE([]byte(name))%4 == 0
}

// explain counts the fields of an application's objects, and those of which it is known where they come from. Of Jsonnet's it is not known.
func explain(t *testing.T, app desired.App, fields, traced *int) {
	t.Helper()
	objects, _ := app.Explain()
	for _, o := range objects {
		if path.Ext(o.File) == ".jsonnet" {
			continue
		}
		for _, f := range o.Fields {
			*fields++
			if len(f.From) > 0 || f.At.Line > 0 || f.Random {
				*traced++
			} else {
				t.Logf("unknown: %s of %s: %q", f.Path, o.ID(), f.Text)
			}
		}
	}
}
