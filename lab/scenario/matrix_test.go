package scenario_test

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"homelab/lab"
	"homelab/lab/scenario"
	"homelab/lab/scenario/scenariotest"
)

// fault is a failure injected while a story is played.
type fault struct {
	name  string
	at    func(*faulty)               // injected when the step begins
	back  func(*faulty)               // injected when the lab is restored
	again bool                        // a second Ctrl-C while the lab is restored
	ends  func(*scenario.Result) bool // allowed results
	clean bool                        // the lab can be fully restored
	spare string                      // prefix of traces restored regardless
	every bool                        // played at every step; others at some, all of them with LAB_FAULTS=all
}

// faulty is a story with an injected fault.
type faulty struct {
	*scenariotest.Lab
	story     *scenario.Scenario
	interrupt func()
	giveUp    chan struct{}
}

// after schedules do; a duration of 0 runs it before the step starts.
func after(d time.Duration, do func(*faulty)) func(*faulty) {
	return func(f *faulty) {
		if d == 0 {
			do(f)
			return
		}
		time.AfterFunc(d, func() { do(f) })
	}
}

// for20s is longer than an unnoticed silence and shorter than the timeout of restoring.
func for20s(shut, open func(*faulty)) func(*faulty) {
	return func(f *faulty) {
		shut(f)
		time.AfterFunc(20*time.Second, func() { open(f) })
	}
}

func ctrlC(f *faulty)       { f.interrupt() }
func restart(f *faulty)     { f.Engine.Restart() }
func engineShut(f *faulty)  { f.Engine.Shut() }
func engineOpen(f *faulty)  { f.Engine.Open() }
func forgeShut(f *faulty)   { f.Forge.Shut() }
func forgeOpen(f *faulty)   { f.Forge.Open() }
func clustersCut(f *faulty) { f.eachCluster(f.Clusters.BreakOff) }
func clustersShut(f *faulty) {
	f.eachCluster(func(name string) { _ = f.Clusters.Pause(context.Background(), name) })
}

func clustersOpen(f *faulty) {
	f.eachCluster(func(name string) { _ = f.Clusters.Resume(context.Background(), name) })
}

// eachCluster calls do for the clusters that the story requires.
func (f *faulty) eachCluster(do func(string)) {
	for _, name := range f.story.Requires.Clusters {
		do(name)
	}
}

func interrupted(r *scenario.Result) bool { return r.Exit() == lab.ExitInterrupted }
func passed(r *scenario.Result) bool      { return r.Verdict == scenario.Passed }

// unseen reports whether the story failed for lack of observations.
func unseen(r *scenario.Result) bool {
	return slices.Contains([]scenario.Verdict{scenario.Failed, scenario.TimedOut, scenario.Broken}, r.Verdict)
}

// either accepts success and a timeout.
func either(r *scenario.Result) bool { return passed(r) || unseen(r) }

func faults() []fault {
	var list []fault
	for _, d := range []time.Duration{0, 150 * time.Millisecond, 450 * time.Millisecond} {
		list = append(list,
			fault{name: "ctrl-c after " + d.String(), at: after(d, ctrlC), ends: interrupted, clean: true, every: d == 150*time.Millisecond},
			fault{name: "engine restarts after " + d.String(), at: after(d, restart), ends: either, clean: true, every: d == 150*time.Millisecond},
		)
	}
	return append(list,
		fault{name: "ctrl-c twice", at: ctrlC, again: true, ends: interrupted},
		fault{name: "ctrl-c, then the forge is silent", at: after(300*time.Millisecond, ctrlC), back: forgeShut, ends: interrupted, every: true},
		fault{name: "ctrl-c, then the forge is silent for a while", at: after(300*time.Millisecond, ctrlC), back: for20s(forgeShut, forgeOpen), ends: interrupted, clean: true},
		fault{name: "ctrl-c, then the clusters are silent", at: after(300*time.Millisecond, ctrlC), back: clustersShut, ends: interrupted, spare: "git ", every: true},
		fault{name: "ctrl-c, then the engine is silent", at: after(300*time.Millisecond, ctrlC), back: engineShut, ends: interrupted},
		fault{name: "all is silent, ctrl-c twice", at: after(300*time.Millisecond, ctrlC), back: func(f *faulty) { forgeShut(f); clustersShut(f); engineShut(f) }, again: true, ends: interrupted},
		fault{name: "the forge is silent", at: forgeShut, ends: unseen},
		fault{name: "the engine is silent", at: engineShut, ends: unseen},
		fault{name: "the engine is silent for a while", at: for20s(engineShut, engineOpen), ends: either},
		fault{name: "the clusters are silent", at: clustersShut, ends: unseen},
		fault{name: "the clusters are silent for a while", at: for20s(clustersShut, clustersOpen), ends: either},
		fault{name: "the clusters' watches break off", at: after(150*time.Millisecond, clustersCut), ends: passed, clean: true},
	)
}

// basics are the stories that have between them all verbs and sources; of the others, which are practices, some steps get some faults.
var basics = []string{"addon-toggle", "bridge-metadata", "drift", "engine-switch", "environment-pin", "ordering", "promotion"}

