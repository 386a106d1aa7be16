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
	"time"

	"github.com/go-git/go-billy/v5/memfs"
	"github.com/go-git/go-billy/v5/util"
	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/google/go-cmp/cmp"

	"homelab/lab/cluster"
	"homelab/lab/cluster/clustertest"
	"homelab/lab/state"
	"homelab/lab/up"
)

// ends are how a run may end at one point: what the process, or one call of it, does from there.
var ends = map[string]struct {
	reach func(p *process, cancel context.CancelCauseFunc) // at a call or an event of a step
	call  func(do func() error) error                      // at a call; nil where it is made
}{
	"interrupted": {reach: func(_ *process, cancel context.CancelCauseFunc) { cancel(context.Canceled) }},
	"killed": {reach: func(p *process, cancel context.CancelCauseFunc) {
		p.kill()
		cancel(clustertest.ErrKilled) // the process does nothing any more, on disk neither
	}},
	"failed":       {call: func(func() error) error { return errors.New("no space left on device") }},
	"failed after": {call: func(do func() error) error { return errors.Join(do(), errors.New("connection reset by peer")) }},
}

// journey is a run that is ended at every point, and what comes next.
type journey struct {
	prepare func(t *testing.T, s *stage)
	first   func(ctx context.Context, p *process) error
	next    func(ctx context.Context, p *process) error // first where nil
	keeps   []string                                    // clusters that stay the ones they are, once they are whole
}

var journeys = map[string]journey{
	"up":                        {first: plainUp, keeps: []string{"hub", "dev", "prod"}, prepare: func(_ *testing.T, s *stage) { s.fetches = true }},
	"up after an edit":          {first: plainUp, keeps: []string{"hub", "dev", "prod"}, prepare: edited},
	"up that prunes":            {first: pruningUp, keeps: []string{"hub", "prod"}, prepare: left},
	"up that recreates":         {first: recreatingUp, next: plainUp, keeps: []string{"hub", "prod"}, prepare: converge},
	"down":                      {first: down, prepare: saved},
	"up after down":             {first: down, next: plainUp, prepare: saved},
	"down of one that lives on": {first: down, prepare: attached},
	"up that releases":          {first: pruningUp, keeps: []string{"hub", "dev", "prod"}, prepare: func(t *testing.T, s *stage) { attached(t, s); s.leave("edge") }},
	"up that attaches":          {first: plainUp, keeps: []string{"hub", "dev", "prod"}, prepare: func(_ *testing.T, s *stage) { s.attach() }},
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

// edited is a lab that somebody else committed to, and whose estate changed since.
func edited(t *testing.T, s *stage) {
	converge(t, s)
	s.commit(t, "clusters/NOTES.md", "mind the gap\n")
	s.edit()
}

// left is a lab that a cluster left.
func left(t *testing.T, s *stage) {
	converge(t, s)
	s.leave("dev")
}

func saved(t *testing.T, s *stage) {
	converge(t, s)
	_, err := (&process{stage: s}).lab().SaveSnapshot(t.Context(), "one", false, silent)
	must(t, err)
}

// attached is a lab with a cluster that somebody else made.
func attached(t *testing.T, s *stage) {
	s.attach()
	converge(t, s)
}

// TestInterruptedAnywhere ends runs at every call of an adapter and at every begin and end of a step. The next run has to lead to what one that nobody
// disturbed leads to, with nothing left of the first, and what is not the lab's stays as it was.
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
				s := newStage(t)
				s.neighbour(t)
				j.prepare(t, s)
				p := &process{stage: s, points: map[string]int{}}
				must(t, j.first(t.Context(), p))
				must(t, j.next(t.Context(), &process{stage: s}))
				want, points := s.contents(t), p.passed()
				mu.Lock()
				total += len(points)
				mu.Unlock()
				t.Logf("%d points", len(points))
				for _, point := range points {
					for _, end := range slices.Sorted(maps.Keys(ends)) {
						if e := ends[end]; e.call != nil && isEvent(point) || end == "failed after" && looks(point) {
							continue
						}
						t.Run(end+"/"+point, func(t *testing.T) { j.endedAt(t, end, point, want) })
					}
				}
			})
		}
	})
	if t.Logf("%d points", total); total < 100 {
		t.Error("fewer than 100 points: this test looks at the wrong place")
	}
}

