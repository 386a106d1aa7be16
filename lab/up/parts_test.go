package up_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"homelab/lab"
	"homelab/lab/up"
)

// TestParts follows the optional parts through a lab's life.
func TestParts(t *testing.T) {
	s := newStage(t)
	converge(t, s)
	run := func(o up.Options) (changed []string) {
		t.Helper()
		o.Timeout = time.Second
		out, err := (&process{stage: s}).lab().Follow(t.Context(), o, stepRecorder{&process{stage: s}})
		must(t, err)
		return out.Changed()
	}
	off := func() []string {
		t.Helper()
		st, err := (&process{stage: s}).lab().Status(t.Context())
		must(t, err)
		return st.Off
	}
	want := func(got []string, want ...string) {
		t.Helper()
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	s.wanted = true
	want(off(), "the door is absent", "the registry is absent")
	want(run(up.Options{}), "addons", "cluster dev", "cluster hub", "cluster prod", "door", "registry")
	want(run(up.Options{}))
	want(off())

	s.parts[0].Put("kept")
	s.parts[0].Lose()
	s.parts[1].Sicken()
	s.clusters.Forgetful("prod")
	want(off(), "the door is unreachable", "the registry is absent")
	if got := run(up.Options{}); !slices.Contains(got, "registry") || !slices.Contains(got, "door") || !slices.Contains(got, "cluster prod") || slices.Contains(got, "cluster dev") {
		t.Errorf("changed %q", got)
	}
	if got := s.parts[0].Held(); got != "kept" {
		t.Errorf("the volume has %q", got)
	}

	s.wanted = false
	l := (&process{stage: s}).lab()
	seen, err := l.Observe(t.Context(), up.Options{})
	must(t, err)
	want(l.Left(t.Context(), up.Options{}, seen), "registry")
	if got := run(up.Options{}); !slices.Contains(got, "door") || slices.Contains(got, "registry") {
		t.Errorf("changed %q: what nobody misses goes, the registry is kept", got)
	}
	if s.parts[0].Contents() == nil || s.parts[1].Contents() != nil {
		t.Errorf("%q, %q", s.parts[0].Contents(), s.parts[1].Contents())
	}
	if got := run(up.Options{Prune: true}); !slices.Contains(got, "registry") || s.parts[0].Contents() != nil {
		t.Errorf("changed %q, left %q", got, s.parts[0].Contents())
	}
	want(run(up.Options{Prune: true}))
}

// TestPartsRemoved removes a lab with the parts that it has, wanted or not.
func TestPartsRemoved(t *testing.T) {
	s := newStageWithParts(t)
	converge(t, s)
	s.parts[1].Lose() // leaves nothing
	s.wanted = false
	r, err := (&process{stage: s}).lab().Remove(t.Context(), up.DownOptions{Existed: true}, silent)
	must(t, err)
	if !slices.Contains(r.Removed, "registry lab-demo-registry") || strings.Contains(strings.Join(r.Removed, " "), "door") || s.parts[0].Contents() != nil {
		t.Errorf("removed %q, left %q", r.Removed, s.parts[0].Contents())
	}
}

// TestPartsInSnapshot restores the content of a part, and whether it exists.
func TestPartsInSnapshot(t *testing.T) {
	s := newStageWithParts(t)
	converge(t, s)
	s.parts[0].Put("saved")
	saved, err := (&process{stage: s}).lab().SaveSnapshot(t.Context(), "one", false, up.Consent{}, silent)
	must(t, err)
	if !slices.Contains(saved.Others, lab.PartName("demo", "registry")) || slices.Contains(saved.Others, lab.PartName("demo", "door")) {
		t.Errorf("saved %q: the registry, but not the door, which has nothing to keep", saved.Others)
	}
	s.parts[0].Put("later")
	_, err = (&process{stage: s}).lab().Restore(t.Context(), "one", up.Consent{}, silent)
	must(t, err)
	if got := s.parts[0].Held(); got != "saved" {
		t.Errorf("restored %q", got)
	}
	s.parts[0].Lose()
	if _, err := (&process{stage: s}).lab().SaveSnapshot(t.Context(), "two", false, up.Consent{}, silent); err == nil || !strings.Contains(err.Error(), "its registry is absent") {
		t.Errorf("%v", err)
	}
}

// A part that the estate does not have costs no question, unless it may exist: it is recorded, or the record is lost.
func TestPartsUnasked(t *testing.T) {
	asked := func(s *stage) bool {
		t.Helper()
		p := &process{stage: s, points: map[string]int{}}
		if _, err := p.lab().Observe(t.Context(), up.Options{}); err != nil {
			t.Fatal(err)
		}
		if _, err := p.lab().Status(t.Context()); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(p.pointNames(), func(name string) bool {
			return strings.HasPrefix(name, "registry.") || strings.HasPrefix(name, "door.")
		})
	}
	without := newStage(t)
	converge(t, without)
	if asked(without) {
		t.Error("a lab without parts is asked for them")
	}
	must(t, os.Remove(filepath.Join(without.dir.Path, "parts.json")))
	if !asked(without) {
		t.Error("a lab without its record is not asked for parts")
	}
	with := newStageWithParts(t)
	converge(t, with)
	with.wanted = false
	if !asked(with) {
		t.Error("what left the estate is not looked for")
	}
}
