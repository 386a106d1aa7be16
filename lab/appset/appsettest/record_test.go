package appsettest

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestRecord records two cases on three versions: equal results are kept once, and a version that has not recorded a case knows nothing of it.
func TestRecord(t *testing.T) {
	corpus := t.TempDir()
	var cases []Case
	for _, name := range []string{"a", "b"} {
		dir := filepath.Join(corpus, "cases", name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "set.yaml"), []byte("kind: ApplicationSet\n"))
		cases = append(cases, Case{Name: name, Dir: dir})
	}
	record := func(version string, results map[string]string) {
		t.Helper()
		for _, c := range cases {
			if reason, ok := results[c.Name]; ok {
				c.Record(t, corpus, version, Want{Reason: reason})
			}
		}
		Finish(t, corpus, version, cases, slices.Collect(maps.Keys(results)))
	}
	check := func(want ...string) {
		t.Helper()
		files, _ := filepath.Glob(filepath.Join(corpus, "cases", "*", "want*"))
		var got []string
		for _, file := range files {
			rel, _ := filepath.Rel(filepath.Join(corpus, "cases"), file)
			got = append(got, rel)
		}
		if !slices.Equal(got, want) {
			t.Errorf("files %v, want %v", got, want)
		}
	}
	knows := func(version, name, reason string) {
		t.Helper()
		for _, c := range cases {
			if c.Name != name {
				continue
			}
			w, err := c.Recorded(t, corpus, version)
			if (err == nil) != (reason != "") || w != nil && w.Reason != reason {
				t.Errorf("%s of %s: %v, %v, want %q", c.Name, version, w, err, reason)
			}
		}
	}
	record("3.2.11", map[string]string{"a": "one"})
	check("a/want.yaml")
	knows("3.2.11", "a", "one")
	knows("3.2.11", "b", "")
	knows("3.6.1", "a", "")

	record("3.6.1", map[string]string{"a": "two", "b": "new"})
	check("a/want.3.2.yaml", "a/want.yaml", "b/want.yaml")
	knows("3.2.11", "a", "one")
	knows("3.6.1", "a", "two")
	knows("3.2.11", "b", "") // 3.6 recorded it, not 3.2
	knows("3.6.2", "b", "new")

	record("3.4.13", map[string]string{"a": "two", "b": "old"})
	check("a/want.3.2.yaml", "a/want.yaml", "b/want.3.4.yaml", "b/want.yaml")
	knows("3.4.13", "b", "old")

	record("3.6.2", map[string]string{"a": "one"}) // as 3.2 again
	check("a/want.3.4.yaml", "a/want.yaml", "b/want.3.4.yaml", "b/want.yaml")
	knows("3.2.11", "a", "one")
	knows("3.4.13", "a", "two")
	if list := Recordings(t, corpus); len(list) != 3 || list[0].Version != "3.6.2" || list[2].Version != "3.2.11" || !slices.Equal(list[2].Except, []string{"b"}) {
		t.Errorf("%+v", list)
	}
}

func TestSettled(t *testing.T) {
	app := func(name, order string) map[string]any {
		return map[string]any{"metadata": map[string]any{"name": name}, "spec": order}
	}
	w := Want{Applications: []map[string]any{app("fleet", "a,b")}}
	if got := w.Settled(Want{Applications: []map[string]any{app("fleet", "b,a")}}); got.Applications[0]["spec"] != "a,b" {
		t.Error("another order is another result")
	}
	if got := w.Settled(Want{Applications: []map[string]any{app("other", "a,b")}}); name(got.Applications[0]) != "other" {
		t.Error("another Application is taken for the same")
	}
}
