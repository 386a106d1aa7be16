package appsettest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	"homelab/lab/appset"
	"homelab/lab/argo"
	"homelab/lab/strict"
)

// Recording is a version of Argo CD whose controller recorded the corpus.
type Recording struct {
	Version string   `json:"version"`
	Except  []string `json:"except,omitempty"` // cases that it did not record
}

// Minor returns the minor of the version.
func (r Recording) Minor() argo.Minor {
	m, _ := argo.ParseMinor(r.Version)
	return m
}

// Recordings returns the versions in recorded.yaml of a corpus, the newest first.
func Recordings(t testing.TB, corpus string) []Recording {
	t.Helper()
	var list []Recording
	decode(t, filepath.Join(corpus, "recorded.yaml"), &list)
	return list
}

// Want returns what a minor does, or nil if nothing is recorded.
func (c Case) Want(t testing.TB, minor argo.Minor) *Want {
	t.Helper()
	for _, file := range []string{c.of(minor), c.common()} {
		if exists(file) {
			w := new(Want)
			decode(t, file, w)
			return w
		}
	}
	return nil
}

func (c Case) common() string { return filepath.Join(c.Dir, "want.yaml") }

func (c Case) of(minor argo.Minor) string {
	return filepath.Join(c.Dir, "want."+minor.String()+".yaml")
}

// Recorded returns what a version did, or why that is not known: it did not record the case, if it recorded any.
func (c Case) Recorded(t testing.TB, corpus, version string) (*Want, error) {
	t.Helper()
	for _, r := range Recordings(t, corpus) {
		if minor, _ := argo.ParseMinor(version); r.Minor() == minor && !slices.Contains(r.Except, c.Name) {
			if w := c.Want(t, minor); w != nil {
				return w, nil
			}
		}
	}
	return nil, fmt.Errorf("not recorded on Argo CD %s", version)
}

// Varies reports whether the result of a case is another each time.
func (c Case) Varies(t testing.TB, version string) bool {
	t.Helper()
	minor, _ := argo.ParseMinor(version)
	docs, problems := strict.Parse("set.yaml", c.Set)
	if len(problems) > 0 || len(docs) != 1 {
		t.Fatalf("%d documents: %v", len(docs), problems)
	}
	set, problems := appset.Parse("set.yaml", docs[0])
	if len(problems) > 0 {
		return false
	}
	x, err := set.Expand(c.World(minor))
	return errors.As(err, new(*appset.UnknownError)) || err == nil && len(x.Notes) > 0
}

// Settled returns w if got differs from it in what varies alone: it has Applications of the same names.
func (w Want) Settled(got Want) Want {
	named := func(a, b map[string]any) bool { return name(a) == name(b) }
	if got.Reason == w.Reason && slices.EqualFunc(got.Applications, w.Applications, named) {
		return w
	}
	return got
}

func name(application map[string]any) any {
	metadata, _ := application["metadata"].(map[string]any)
	return metadata["name"]
}

// Record writes what a version does: to want.yaml if it is the newest or does the same, else to a file of its minor. What others did before it is kept.
func (c Case) Record(t testing.TB, corpus, version string, w Want) {
	t.Helper()
	now, err := yaml.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	minor, _ := argo.ParseMinor(version)
	results := map[argo.Minor][]byte{}
	for _, r := range Recordings(t, corpus) {
		if before := c.Want(t, r.Minor()); before != nil && !slices.Contains(r.Except, c.Name) {
			if results[r.Minor()], err = yaml.Marshal(before); err != nil {
				t.Fatal(err)
			}
		}
	}
	results[minor] = now
	newest := minor
	for m := range results {
		newest = max(newest, m)
	}
	for m, data := range results {
		switch file := c.of(m); {
		case m == newest:
			write(t, c.common(), data)
			remove(t, file)
		case bytes.Equal(data, results[newest]):
			remove(t, file)
		default:
			write(t, file, data)
		}
	}
}

// Finish notes in recorded.yaml that a version has recorded cases. A new version has not recorded the others.
func Finish(t testing.TB, corpus, version string, cases []Case, recorded []string) {
	t.Helper()
	list := Recordings(t, corpus)
	minor, _ := argo.ParseMinor(version)
	var except []string
	for _, c := range cases {
		except = append(except, c.Name)
	}
	for _, r := range list {
		if r.Minor() == minor { // its last patch replaces others
			except = r.Except
		}
	}
	except = slices.DeleteFunc(slices.Clone(except), func(name string) bool { return slices.Contains(recorded, name) })
	list = slices.DeleteFunc(list, func(r Recording) bool { return r.Minor() == minor })
	list = append(list, Recording{version, except})
	slices.SortFunc(list, func(a, b Recording) int { return int(b.Minor() - a.Minor()) })
	data, err := yaml.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(corpus, "recorded.yaml"), append([]byte(recordedHeader), data...))
}

const recordedHeader = `# Versions of Argo CD whose controller recorded the cases, the newest first; task record writes it. Each case has one want.yaml for all of them, and
# want.MINOR.yaml where an older one did otherwise. except: cases that the version did not record.
`

func write(t testing.TB, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func remove(t testing.TB, file string) {
	t.Helper()
	if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
}
