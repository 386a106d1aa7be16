package source

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"homelab/lab/supply/chart"
	"homelab/lab/supply/gosum"
)

var record = flag.Bool("record", false, "write the sums of all recipes' modules, as the public checksum database has them")

// modules returns the modules that recipes name, PATH@VERSION: of programs, of files in images, and of charts.
func modules(t *testing.T, r *Recipes) []string {
	t.Helper()
	var list []string
	if r.Go != "" {
		list = []string{"golang.org/toolchain@v0.0.1-go" + r.Go + ".linux-amd64", "golang.org/toolchain@v0.0.1-go" + r.Go + ".linux-arm64"}
	}
	for _, c := range r.Components {
		if c.Kind == KindPrograms && !c.Own {
			list = append(list, c.at())
		}
		for _, content := range c.Contents {
			if content.Module != "" {
				list = append(list, content.Module)
			}
		}
	}
	charts, err := chart.Recipes()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range charts {
		list = append(list, c.Modules()...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Every module of a recipe has a recorded sum.
func TestRecorded(t *testing.T) {
	r, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	if *record {
		writeSums(t, r)
		return
	}
	sums := gosum.Recorded()
	for _, at := range modules(t, r) {
		for _, of := range []string{at, at + "/go.mod"} {
			if !strings.HasPrefix(sums.Of(of), "h1:") {
				t.Errorf("%s has no sum: run task sums", of)
			}
		}
	}
}

// writeSums resolves the dependencies of all programs for each architecture and records what upstream's go.sum lacks.
func writeSums(t *testing.T, r *Recipes) {
	t.Setenv("GOSUMDB", "sum.golang.org")
	t.Setenv("GONOSUMDB", "")
	t.Setenv("GOPRIVATE", "")
	sums := gosum.Sums{}
	env := []string{"GOTOOLCHAIN=local"}
	if r.Go != "" {
		env = []string{"GOTOOLCHAIN=go" + r.Go}
	}
	for _, at := range modules(t, r) {
		out, err := run(t.Context(), t.TempDir(), append(env, "GOWORK=off"), "go", "mod", "download", "-json", at)
		var got struct{ Sum, GoModSum string }
		if err == nil {
			err = json.Unmarshal(out, &got)
		}
		if err != nil {
			t.Fatal(err)
		}
		of := strings.Replace(at, "@", " ", 1)
		sums[of], sums[of+"/go.mod"] = got.Sum, got.GoModSum
	}
	all := maps.Clone(sums)
	for _, c := range r.Components {
		if c.Kind != KindPrograms || c.Own || len(c.Packages) == 0 {
			continue
		}
		for _, arch := range []string{"amd64", "arm64"} {
			of, err := For(arch)
			if err != nil {
				t.Fatal(err)
			}
			b := New(of, newStore(t), WithSums(sums))
			src, err := sums.Download(t.Context(), c.at())
			if err != nil {
				t.Fatal(err)
			}
			work := t.TempDir()
			known, err := b.resolve(t.Context(), c, src, work, env)
			if err != nil {
				t.Fatalf("%s: %v", c.Name, err)
			}
			now, err := readSums(work)
			if err != nil {
				t.Fatal(err)
			}
			more := 0
			for module, sum := range now {
				if known[module] == "" {
					all[module] = sum
					more++
				}
			}
			t.Logf("%s on %s: %d sums more than upstream's %d", c.Name, arch, more, len(known))
		}
	}
	if err := os.WriteFile(filepath.Join("..", "gosum", "recorded.sum"), all.Text(), 0o644); err != nil {
		t.Fatal(err)
	}
}
