package up_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"homelab/lab/cluster"
	"homelab/lab/cluster/clustertest"
	"homelab/lab/state"
	"homelab/lab/up"
)

// ends are the ways in which a run may end at a point.
var ends = map[string]struct {
	reach func(p *process, cancel context.CancelCauseFunc) // on a call or a step event
	call  func(do func() error) error                      // replaces a call; nil to make it
}{
	"interrupted": {reach: func(_ *process, cancel context.CancelCauseFunc) { cancel(context.Canceled) }},
	"killed": {reach: func(p *process, cancel context.CancelCauseFunc) {
		p.kill()
		cancel(clustertest.ErrKilled) // no more effects, including on disk
	}},
	"failed":       {call: func(func() error) error { return errors.New("no space left on device") }},
	"failed after": {call: func(do func() error) error { return errors.Join(do(), errors.New("connection reset by peer")) }},
}

// journey is a run that is ended at every point, and the run that follows it.
type journey struct {
	prepare func(t *testing.T, s *stage)
	first   func(ctx context.Context, p *process) error
	next    func(ctx context.Context, p *process) error // nil means first
	keeps   []string                                    // clusters that must not be replaced once complete
}

var journeys = map[string]journey{
	"up":            {first: plainUp, keeps: []string{"hub", "dev", "prod"}, prepare: func(_ *testing.T, s *stage) { s.fetches = true }},
	"up edited":     {first: plainUp, keeps: []string{"hub", "dev", "prod"}, prepare: edited},
	"up prune":      {first: pruningUp, keeps: []string{"hub", "prod"}, prepare: departed},
	"up recreate":   {first: recreatingUp, next: plainUp, keeps: []string{"hub", "prod"}, prepare: converge},
	"down":          {first: down, prepare: saved},
	"up after down": {first: down, next: plainUp, prepare: saved},
	"down attached": {first: down, prepare: attached},
	"up release":    {first: pruningUp, keeps: []string{"hub", "dev", "prod"}, prepare: func(t *testing.T, s *stage) { attached(t, s); s.leave("edge") }},
	"up switch":     {first: switchingUp, next: plainUp, keeps: []string{"hub", "dev", "prod"}, prepare: onFormer},
	"up left":       {first: pruningUp, keeps: []string{"hub", "dev", "prod"}, prepare: func(t *testing.T, s *stage) { converge(t, s); s.wanted = false }},
	"up attach":     {first: plainUp, keeps: []string{"hub", "dev", "prod"}, prepare: func(_ *testing.T, s *stage) { s.attach() }},
}

func plainUp(ctx context.Context, p *process) error {
	_, err := p.up(ctx, up.Options{})
	return err
}

func pruningUp(ctx context.Context, p *process) error {
	_, err := p.up(ctx, up.Options{Prune: true})
	return err
}

func recreatingUp(ctx context.Context, p *process) error {
	_, err := p.up(ctx, up.Options{Recreate: []string{"dev"}})
	return err
}

func down(ctx context.Context, p *process) error {
	_, err := p.lab().Remove(ctx, up.DownOptions{Existed: true}, silent)
	return err
}

// edited returns a lab with a foreign commit and a changed estate.
func edited(t *testing.T, s *stage) {
	converge(t, s)
	s.commit(t, "clusters/NOTES.md", "mind the gap\n")
	s.edit()
}

// departed returns a lab with a cluster that left the estate.
func departed(t *testing.T, s *stage) {
	converge(t, s)
	s.leave("dev")
}

func saved(t *testing.T, s *stage) {
	converge(t, s)
	_, err := (&process{stage: s}).lab().SaveSnapshot(t.Context(), "one", false, up.Consent{}, silent)
	must(t, err)
}

// attached returns a lab with an attached cluster.
func attached(t *testing.T, s *stage) {
	s.attach()
	converge(t, s)
}

