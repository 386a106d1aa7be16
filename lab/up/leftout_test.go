package up_test

import (
	"errors"
	"slices"
	"testing"

	"homelab/lab"
	"homelab/lab/up"
)

// An application that cannot work here is neither waited for nor repaired, and status shows the reason.
func TestLeftOut(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	for _, e := range s.engines {
		e.Break("prod-podinfo", "failed to fetch chart")
	}
	s.edit()
	if _, err := (&process{stage: s}).up(t.Context(), up.Options{}); err == nil {
		t.Fatal("no error with a broken application")
	}
	i := slices.IndexFunc(s.estate.Applications, func(a lab.Generated) bool { return a.Name == "prod-podinfo" })
	s.estate.Applications[i].LeftOut = "charts.example.com does not answer"
	if _, err := (&process{stage: s}).up(t.Context(), up.Options{}); err != nil {
		t.Fatal(err)
	}
	if changed, err := (&process{stage: s}).up(t.Context(), up.Options{}); err != nil || len(changed) > 0 {
		t.Errorf("next run changed %v: %v", changed, err)
	}
	st, err := (&process{stage: s}).lab().Status(t.Context())
	if err != nil || !st.Well() {
		t.Errorf("%v, %+v", err, st.Applications)
	}
	for _, a := range st.Applications {
		if (a.LeftOut != "") != (a.Name == "prod-podinfo") {
			t.Errorf("%s: LeftOut = %q", a.Name, a.LeftOut)
		}
	}
	s.estate.Applications[i].LeftOut = ""
	if changed, err := (&process{stage: s}).up(t.Context(), up.Options{}); err == nil {
		t.Errorf("no error for a broken application, changed %v", changed)
	}
}

// An application of the estate's own that lacks something is waited for, and what it lacks explains why it is stuck, in the error and in the status.
func TestDoubt(t *testing.T) {
	s := newStage(t)
	doubt := func() {
		i := slices.IndexFunc(s.estate.Applications, func(a lab.Generated) bool { return a.Name == "prod-podinfo" })
		s.estate.Applications[i].Doubt = "nothing in Git creates Secret podinfo/key on prod"
	}
	doubt()
	converge(t, s) // somebody created it
	if st, err := (&process{stage: s}).lab().Status(t.Context()); err != nil || !st.Well() {
		t.Errorf("%v, %+v", err, st.Applications)
	}
	for _, e := range s.engines {
		e.Break("prod-podinfo", "0 of 1 ready")
	}
	s.edit()
	doubt()
	_, err := (&process{stage: s}).up(t.Context(), up.Options{})
	var failed *lab.Error
	if !errors.As(err, &failed) || !slices.Contains(failed.Details, "prod-podinfo: nothing in Git creates Secret podinfo/key on prod") {
		t.Errorf("%+v", err)
	}
	st, err := (&process{stage: s}).lab().Status(t.Context())
	if err != nil || st.Well() {
		t.Errorf("%v, %+v", err, st.Applications)
	}
	for _, a := range st.Applications {
		if want := "nothing in Git creates Secret podinfo/key on prod; 0 of 1 ready"; a.Name == "prod-podinfo" && a.Message != want {
			t.Errorf("%q, want %q", a.Message, want)
		}
	}
}
