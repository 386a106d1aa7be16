package up_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"homelab/lab"
	"homelab/lab/cluster/clustertest"
	"homelab/lab/engine"
	"homelab/lab/engine/argocd"
	"homelab/lab/engine/enginetest"
	"homelab/lab/engine/flux"
	"homelab/lab/state"
	"homelab/lab/up"
)

// process is one run of the program on a stage. Its adapter calls pass through hit.
type process struct {
	*stage
	mu    sync.Mutex
	calls []string
	dead  bool
	hit   func(n int, call string) effect // may be nil

	points map[string]int     // occurrences of each call and step event; nil to not count
	reach  func(point string) // called before each takes effect; may be nil
	change func(point string, do func() error) error
}

// call passes on one adapter call.
func (p *process) call(name string, do func() error) error {
	point := p.point(name)
	p.mu.Lock()
	if p.dead {
		p.mu.Unlock()
		return clustertest.ErrKilled
	}
	n := len(p.calls)
	p.calls = append(p.calls, name)
	p.mu.Unlock()
	if p.change != nil {
		return p.change(point, do)
	}
	if p.hit == nil {
		return do()
	}
	e := p.hit(n, name)
	if e.before != nil {
		return e.before
	}
	err := do()
	if e.after != nil {
		return e.after()
	}
	return err
}

// point names an event with its number of earlier occurrences, as steps run in parallel.
func (p *process) point(name string) string {
	p.mu.Lock()
	if p.dead || p.points == nil {
		p.mu.Unlock()
		return ""
	}
	point := fmt.Sprintf("%s #%d", name, p.points[name])
	p.points[name]++
	p.mu.Unlock()
	if p.reach != nil {
		p.reach(point)
	}
	return point
}

// event records the begin and end of steps.
func (p *process) event(e lab.Event) {
	switch {
	case e.State != lab.StepRunning && e.State != lab.StepStopping:
		p.point("end of " + e.Step.ID)
	case e.Detail == e.Step.Reason:
		p.point("begin of " + e.Step.ID)
	}
}

// effect is the effect of a fault on one call.
type effect struct {
	before error        // returned instead of making the call
	after  func() error // returned after the call
	loses  []string     // clusters destroyed by the fault
}

// kill ends the process: further calls have no effect.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
}

// lab returns the Lab of this process.
func (p *process) lab() *up.Lab {
	clusters := clustertest.NewFake(p.machine, p.dir)
	clusters.Fail = func(call, name string) error {
		if strings.Contains(call, "/") { // within a call
			return p.call("clusters."+call+" "+name, func() error { return nil })
		}
		return nil
	}
	l := &up.Lab{
		Name: "demo", Estate: p.estate, Dir: p.dir, Ports: state.Ports{Engine: 8080, Forge: 3000}, Creds: credentials,
		Clusters: &calledClusters{clusters, p}, Forge: &calledForge{p.forge, p}, Supply: &calledSupply{p: p}, Containers: &calledContainers{p: p},
		Snapshots: &calledSnapshots{p.shelf, p}, Definition: argocd.Definition(""),
		FreePort: freePort, Parts: p.parts(),
	}
	if p.wanted {
		l.Registry = lab.Registry{Host: "registry:5000", User: "lab", Password: "r"}
	}
	l.Connect = func(hub string) (up.Engine, error) {
		id := clusters.Identity(hub)
		if id == "" {
			return nil, errors.New("no hub")
		}
		if hub != "hub" { // connecting succeeds without an installed engine
			return &hubEngine{Fake: enginetest.NewFake()}, nil
		}
		p.stage.mu.Lock()
		defer p.stage.mu.Unlock()
		e := p.engines[id]
		if e == nil {
			e = &hubEngine{Fake: enginetest.NewFake()}
			p.engines[id] = e
		}
		return &calledEngine{e, p, id, "engine"}, nil
	}
	if p.former == nil {
		return l
	}
	l.Others = []engine.Definition{flux.Definition("")}
	l.ConnectFormer = func(_ engine.Definition, hub string) (up.Engine, error) {
		return &calledEngine{p.former, p, clusters.Identity(hub), "former"}, nil
	}
	return l
}

// up runs Follow and answers every question with no.
func (p *process) up(ctx context.Context, o up.Options) (changed []string, err error) {
	if o.Timeout == 0 {
		o.Timeout = time.Second
	}
	if !p.hasCredentials() {
		p.credentials()
	}
	out, err := p.lab().Follow(ctx, o, stepRecorder{p})
	return out.Result.Changes, err
}

// stepRecorder passes step events to a process.
type stepRecorder struct{ p *process }

func (stepRecorder) Println(string)                                      { /* discarded */ }
func (stepRecorder) Ask(context.Context, string, []string) (bool, error) { return false, nil }
func (h stepRecorder) Begin(*up.Seen, []lab.Step) (func(lab.Event), func()) {
	return h.p.event, func() {}
}

// supply has every image and chart.
type supply struct{}

func (supply) Image(_ context.Context, name string, _ lab.Progress) (lab.Image, error) {
	return lab.Image{Name: name, Ref: "example.org/" + name + ":1", Digest: "sha256:" + name}, nil
}

func (supply) Chart(_ context.Context, name, version string, _ lab.Progress) (lab.Chart, error) {
	return lab.Chart{Name: name, Version: version, Digest: "sha256:" + name + version}, nil
}
func (supply) Expect(...string) error            { return nil }
func (supply) Left() time.Duration               { return 0 }
func (supply) Present(_, _, _ string) bool       { return true }
func (supply) Ref(image string) string           { return "example.org/" + image + ":1" }
func (supply) Key(image string) string           { return image }
func (supply) Version(string) string             { return "v1.36.3" }
func (supply) ChartVersion(string) string        { return "3.2.11" }
func (supply) HasChart(_, _ string) bool         { return true }
func (supply) ImagesOf(chart, _ string) []string { return []string{chart} }

type containers struct{}

func (containers) Answers(context.Context) error { return nil }

func (containers) ID(context.Context) (string, error) { return "", nil }

func (containers) Endpoint(context.Context) (string, error) { return "", nil }

func (containers) LoadImage(context.Context, lab.Image, lab.Progress) error { return nil }

func (containers) Published(context.Context, string) (map[string]map[string]string, error) {
	return nil, nil
}

// freePort regards all ports of this machine as free.
func freePort(prefer int, taken ...int) (int, error) {
	for slices.Contains(taken, prefer) {
		prefer++
	}
	return prefer, nil
}