// TestInterruptedAnywhere ends runs at every adapter call and at every begin and end of a step. The next run must produce the state of an undisturbed one,
// without leftovers, and leave foreign resources unchanged.
func TestInterruptedAnywhere(t *testing.T) {
	total := 0
	var mu sync.Mutex
	t.Run("all", func(t *testing.T) {
		for name, j := range journeys {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				if j.next == nil {
					j.next = j.first
				}
				s := newStageWithParts(t)
				s.neighbour(t)
				j.prepare(t, s)
				p := &process{stage: s, points: map[string]int{}}
				must(t, j.first(t.Context(), p))
				must(t, j.next(t.Context(), &process{stage: s}))
				want, points := s.contents(t), p.pointNames()
				mu.Lock()
				total += len(points)
				mu.Unlock()
				t.Logf("%d points", len(points))
				for _, point := range points {
					for _, end := range slices.Sorted(maps.Keys(ends)) {
						if e := ends[end]; e.call != nil && isEvent(point) || end == "failed after" && readOnly(point) {
							continue
						}
						t.Run(end+"/"+point, func(t *testing.T) { j.endedAt(t, end, point, want) })
					}
				}
			})
		}
	})
	if t.Logf("%d points", total); total < 100 {
		t.Error("fewer than 100 points")
	}
}

func isEvent(point string) bool {
	return strings.HasPrefix(point, "begin of ") || strings.HasPrefix(point, "end of ")
}

// readOnly reports whether a point is a read-only call, which fails alike before and after its effect.
func readOnly(point string) bool {
	_, call, _ := strings.Cut(strings.Fields(point)[0], ".")
	return slices.Contains([]string{"observe", "knows", "has-network", "rest-config", "diff", "ahead", "missing-charts", "has-webhook", "check-credentials", "drift", "snapshot", "list"}, call) ||
		strings.HasPrefix(point, "supply.") || strings.Contains(call, "/") // nested in another call
}

// pointNames returns the names of the points of a run. How often an image is requested depends on timing, so it counts once.
func (p *process) pointNames() []string {
	var points []string
	for name, times := range p.points {
		if strings.HasPrefix(name, "supply.") || strings.HasPrefix(name, "containers.") {
			times = 1
		}
		for n := range times {
			points = append(points, fmt.Sprintf("%s #%d", name, n))
		}
	}
	slices.Sort(points)
	return points
}

func (j journey) endedAt(t *testing.T, end, point string, want []string) {
	s := newStageWithParts(t)
	s.neighbour(t)
	foreign := s.foreign(t)
	j.prepare(t, s)
	whole := s.clusters.Whole()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	p := &process{stage: s, points: map[string]int{}}
	e, reached := ends[end], false
	p.reach = func(at string) {
		if at != point {
			return
		}
		reached = true
		if e.reach != nil {
			e.reach(p, cancel)
		}
	}
	p.change = func(at string, do func() error) error {
		if at == point && e.call != nil {
			return e.call(do)
		}
		return do()
	}
	_ = j.first(ctx, p)
	if !reached {
		t.Fatalf("point not reached, only %q", p.pointNames())
	}
	maps.Copy(whole, s.clusters.Whole())
	if err := j.next(t.Context(), &process{stage: s}); err != nil {
		t.Fatalf("next run: %v", err)
	}
	if diff := cmp.Diff(want, s.contents(t)); diff != "" {
		t.Errorf("contents (-undisturbed run, +got):\n%s", diff)
	}
	for _, name := range j.keeps {
		if was, had := whole[name]; had && s.clusters.Identity(name) != was {
			t.Errorf("cluster %s was replaced", name)
		}
	}
	if got := s.clusters.Outside("edge"); got != "absent" && !strings.HasPrefix(got, "outside edge") {
		t.Errorf("edge is %q", got)
	}
	for _, e := range s.engines { // including those of deleted hubs
		if s.clusters.Outside("edge") == "outside edge" && len(e.Holds("edge")) > 0 {
			t.Errorf("left in edge: %v", e.Holds("edge"))
		}
	}
	if len(s.clusters.Whole()) > 0 {
		if out, err := (&process{stage: s}).lab().Follow(t.Context(), up.Options{}, stepRecorder{p}); err != nil || !out.Idle {
			t.Errorf("not idle afterwards: %v, %+v", err, out.Steps)
		}
	}
	if diff := cmp.Diff(foreign, s.foreign(t)); diff != "" {
		t.Errorf("foreign resources (-before +after):\n%s", diff)
	}
}

