package up_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"homelab/lab"
	"homelab/lab/cluster/clustertest"
	"homelab/lab/engine/argocd"
	"homelab/lab/engine/enginetest"
	"homelab/lab/state"
	"homelab/lab/up"
)

// process is one run of the program on a stage. Its calls to the adapters pass through hit.
type process struct {
	*stage
	mu    sync.Mutex
	calls []string
	dead  bool
	hit   func(n int, call string) effect // may be nil

	points map[string]int     // how often each call and each event of a step came; nil where nobody counts
	reach  func(point string) // is told of each before it takes effect; may be nil
	change func(point string, do func() error) error
}

// call passes one call of an adapter.
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

// point names an event, by what it is and how often that came before: steps run side by side, and in no order.
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

// event hears of a step.
func (p *process) event(e lab.Event) {
	switch {
	case e.State != lab.StepRunning && e.State != lab.StepStopping:
		p.point("end of " + e.Step.ID)
	case e.Detail == e.Step.Reason:
		p.point("begin of " + e.Step.ID)
	}
}

// effect is what a fault does to one call.
type effect struct {
	before error        // ends the call before it has an effect
	after  func() error // ends it afterwards
	loses  []string     // clusters that the fault itself takes
}

// kill ends the process: none of its calls has an effect any more.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
}

// lab is the core as this process has it.
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
	}
	l.Connect = func(hub string) (up.Engine, error) {
		id := clusters.Identity(hub)
		if id == "" {
			return nil, errors.New("no hub is there")
		}
		if hub != "hub" { // connecting asks nothing, and nothing is installed
			return &hubEngine{Fake: enginetest.NewFake()}, nil
		}
		p.stage.mu.Lock()
		defer p.stage.mu.Unlock()
		e := p.engines[id]
		if e == nil {
			e = &hubEngine{Fake: enginetest.NewFake()}
			p.engines[id] = e
		}
		return &calledEngine{e, p, id}, nil
	}
	return l
}

// up is what the command does where nobody answers a question.
func (p *process) up(ctx context.Context, o up.Options) (changed []string, err error) {
	if o.Timeout == 0 {
		o.Timeout = time.Second
	}
	if !p.hasCredentials() {
		p.credentials()
	}
	out, err := p.lab().Follow(ctx, o, hearer{p})
	return out.Result.Changes, err
}

// hearer tells a process of its steps.
type hearer struct{ p *process }

func (hearer) Say(string)                                             { /* nobody reads */ }
func (hearer) Ask(context.Context, string, []string) (bool, error)    { return false, nil }
func (h hearer) Begin(*up.Seen, []lab.Step) (func(lab.Event), func()) { return h.p.event, func() {} }

// supply has everything.
type supply struct{}

func (supply) Image(_ context.Context, name string, _ lab.Progress) (lab.Image, error) {
	return lab.Image{Name: name, Ref: "example.org/" + name + ":1", Digest: "sha256:" + name}, nil
}

func (supply) Chart(_ context.Context, name, version string, _ lab.Progress) (lab.Chart, error) {
	return lab.Chart{Name: name, Version: version, Digest: "sha256:" + name + version}, nil
}
func (supply) Expect(...string) error            { return nil }
func (supply) Left() time.Duration               { return 0 }
func (supply) AtHand(_, _, _ string) bool        { return true }
func (supply) Ref(image string) string           { return "example.org/" + image + ":1" }
func (supply) Key(image string) string           { return image }
func (supply) Version(string) string             { return "v1.36.3" }
func (supply) ChartVersion(string) string        { return "3.2.11" }
func (supply) HasChart(_, _ string) bool         { return true }
func (supply) ImagesOf(chart, _ string) []string { return []string{chart} }

type containers struct{}

func (containers) Answers(context.Context) error { return nil }

func (containers) LoadImage(context.Context, lab.Image, lab.Progress) error { return nil }

func (containers) Published(context.Context, string) (map[string]map[string]string, error) {
	return nil, nil
}
