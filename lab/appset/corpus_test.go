package appset_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"homelab/lab/appset"
	"homelab/lab/appset/appsettest"
	"homelab/lab/argo"
	"homelab/lab/strict"
)

// expand returns the result of a case in the form of a recording.
func expand(t *testing.T, c appsettest.Case, minor argo.Minor) appsettest.Want {
	t.Helper()
	docs, problems := strict.Parse("set.yaml", c.Set)
	if len(problems) > 0 || len(docs) != 1 {
		t.Fatalf("%d documents: %v", len(docs), problems)
	}
	set, problems := appset.Parse("set.yaml", docs[0])
	if len(problems) > 0 {
		return appsettest.Want{Refused: problems.Error()}
	}
	x, err := set.Expand(c.World(minor))
	var fault *appset.Error
	switch {
	case errors.As(err, &fault):
		return appsettest.Want{Reason: fault.Reason, Message: fault.Error()}
	case errors.As(err, new(*appset.UnknownError)):
		return appsettest.Want{Reason: "unknown", Message: err.Error()}
	case err != nil:
		return appsettest.Want{Reason: appset.ReasonParameters, Message: err.Error()}
	}
	var w appsettest.Want
	for _, i := range x.Invalid {
		w.Reason, w.Message = i.Reason, i.Position.String()+": "+i.Message
	}
	for _, app := range x.Applications {
		object, err := appsettest.Stored(app.Template)
		if err != nil {
			t.Fatal(err)
		}
		if !minor.Has(4) {
			oldJsonnet(object["spec"])
		}
		w.Applications = append(w.Applications, object)
	}
	return w
}

// oldJsonnet adds the empty block that every directory had before 3.4.
func oldJsonnet(v any) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			oldJsonnet(item)
		}
	case map[string]any:
		for key, item := range v {
			if d, ok := item.(map[string]any); ok && key == "directory" && d["jsonnet"] == nil {
				d["jsonnet"] = map[string]any{}
			}
			oldJsonnet(item)
		}
	}
}

// unknown are the cases that only the controller supports, by the minor since which.
var unknown = map[string]argo.Minor{
	"git-files-pathspec-magic":           argo.Oldest,
	"clusters-same-name-twice-collide":   4,
	"clusters-same-name-twice-flat-list": 4,
	"generators-oci":                     6,
	"generators-oci-beside-list":         6,
	"generators-oci-in-matrix":           6,
}

// TestCorpus compares all cases with the results of the real controllers that recorded them. `task record` records them.
func TestCorpus(t *testing.T) {
	cases := appsettest.Cases(t, "testdata")
	for _, r := range appsettest.Recordings(t, "testdata") {
		for _, c := range cases {
			t.Run(r.Minor().String()+"/"+c.Name, func(t *testing.T) { compareCase(t, c, r) })
		}
	}
}

func compareCase(t *testing.T, c appsettest.Case, r appsettest.Recording) {
	got, want := expand(t, c, r.Minor()), c.Want(t, r.Minor())
	if since := unknown[c.Name]; since != 0 && r.Minor().Has(since) {
		if got.Reason != "unknown" {
			t.Errorf("got %+v, want an UnknownError", got)
		}
		return
	}
	if slices.Contains(r.Except, c.Name) {
		t.Skipf("not recorded on Argo CD %s", r.Version)
	}
	if want == nil {
		t.Fatalf("not recorded: task record writes %s", filepath.Join(c.Dir, "want.yaml"))
	}
	if c.Varies(t, r.Version) {
		got = want.Settled(got)
	}
	// Messages may differ, but not failure and position.
	same := got.Reason == want.Reason || want.Reason == appsettest.Undecided && got.Reason != ""
	if (got.Refused == "") != (want.Refused == "") || !same {
		t.Errorf("got %q %s %s\nrecorded %q %s %s", got.Refused, got.Reason, got.Message, want.Refused, want.Reason, want.Message)
	}
	if diff := cmp.Diff(text(t, want.Applications), text(t, got.Applications)); diff != "" {
		t.Errorf("- recorded, + computed:\n%s", diff)
	}
}

// TestChanges compares which minors treat a case otherwise than the one before with testdata/changes.txt; UPDATE_GOLDEN=1 writes it. The recordings say whether that
// is so.
func TestChanges(t *testing.T) {
	var lines []string
	for _, c := range appsettest.Cases(t, "testdata") {
		last := ""
		for _, m := range argo.Minors() {
			w := expand(t, c, m)
			w.Message = ""
			if now := text(t, w); now != last {
				if last != "" {
					lines = append(lines, m.String()+" "+c.Name+"\n")
				}
				last = now
			}
		}
	}
	slices.Sort(lines)
	got, file := strings.Join(lines, ""), filepath.Join("testdata", "changes.txt")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	data, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
