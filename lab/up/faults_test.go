package up_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"homelab/lab"
	"homelab/lab/cluster"
	"homelab/lab/cluster/clustertest"
	"homelab/lab/up"
)

// bases are the initial states of a lab.
var bases = map[string]func(t *testing.T, s *stage){
	"bare": func(*testing.T, *stage) {},
	"converged": func(t *testing.T, s *stage) {
		converge(t, s)
		s.edit()
	},
	"off": func(t *testing.T, s *stage) {
		converge(t, s)
		for _, name := range []string{"hub", "dev", "prod"} {
			s.clusters.Stop(name)
		}
		s.forge.Stop()
	},
	"certificates-ended": func(t *testing.T, s *stage) {
		converge(t, s)
		for _, name := range []string{"hub", "dev", "prod"} {
			s.clusters.Expire(name, time.Now().AddDate(0, 0, -1))
		}
		s.clusters.Stop("prod")
	},
	"stopped-without-records": func(t *testing.T, s *stage) {
		converge(t, s)
		s.clusters.Stop("dev")
		must(t, os.RemoveAll(s.dir.Path))
		s.credentials()
	},
}

func converge(t *testing.T, s *stage) {
	t.Helper()
	if _, err := (&process{stage: s}).up(t.Context(), up.Options{}); err != nil {
		t.Fatal(err)
	}
}

// faults occur at one call of a run, before or after it takes effect. effect.loses names the clusters they destroy.
var faults = map[string]func(s *stage, p *process, cancel func()) effect{
	"killed before": func(_ *stage, p *process, _ func()) effect {
		p.kill()
		return effect{before: clustertest.ErrKilled}
	},
	"killed after": func(_ *stage, p *process, _ func()) effect {
		return effect{after: func() error { p.kill(); return clustertest.ErrKilled }}
	},
	"interrupted": func(_ *stage, _ *process, cancel func()) effect {
		cancel()
		return effect{}
	},
	"call fails": func(*stage, *process, func()) effect {
		return effect{before: errors.New("no space left on device")}
	},
	"call fails late": func(*stage, *process, func()) effect {
		return effect{after: func() error { return errors.New("connection reset by peer") }}
	},
	"dev stops":   environment(func(s *stage) { s.clusters.Stop("dev") }),
	"hub stops":   environment(func(s *stage) { s.clusters.Stop("hub") }),
	"prod paused": environment(func(s *stage) { s.clusters.Pause("prod") }),
	"dev silent":  environment(func(s *stage) { s.clusters.Silence("dev", true) }),
	"hub silent":  environment(func(s *stage) { s.clusters.Silence("hub", true) }),
	"all off": environment(func(s *stage) {
		for _, name := range []string{"hub", "dev", "prod"} {
			s.clusters.Stop(name)
		}
		s.forge.Stop()
	}),
	"hub removed": environment(func(s *stage) { s.clusters.Lose("hub") }, "hub"),
	"forge stops": environment(func(s *stage) { s.forge.Stop() }),
	"parts stop": environment(func(s *stage) {
		for _, part := range s.parts {
			part.Stop()
		}
	}),
	"parts lost": environment(func(s *stage) {
		for _, part := range s.parts {
			part.Lose()
		}
	}),
	"nodes forget": environment(func(s *stage) { s.clusters.Forgetful("dev") }),
	"part silent":  environment(func(s *stage) { s.parts[0].Sicken() }),
	"records removed": environment(func(s *stage) {
		_ = os.RemoveAll(s.dir.Path)
		s.credentials()
	}),
	"kubeconfigs removed": environment(func(s *stage) { _ = os.RemoveAll(s.dir.Kubeconfigs()) }),
}

// environment returns a fault of the environment.
func environment(fault func(*stage), loses ...string) func(*stage, *process, func()) effect {
	return func(s *stage, _ *process, _ func()) effect {
		fault(s)
		return effect{loses: loses}
	}
}

