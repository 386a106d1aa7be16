package appset_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"homelab/lab/appset"
	"homelab/lab/appset/appsettest"
	"homelab/lab/strict"
)

// expand returns the result of a case in the form of a recording.
func expand(t *testing.T, c appsettest.Case) appsettest.Want {
	t.Helper()
	docs, problems := strict.Parse("set.yaml", c.Set)
	if len(problems) > 0 || len(docs) != 1 {
		t.Fatalf("%d documents: %v", len(docs), problems)
	}
	set, problems := appset.Parse("set.yaml", docs[0])
	if len(problems) > 0 {
		return appsettest.Want{Refused: problems.Error()}
	}
	x, err := set.Expand(c.World())
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
		w.Applications = append(w.Applications, object)
	}
	return w
}

// unknown are the cases that only the controller supports.
var unknown = []string{"git-files-pathspec-magic"}

// TestCorpus compares all cases with the real controller's results. `task record` records them.
func TestCorpus(t *testing.T) {
	for _, c := range appsettest.Cases(t, "testdata") {
		t.Run(c.Name, func(t *testing.T) {
			got := expand(t, c)
			if slices.Contains(unknown, c.Name) {
				if got.Reason != "unknown" {
					t.Errorf("got %+v, want an UnknownError", got)
				}
				return
			}
			if c.Want == nil {
				t.Fatalf("not recorded: task record writes %s", filepath.Join(c.Dir, "want.yaml"))
			}
			// Messages may differ, but not failure and position.
			same := got.Reason == c.Want.Reason || c.Want.Reason == appsettest.Undecided && got.Reason != ""
			if (got.Refused == "") != (c.Want.Refused == "") || !same {
				t.Errorf("got %q %s %s\nrecorded %q %s %s", got.Refused, got.Reason, got.Message, c.Want.Refused, c.Want.Reason, c.Want.Message)
			}
			if diff := cmp.Diff(text(t, c.Want.Applications), text(t, got.Applications)); diff != "" {
				t.Errorf("- recorded, + computed:\n%s", diff)
			}
		})
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