// A story ends regardless of the fault and its step. It passes only if everything was seen, and the lab is restored or the differences are listed.
func TestFaults(t *testing.T) {
	names, err := scenario.List(root())
	if err != nil || len(names) < 6 {
		t.Fatalf("stories: %v, %v", names, err)
	}
	files := scenariotest.Reused(scenariotest.Files(t, root(), nil))
	for _, name := range names {
		s := load(t, files, name).For(lab.EngineArgoCD)
		if expected(s, lab.EngineArgoCD) != scenario.Passed {
			continue
		}
		var numbers []int
		for _, step := range slices.Concat(s.Steps, s.Always) {
			numbers = append(numbers, step.Number)
		}
		last := numbers[len(numbers)-1] + 1 // restores the lab
		numbers = append(numbers, last)
		everything := os.Getenv("LAB_FAULTS") == "all"
		for i, f := range faults() {
			practice := !slices.Contains(basics, name)
			if practice && !f.every && !everything {
				continue
			}
			t.Run(name+"/"+f.name, func(t *testing.T) {
				t.Parallel()
				for _, step := range numbers {
					const some = 3
					if !everything && (!f.every || practice || testing.Short()) && (step+i)%some != 0 && step != last {
						continue
					}
					synctest.Test(t, func(t *testing.T) { playFaulty(t, files, s, step, f) })
				}
			})
		}
	}
}

func playFaulty(t *testing.T, files fs.FS, s *scenario.Scenario, step int, wrong fault) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := &faulty{Lab: scenariotest.New(t, files), story: s, interrupt: cancel, giveUp: make(chan struct{})}
	before := f.registrations(t)
	var back []string
	player := scenario.Player{World: f.World, GiveUp: f.giveUp, OnStep: func(r scenario.StepResult) {
		if r.Verdict != "" {
			return
		}
		if r.Number == step && wrong.at != nil {
			wrong.at(f)
		}
		if r.Verb == "leave" {
			back = r.Back
			if wrong.back != nil {
				wrong.back(f)
			}
			if wrong.again {
				close(f.giveUp)
			}
		}
	}}
	began := time.Now()
	r := player.Play(ctx, f.story)
	took := time.Since(began)
	late := ctx.Err() == nil // the fault came too late
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("step %d: %s\n%s\nleft: %q", step, fmt.Sprintf(format, args...), story(r), r.Left)
	}
	if !wrong.ends(r) && (!late || !either(r)) {
		fail("ended as %s", r.Verdict)
	}
	if took > f.story.Timeout+10*time.Minute || wrong.again && took > f.story.Timeout+10*time.Second {
		fail("took %s", took)
	}
	if want := len(f.story.Steps) + len(f.story.Always) + 1; len(r.Steps) != want {
		fail("%d of %d steps are reported", len(r.Steps), want)
	}
	if wrong.again && wrong.back != nil && len(r.Left) < len(back) {
		fail("remaining changes are not named: %q", back)
	}
	if wrong.spare != "" && slices.ContainsFunc(r.Left, func(left string) bool { return strings.HasPrefix(left, wrong.spare) }) {
		fail("restorable changes remain")
	}
	// The fault is lifted and the lab converges. What differs then must be listed.
	forgeOpen(f)
	engineOpen(f)
	clustersOpen(f)
	time.Sleep(5 * time.Second)
	if err := f.Engine.Refresh(t.Context()); err != nil {
		t.Error(err)
	}
	traces := f.traces(t, before)
	if wrong.clean && len(r.Left)+len(traces) > 0 {
		fail("traces %q", traces)
	}
	for what, trace := range traces {
		if !strings.Contains(strings.Join(r.Left, "\n"), what) {
			fail("%s is not named: %s", what, trace)
		}
	}
}

// registrations returns the marks of every cluster.
func (f *faulty) registrations(t *testing.T) map[string]scenario.Marks {
	t.Helper()
	all := map[string]scenario.Marks{}
	for _, c := range f.Estate.Clusters {
		m, err := f.Engine.Registration(t.Context(), c.Name)
		if err != nil {
			t.Fatal(err)
		}
		all[c.Name] = m
	}
	return all
}

// traces returns the differences to the original lab, by the text that must name them. Objects that the engine derives
// from files and registrations count with these.
func (f *faulty) traces(t *testing.T, before map[string]scenario.Marks) map[string]string {
	t.Helper()
	traces := map[string]string{}
	log := f.Forge.Log(scenario.Branch)
	if log[0].Tree() != log[len(log)-1].Tree() {
		traces["git "+scenario.Branch] = log[len(log)-1].Message
	}
	now := f.registrations(t)
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if diff := cmp.Diff(before[name], now[name]); diff != "" {
			traces["registration of "+name] = diff
		}
	}
	if on := f.Engine.On(); on != f.Engines {
		traces[f.Engines.Title()+" is the engine again"] = "the engine is " + on.Title()
	}
	if len(traces) > 0 {
		return traces
	}
	objects := f.Objects(t)
	for name := range before { // Applications have a cluster's name
		if key := f.Estate.Hub().Name + " Secret argocd/cluster-" + name; f.Found[key] != objects[key] {
			traces["secret cluster-"+name+" in "+f.Estate.Hub().Name] = objects[key]
		}
	}
	if len(traces) > 0 {
		return traces
	}
	all := maps.Clone(f.Found)
	maps.Copy(all, objects)
	within := map[string][]string{} // what a namespace that is a trace itself stands for
	for name := range all {
		if diff := cmp.Diff(f.Found[name], objects[name]); diff != "" {
			cluster, object, _ := strings.Cut(name, " ")
			kind, path, _ := strings.Cut(object, " ")
			slash := strings.LastIndex(path, "/")
			what := strings.ToLower(kind) + " " + path[slash+1:] + " in " + cluster
			traces[what] = diff
			if slash > 0 {
				namespace := "namespace " + path[:slash] + " in " + cluster
				within[namespace] = append(within[namespace], what)
			}
		}
	}
	for namespace, list := range within {
		if _, trace := traces[namespace]; trace {
			for _, what := range list {
				delete(traces, what)
			}
		}
	}
	return traces
}