// TestFaults injects every fault at every call of a run on every base. No complete cluster may be replaced unless the fault itself destroyed it, and later runs
// converge or fail with a cure.
func TestFaults(t *testing.T) {
	for base, prepare := range bases {
		t.Run(base, func(t *testing.T) {
			t.Parallel()
			quiet := newStageWithParts(t)
			prepare(t, quiet)
			p := &process{stage: quiet}
			if _, err := p.up(t.Context(), up.Options{}); err != nil {
				t.Fatal(err)
			}
			if len(p.calls) < 10 {
				t.Fatalf("run of %d calls, want at least 10: %v", len(p.calls), p.calls)
			}
			for _, fault := range slices.Sorted(maps.Keys(faults)) {
				for n, call := range p.calls {
					if (n+len(fault))%stride(base, fault) != 0 {
						continue
					}
					t.Run(fmt.Sprintf("%s/%d %s", fault, n, call), func(t *testing.T) { faulted(t, prepare, fault, n) })
				}
			}
		})
	}
}

// stride thins out the faults to about 350 cases: one at every stride-th call. LAB_FAULTS=all injects every fault at every call.
func stride(base, fault string) int {
	killed := strings.HasPrefix(fault, "killed") || strings.HasPrefix(fault, "call fails")
	switch {
	case os.Getenv("LAB_FAULTS") == "all":
		return 1
	case killed && base == "bare":
		return 2
	case killed:
		return 4
	}
	return 8
}

func faulted(t *testing.T, prepare func(*testing.T, *stage), fault string, at int) {
	s := newStageWithParts(t)
	prepare(t, s)
	canaries := s.clusters.Whole()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := &process{stage: s}
	p.hit = func(n int, _ string) effect {
		if n != at {
			return effect{}
		}
		maps.Copy(canaries, s.clusters.Whole())
		e := faults[fault](s, p, cancel)
		for _, name := range e.loses {
			delete(canaries, name)
		}
		return e
	}
	_, _ = p.up(ctx, up.Options{})
	s.requireKept(t, canaries, "after the run with the fault")
	maps.Copy(canaries, s.clusters.Whole())

	s.clusters.Silence("dev", false)
	s.clusters.Silence("hub", false)
	for range 3 {
		changed, err := (&process{stage: s}).up(t.Context(), up.Options{})
		s.requireKept(t, canaries, "after a later run")
		if err == nil && len(changed) == 0 {
			return
		}
		if err == nil {
			continue
		}
		var e *lab.Error
		if !errors.As(err, &e) || e.Cure == "" {
			t.Fatalf("later run: error without a cure: %v", err)
		}
		if e.Code != "recreate" {
			t.Fatalf("later run: %v", err)
		}
		return // the cluster is unknown; the cure names the next step
	}
	t.Fatal("not idle after three more runs")
}

// requireKept fails the test if a complete cluster is gone or was replaced.
func (s *stage) requireKept(t *testing.T, canaries map[string]string, when string) {
	t.Helper()
	for name, id := range canaries {
		if got := s.clusters.Identity(name); got != id {
			t.Fatalf("%s: cluster %s is %q, was %q", when, name, got, id)
		}
	}
}

// The container engine finishes the requests of a killed run: a node may appear after it was searched for, and again after it was removed.
func TestLateNodesRetry(t *testing.T) {
	s := newStage(t)
	p := &process{stage: s}
	var attempts atomic.Int32
	p.hit = func(_ int, call string) effect {
		if !strings.HasPrefix(call, "clusters.create ") || attempts.Add(1) > 3 {
			return effect{}
		}
		return effect{before: &lab.Error{Exit: lab.ExitFailed, Code: cluster.CodeLeftOver, Message: "its nodes appeared meanwhile"}}
	}
	if _, err := p.up(t.Context(), up.Options{}); err != nil || attempts.Load() < 3 {
		t.Errorf("%v after %d attempts", err, attempts.Load())
	}
}

// A node that appears after the plan, without a record, belongs to a killed run and must not fail this one.
func TestLateNodesRecreated(t *testing.T) {
	for _, unread := range []int{0, 1} {
		s := newStage(t)
		p := &process{stage: s}
		var once sync.Once
		p.hit = func(_ int, call string) effect {
			if strings.HasPrefix(call, "clusters.create ") {
				once.Do(func() {
					for _, name := range []string{"hub", "dev", "prod"} {
						if s.clusters.Identity(name) == "" {
							s.clusters.Appear(name, unread)
						}
					}
				})
			}
			return effect{}
		}
		if _, err := p.up(t.Context(), up.Options{}); err != nil {
			t.Errorf("%d unreadable observations: %v", unread, err)
		}
	}
}
