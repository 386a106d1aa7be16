package estate

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"go.yaml.in/yaml/v3"
	"golang.org/x/tools/txtar"

	"homelab/lab"
)

// Each testdata/estates/NAME.txtar has an estate, which may mount its own folders, and in want what Load makes of it or its problems. Lines above the files say
// which repositories are unavailable and which images are components. UPDATE_GOLDEN=1 updates it.
func TestEstates(t *testing.T) {
	cases, err := filepath.Glob("testdata/estates/*.txtar")
	if err != nil || len(cases) < 5 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, file := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var options struct{ Unavailable, Images map[string]string }
			if err := yaml.Unmarshal(archive.Comment, &options); err != nil {
				t.Fatal(err)
			}
			files, want := fstest.MapFS{}, ""
			for _, f := range archive.Files {
				if f.Name == "want" {
					want = string(f.Data)
				} else {
					files[f.Name] = &fstest.MapFile{Data: f.Data, Mode: 0o644}
				}
			}
			if strings.HasPrefix(filepath.Base(file), "flux-") {
				regenerate(t, files)
			}
			unavailable := map[string]error{}
			for url, why := range options.Unavailable {
				unavailable[url] = errors.New(why)
			}
			got := outline(t, files, unavailable, WithImages(func(ref string) string { return options.Images[ref] }), EveryEngine())
			if os.Getenv("UPDATE_GOLDEN") != "" {
				archive.Files = slices.DeleteFunc(archive.Files, func(f txtar.File) bool { return f.Name == "want" })
				archive.Files = append(archive.Files, txtar.File{Name: "want", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// outline returns an estate as YAML, without zero values.
func outline(t *testing.T, files fstest.MapFS, unavailable map[string]error, options ...Option) string {
	t.Helper()
	all := map[string]any{}
	e, err := Load(files, "", "homelab", options...)
	var failed *lab.Error
	switch {
	case errors.As(err, &failed):
		all["problems"] = failed.Problems
	case err != nil:
		t.Fatal(err)
	default:
		var repositories []string
		for _, r := range e.Repositories {
			repositories = append(repositories, strings.Join([]string{r.Name, r.URL, r.Dir, r.Branch}, " "))
		}
		before := slices.Clone(e.Applications)
		var selected, kinds []string
		clusters := slices.Clone(e.Clusters)
		for i, c := range e.Clusters {
			kinds, clusters[i].Kind, clusters[i].Positions = append(kinds, c.Name+"\n"+string(c.Kind)), nil, nil
			for _, addon := range slices.Sorted(maps.Keys(c.Selected)) {
				selected = append(selected, strings.TrimSuffix(c.Name+" "+addon+": "+map[bool]string{true: "yes", false: "no"}[c.Selected[addon]], ": "))
			}
		}
		all = map[string]any{
			"addons": e.Addons, "applications": before, "possible": e.Possible, "unknown": e.UnknownSets, "waves": e.Waves, "repositories": repositories, "selected": selected,
			"clusters": clusters, "kinds": kinds, "environments": e.Environments, "others": Others(e),
		}
		all["unavailable"] = LeaveOut(e, unavailable)
		var left []string
		for _, a := range e.Applications {
			if a.LeftOut != "" {
				left = append(left, a.Name+": "+a.LeftOut)
			}
		}
		all["left out"], all["notes"] = left, e.Notes
	}
	data, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	var plain any
	if err := json.Unmarshal(data, &plain); err != nil {
		t.Fatal(err)
	}
	out, err := yaml.Marshal(pruned(plain))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// pruned drops zero values.
func pruned(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			if e = pruned(e); e != nil {
				out[k] = e
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case []any:
		var out []any
		for _, e := range v {
			out = append(out, pruned(e))
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case bool:
		if !v {
			return nil
		}
	case string:
		if v == "" {
			return nil
		}
	case float64:
		if v == 0 {
			return nil
		}
		return int(v)
	}
	return v
}
