package up_test

import (
	"slices"
	"testing"

	"homelab/lab"
	"homelab/lab/up"
)

// What needs something that cannot be had is neither waited for nor mended again and again, and status says why.
func TestLeftOut(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	for _, e := range s.engines {
		e.Break("prod-podinfo", "failed to fetch chart")
	}
	s.edit()
	if _, err := (&process{stage: s}).up(t.Context(), up.Options{}); err == nil {
		t.Fatal("a broken application is no failure")
	}
	i := slices.IndexFunc(s.estate.Applications, func(a lab.Generated) bool { return a.Name == "prod-podinfo" })
	s.estate.Applications[i].LeftOut = "charts.example.com does not answer"
	if _, err := (&process{stage: s}).up(t.Context(), up.Options{}); err != nil {
		t.Fatal(err)
	}
	if changed, err := (&process{stage: s}).up(t.Context(), up.Options{}); err != nil || len(changed) > 0 {
		t.Errorf("the next run changed %v: %v", changed, err)
	}
	st, err := (&process{stage: s}).lab().Status(t.Context())
	if err != nil || !st.Well() {
		t.Errorf("%v, %+v", err, st.Applications)
	}
	for _, a := range st.Applications {
		if (a.LeftOut != "") != (a.Name == "prod-podinfo") {
			t.Errorf("%s is left out: %q", a.Name, a.LeftOut)
		}
	}
	s.estate.Applications[i].LeftOut = ""
	if changed, err := (&process{stage: s}).up(t.Context(), up.Options{}); err == nil {
		t.Errorf("what can be had is waited for again: %v", changed)
	}
}