// commit adds a foreign commit whose change is also in the working tree.
func (s *stage) commit(t *testing.T, name, text string) {
	t.Helper()
	s.files[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	s.load()
	s.commitOnly(t, name, text)
}

// commitOnly adds a foreign commit that the working tree lacks.
func (s *stage) commitOnly(t *testing.T, name, text string) {
	t.Helper()
	s.forge.Commit("ann", "notes", name, text)
}

// neighbour adds resources that are not the lab's: another lab with a cluster of the same name, and files.
func (s *stage) neighbour(t *testing.T) {
	t.Helper()
	dir := &state.Dir{Lab: "other", Path: filepath.Join(filepath.Dir(s.dir.Path), "other")}
	must(t, dir.Save(state.Record{Lab: "other"}))
	s.other = clustertest.NewFake(s.machine, dir)
	dev, _ := s.estate.Cluster("dev")
	must(t, s.other.Create(t.Context(), cluster.Spec{Cluster: dev, NodeRef: "node:1"}, silent))
	must(t, s.other.Mark(t.Context(), "dev", "inputs", nil))
	must(t, os.WriteFile(filepath.Join(s.dir.Path, "..", "..", "config"), []byte("a kubeconfig\n"), 0o600))
}

// foreign returns the resources that are not the lab's.
func (s *stage) foreign(t *testing.T) []string {
	t.Helper()
	lines := append(s.other.Contents(), s.other.Identity("dev"))
	top := filepath.Join(s.dir.Path, "..", "..")
	return append(lines, filesIn(t, top, s.dir.Path)...)
}

// filesIn returns the files below dir with their contents, skipping one folder.
func filesIn(t *testing.T, dir, without string) []string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case path == dir && errors.Is(err, fs.ErrNotExist):
			return nil
		case path == without:
			return filepath.SkipDir
		case err != nil || d.IsDir():
			return err
		}
		text, err := os.ReadFile(path)
		lines = append(lines, strings.TrimPrefix(path, dir)+": "+string(text))
		return err
	})
	must(t, err)
	return lines
}

// volatile matches what differs each time it is created.
var volatile = regexp.MustCompile(`id\d+|[0-9a-f]{40}|\d{4}-\d\d-\d\dT[0-9:.]+Z`)

// contents returns everything in the lab, with ids, commits and times masked.
func (s *stage) contents(t *testing.T) []string {
	t.Helper()
	lines := s.clusters.Contents()
	held, err := s.forge.Contents(t.Context())
	must(t, err)
	lines = append(lines, held...)
	for _, part := range s.parts {
		lines = append(lines, part.Contents()...)
	}
	if e := s.engines[s.clusters.Identity("hub")]; e != nil {
		lines = append(lines, "engine made from "+e.inputs)
		lines = append(lines, e.Contents()...)
	}
	if s.former != nil {
		lines = append(lines, "of the former engine", fmt.Sprintf("applied and kept %v", s.former.Applied()))
		lines = append(lines, s.former.Contents()...)
	}
	snapshots, err := s.shelf.List(t.Context())
	must(t, err)
	for _, o := range snapshots {
		lines = append(lines, "snapshot "+o.Name)
	}
	s.loaded.Range(func(image, _ any) bool {
		lines = append(lines, fmt.Sprintf("loaded %s", image))
		return true
	})
	lines = append(lines, filesIn(t, s.dir.Path, "")...)
	for i, line := range lines {
		lines[i] = volatile.ReplaceAllString(line, "VOLATILE")
	}
	slices.Sort(lines)
	return lines
}
