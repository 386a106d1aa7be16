package fluxset

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/tools/txtar"

	"homelab/lab"
)

// Each testdata/files-NAME.txtar has the files of an estate, and the generated ones in want/. UPDATE_GOLDEN=1 updates it.
func TestFilesGolden(t *testing.T) {
	cases, err := filepath.Glob("testdata/files-*.txtar")
	if err != nil || len(cases) < 3 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, file := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			fsys, want := fstest.MapFS{}, map[string]string{}
			var given []txtar.File
			for _, f := range archive.Files {
				if name, ok := strings.CutPrefix(f.Name, "want/"); ok {
					want[name] = string(f.Data)
					continue
				}
				given = append(given, f)
				fsys[f.Name] = &fstest.MapFile{Data: f.Data}
			}
			hub := lab.Cluster{Name: "hub", Role: lab.RoleHub, Addons: map[string]bool{"shop": true, "quota": true}}
			hub.Engine = lab.EngineSpec{Type: lab.EngineFlux, Shape: lab.ShapeHub}
			if strings.Contains(file, "standalone") {
				hub.Engine.Shape = lab.ShapeStandalone
			}
			got, err := Files(fsys, []lab.Cluster{
				{Name: "prod", Role: lab.RoleSpoke, Environment: "prod", Addons: map[string]bool{"shop": true, "quota": true, "kept": true, "own": true, "absent": true}},
				hub,
				{Name: "dev", Role: lab.RoleSpoke, Environment: "dev", Addons: map[string]bool{"shop": false}},
			})
			if err != nil {
				t.Fatal(err)
			}
			if os.Getenv("UPDATE_GOLDEN") != "" {
				archive.Files = given
				for _, name := range slices.Sorted(maps.Keys(got)) {
					archive.Files = append(archive.Files, txtar.File{Name: "want/" + name, Data: []byte(got[name])})
				}
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			for _, name := range slices.Sorted(maps.Keys(got)) {
				if got[name] != want[name] {
					t.Errorf("%s:\n%s\nwant:\n%s", name, got[name], want[name])
				}
				delete(want, name)
			}
			for name := range want {
				t.Errorf("no %s", name)
			}
		})
	}
}
