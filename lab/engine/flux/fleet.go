package flux

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/kube"
)

// Time limits of requests to a spoke, which then counts as silent
const (
	answerWithin = 5 * time.Second
	acceptWithin = 20 * time.Second
	callTimeout  = 3 * time.Minute // to configure one Flux: a root's Deployments may take two minutes
)

// Fleet is the engine of a lab whose clusters each run their own Flux. The hub's also keeps a registration of every other cluster, without credentials, so that
// clusters are known even if they do not answer. A spoke has its own registration and variables.
//
// It is safe for concurrent use.
type Fleet struct {
	hub   *Flux
	reach func(cluster string) (*rest.Config, error)
	join  func(cluster string, cfg *rest.Config) (*Flux, error)

	mu    sync.Mutex
	links map[string]link
}

// link is a connection to a spoke's Flux, valid for one address of the cluster.
type link struct {
	to   string
	flux *Flux
}

// NewFleet returns the engine of a lab whose clusters each run Flux in a namespace. It connects lazily.
func NewFleet(h engine.Hub, namespace string) (*Fleet, error) {
	hub, err := New(h, namespace)
	if err != nil {
		return nil, err
	}
	hub.home = h.Cluster
	return &Fleet{hub: hub, reach: h.Reach, links: map[string]link{}, join: func(cluster string, cfg *rest.Config) (*Flux, error) {
		f, err := New(engine.Hub{Lab: h.Lab, Cluster: cluster, Config: cfg, Reach: h.Reach, Attached: h.Attached}, namespace)
		if err == nil {
			f.home = cluster
		}
		return f, err
	}}, nil
}

// at returns the Flux of the spoke at cfg.
func (t *Fleet) at(cluster string, cfg *rest.Config) (*Flux, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	to := kube.Digest(cfg.Host, cfg.CAFile, cfg.CAData, cfg.CertData, cfg.BearerToken)
	if l, ok := t.links[cluster]; ok && l.to == to {
		return l.flux, nil
	}
	f, err := t.join(cluster, cfg)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", cluster, err)
	}
	t.links[cluster] = link{to, f}
	return f, nil
}

// on connects to the Flux of a spoke.
func (t *Fleet) on(cluster string) (*Flux, error) {
	if t.reach == nil {
		return nil, errors.New("it is not reachable")
	}
	cfg, err := t.reach(cluster)
	if err != nil {
		return nil, err
	}
	return t.at(cluster, cfg)
}

// member is a cluster's Flux, or the reason why it cannot be reached.
type member struct {
	*Flux
	cluster string
	err     error
}

// members returns the instances of Flux that a want concerns, the hub's first.
func (t *Fleet) members(ctx context.Context, want engine.Want) ([]member, error) {
	known, err := t.hub.registrations(ctx)
	if err != nil {
		return nil, err
	}
	list := []member{{t.hub, t.hub.home, nil}}
	for _, r := range known {
		if r.Cluster == t.hub.home || !want.WaitsFor(r.Cluster) {
			continue
		}
		f, err := t.on(r.Cluster)
		list = append(list, member{f, r.Cluster, err})
	}
	return list, nil
}

// ask calls do for all spokes concurrently and records their errors. A spoke that exceeds the timeout counts as silent.
func ask(ctx context.Context, limit time.Duration, list []member, do func(ctx context.Context, i int) error) error {
	var group sync.WaitGroup
	for i := range list {
		if i == 0 || list[i].err != nil {
			continue
		}
		group.Go(func() {
			within, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			list[i].err = do(within, i)
		})
	}
	group.Wait()
	return ctx.Err()
}

// answering returns the members whose cluster answers and runs Flux.
func (t *Fleet) answering(ctx context.Context, limit time.Duration) ([]member, error) {
	list, err := t.members(ctx, engine.Want{})
	if err != nil {
		return nil, err
	}
	err = ask(ctx, limit, list, func(ctx context.Context, i int) error {
		_, err := list[i].hub.Dynamic.Resource(gitRepositories).List(ctx, metav1.ListOptions{Limit: 1})
		if apierrors.IsNotFound(err) {
			return errors.New("flux is not installed there")
		}
		return err
	})
	return slices.DeleteFunc(list, func(m member) bool { return m.err != nil }), err
}

// snapshots observes all instances of Flux concurrently.
func (t *Fleet) snapshots(ctx context.Context, want engine.Want) (snapshots, error) {
	list, err := t.members(ctx, want)
	if err != nil {
		return nil, err
	}
	s := make(snapshots, len(list))
	var failed error
	var hub sync.WaitGroup
	hub.Go(func() { s[0], failed = t.hub.snapshot(ctx) })
	err = ask(ctx, answerWithin, list, func(ctx context.Context, i int) (err error) { s[i], err = list[i].snapshot(ctx); return err })
	if hub.Wait(); failed != nil {
		return nil, failed
	}
	for i, m := range list[1:] {
		if m.err != nil {
			s[i+1] = snapshot{flux: m.Flux, cluster: m.cluster, silent: m.err}
		}
	}
	return s, err
}

// Observe observes the hub's Flux and all registrations: a spoke's own if it answers and has one, else the hub's copy.
func (t *Fleet) Observe(ctx context.Context) (engine.State, error) {
	s, err := t.hub.Observe(ctx)
	if err != nil {
		return s, err
	}
	list, err := t.members(ctx, engine.Want{})
	if err != nil {
		return s, err
	}
	own := make([]*engine.Registered, len(list))
	err = ask(ctx, answerWithin, list, func(ctx context.Context, i int) error {
		o, err := list[i].registrationSecret(ctx, list[i].cluster)
		if o != nil && err == nil {
			r := list[i].registered(o)
			own[i] = &r
		}
		return err
	})
	for i := range s.Registrations {
		if at := slices.IndexFunc(list, func(m member) bool { return m.cluster == s.Registrations[i].Cluster }); at >= 0 && own[at] != nil {
			s.Registrations[i] = *own[at]
		}
	}
	return s, err
}

// Install installs Flux on the hub; Definition.On is for spokes.
func (t *Fleet) Install(ctx context.Context, chart lab.Chart, values map[string]any, p lab.Progress) (bool, error) {
	return t.hub.Install(ctx, chart, values, p)
}

// Snapshot observes every Flux once.
func (t *Fleet) Snapshot(ctx context.Context) (engine.Snapshot, error) {
	s, err := t.snapshots(ctx, engine.Want{})
	if err != nil {
		return engine.Snapshot{}, err
	}
	return s.standing(), nil
}

// Applications returns the applications of the clusters that answer.
func (t *Fleet) Applications(ctx context.Context) ([]lab.Application, error) {
	s, err := t.snapshots(ctx, engine.Want{})
	return s.applications(), err
}

// WaitConverged is like Flux.WaitConverged for all wanted clusters.
func (t *Fleet) WaitConverged(ctx context.Context, want engine.Want, p lab.Progress) ([]lab.Application, error) {
	return converge(ctx, t.snapshots, want, p)
}

// Watch reports every application, calls ready, and then reports each change in order until ctx ends.
func (t *Fleet) Watch(ctx context.Context, seen func(lab.Application, engine.Observed), ready func()) error {
	return watch(ctx, t.snapshots, seen, ready)
}

// Refresh makes every Flux poll Git.
func (t *Fleet) Refresh(ctx context.Context) error {
	list, err := t.answering(ctx, answerWithin)
	for _, m := range list {
		if err == nil {
			err = m.Refresh(ctx)
		}
	}
	return err
}