func isEvent(point string) bool {
	return strings.HasPrefix(point, "begin of ") || strings.HasPrefix(point, "end of ")
}

// looks tells calls without an effect: those fail alike before and after it.
func looks(point string) bool {
	_, call, _ := strings.Cut(strings.Fields(point)[0], ".")
	return slices.Contains([]string{"observe", "has-network", "rest-config", "diff", "ahead", "missing-charts", "has-webhook", "admits", "strayed", "standing", "list"}, call) ||
		strings.HasPrefix(point, "supply.") || strings.Contains(call, "/") // within another call
}

// passed names the points that every run passes. How often an image is asked for depends on which step is faster.
func (p *process) passed() []string {
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
	s := newStage(t)
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
		t.Fatalf("the run came by %q alone", p.passed())
	}
	maps.Copy(whole, s.clusters.Whole())
	if err := j.next(t.Context(), &process{stage: s}); err != nil {
		t.Fatalf("the next run: %v", err)
	}
	if diff := cmp.Diff(want, s.contents(t)); diff != "" {
		t.Errorf("what an undisturbed run leaves (-) and what there is (+):\n%s", diff)
	}
	for _, name := range j.keeps {
		if was, had := whole[name]; had && s.clusters.Identity(name) != was {
			t.Errorf("cluster %s is another one", name)
		}
	}
	if got := s.clusters.Outside("edge"); got != "absent" && !strings.HasPrefix(got, "outside edge") {
		t.Errorf("the cluster that lives on is %q", got)
	}
	for _, e := range s.engines { // those of hubs that are gone, too
		if s.clusters.Outside("edge") == "outside edge" && len(e.Holds("edge")) > 0 {
			t.Errorf("the cluster that lives on keeps %v", e.Holds("edge"))
		}
	}
	if len(s.clusters.Whole()) > 0 {
		if out, err := (&process{stage: s}).lab().Follow(t.Context(), up.Options{}, hearer{p}); err != nil || !out.Idle {
			t.Errorf("then there is something to do: %v, %+v", err, out.Steps)
		}
	}
	if diff := cmp.Diff(foreign, s.foreign(t)); diff != "" {
		t.Errorf("what is not the lab's (-was +is):\n%s", diff)
	}
}

// commit is what somebody else does, who has it in the working tree, too.
func (s *stage) commit(t *testing.T, name, text string) {
	t.Helper()
	s.files[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	s.load()
	tree := memfs.New()
	repo, err := git.Open(s.forge.Memory, tree)
	must(t, err)
	w, err := repo.Worktree()
	must(t, err)
	must(t, w.Reset(&git.ResetOptions{Mode: git.HardReset}))
	must(t, util.WriteFile(tree, name, []byte(text), 0o644))
	_, err = w.Add(name)
	must(t, err)
	_, err = w.Commit("notes", &git.CommitOptions{Author: &object.Signature{Name: "ann", Email: "ann@example.org", When: time.Now()}})
	must(t, err)
}

// neighbour puts things beside the lab that are not its own: another lab with a cluster of the same name, and files.
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

// foreign is what is not the lab's.
func (s *stage) foreign(t *testing.T) []string {
	t.Helper()
	lines := append(s.other.Contents(), s.other.Identity("dev"))
	top := filepath.Join(s.dir.Path, "..", "..")
	return append(lines, filesIn(t, top, s.dir.Path)...)
}

// filesIn are the files in a folder with what they hold, leaving a folder out.
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

// passing is what is another one each time something is made.
var passing = regexp.MustCompile(`id\d+|[0-9a-f]{40}|\d{4}-\d\d-\d\dT[0-9:.]+Z`)

// contents are all that there is of the lab, without ids, commits and times.
func (s *stage) contents(t *testing.T) []string {
	t.Helper()
	lines := s.clusters.Contents()
	held, err := s.forge.Contents(t.Context())
	must(t, err)
	lines = append(lines, held...)
	if e := s.engines[s.clusters.Identity("hub")]; e != nil {
		lines = append(lines, "engine made from "+e.inputs)
		lines = append(lines, e.Contents()...)
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
		lines[i] = passing.ReplaceAllString(line, "PASSING")
	}
	slices.Sort(lines)
	return lines
}
