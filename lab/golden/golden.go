// Package golden runs tests whose cases are txtar archives with the expected results in them.
package golden

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"go.yaml.in/yaml/v3"
	"golang.org/x/tools/txtar"
)

// want is the file of an archive with the expected result.
const want = "want"

// Run runs a subtest for each archive that matches a pattern; fewer than least are an error. produce returns the result for the archive's other files and the text
// above them. UPDATE_GOLDEN=1 writes it into the archive.
func Run(t *testing.T, pattern string, least int, produce func(t *testing.T, name string, comment []byte, files fstest.MapFS) string) {
	t.Helper()
	cases, err := filepath.Glob(pattern)
	if err != nil || len(cases) < least {
		t.Fatalf("%d cases of %s, %v", len(cases), pattern, err)
	}
	for _, file := range cases {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			files, expected := fstest.MapFS{}, ""
			for _, f := range archive.Files {
				if f.Name == want {
					expected = string(f.Data)
				} else {
					files[f.Name] = &fstest.MapFile{Data: f.Data, Mode: 0o644}
				}
			}
			got := produce(t, name, archive.Comment, files)
			if os.Getenv("UPDATE_GOLDEN") != "" {
				archive.Files = slices.DeleteFunc(archive.Files, func(f txtar.File) bool { return f.Name == want })
				archive.Files = append(archive.Files, txtar.File{Name: want, Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != expected {
				t.Errorf("got\n%s\nwant\n%s", got, expected)
			}
		})
	}
}

// Seed adds the files of all archives that match a pattern to the corpus of a fuzz test.
func Seed(f *testing.F, patterns ...string) {
	f.Helper()
	for _, pattern := range patterns {
		cases, err := filepath.Glob(pattern)
		if err != nil || len(cases) == 0 {
			f.Fatalf("no archive %s, %v", pattern, err)
		}
		for _, name := range cases {
			archive, err := txtar.ParseFile(name)
			if err != nil {
				f.Fatal(err)
			}
			for _, file := range archive.Files {
				f.Add(file.Data)
			}
		}
	}
}

// Lines returns the number of lines of a YAML file, which also breaks lines at CR, NEL, LS and PS.
func Lines(data []byte) int {
	n := 1
	for _, r := range string(data) {
		if strings.ContainsRune("\n\r\u2028\u2029\u0085", r) {
			n++
		}
	}
	return n
}

// YAML returns a value as YAML, by its JSON tags and without zero values.
func YAML(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
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
