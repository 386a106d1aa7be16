package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sync/singleflight"

	"homelab/lab"
	"homelab/lab/apply"
	"homelab/lab/cluster"
	"homelab/lab/engine"
	"homelab/lab/engine/argocd"
	"homelab/lab/plan"
)

// run is one run of up: the executors of its steps, and what one hands to the next.
type run struct {
	*world
	clusters []lab.Cluster
	seen     seen
	timeout  time.Duration // for the addons to converge
	only     []string      // clusters whose applications are waited for; nil for all
	expected []string
	gone     []string
	loads    singleflight.Group // by image

	commit string // of the forge: as seen, or as step estate pushed it; read by addons, which needs that
}

func (r *run) executors() map[string]apply.Executor {
	return map[string]apply.Executor{
		plan.KindImages:  r.doImages,
		plan.KindNetwork: r.doNetwork,
		plan.KindForge:   r.doForge,
		plan.KindCluster: r.doCluster,
		plan.KindEngine:  r.doEngine,
		plan.KindEstate:  r.doEstate,
		plan.KindBridge:  r.doBridge,
		plan.KindAddons:  r.doAddons,
	}
}

// doImages gets everything that is missing, in the order in which it is needed; steps that need an image wait for that one alone.
func (r *run) doImages(ctx context.Context, _ lab.Step, p lab.Progress) (apply.Outcome, error) {
	needs := r.needs(r.clusters)
	var images, changes []string
	for _, n := range needs {
		if n.image != "" {
			images = append(images, n.image)
		}
	}
	if err := r.supply.Expect(images...); err != nil {
		return apply.Outcome{}, err
	}
	for _, n := range needs {
		if r.supply.AtHand(n.image, n.chart, n.version) {
			continue
		}
		origin, err := r.get(ctx, n, p)
		if err != nil {
			return apply.Outcome{}, err
		}
		changes = append(changes, fmt.Sprintf("%s from %s", n, origin))
	}
	return apply.Outcome{Detail: fmt.Sprintf("%d at hand", len(needs)), Changes: changes}, nil
}

func (r *run) get(ctx context.Context, n need, p lab.Progress) (lab.Origin, error) {
	if n.image != "" {
		img, err := r.supply.Image(ctx, n.image, p)
		return img.Origin, err
	}
	chart, err := r.supply.Chart(ctx, n.chart, n.version, p)
	return chart.Origin, err
}

func (r *run) doNetwork(ctx context.Context, _ lab.Step, _ lab.Progress) (apply.Outcome, error) {
	if err := r.kind.EnsureNetwork(ctx); err != nil {
		return apply.Outcome{}, err
	}
	return apply.Outcome{Detail: lab.NetworkName(r.name), Changes: []string{"created"}}, nil
}

func (r *run) doForge(ctx context.Context, s lab.Step, p lab.Progress) (apply.Outcome, error) {
	img, err := r.inEngine(ctx, imageGitea, p)
	if err != nil {
		return apply.Outcome{}, err
	}
	if err := r.forge.Start(ctx, img, r.record.Ports.Forge, p); err != nil {
		return apply.Outcome{}, err
	}
	return apply.Outcome{Detail: r.forgeURL(), Changes: []string{s.Reason}}, nil
}

// image waits until an image is at hand. How it is made is told by the step images, once.
func (r *run) image(ctx context.Context, name string, p lab.Progress) (lab.Image, error) {
	if !r.supply.AtHand(name, "", "") {
		p("waiting for image " + name)
	}
	return r.supply.Image(ctx, name, func(string) {})
}

// inEngine gets an image and loads it into the container engine, unless it is there: once, for all who want it.
func (r *run) inEngine(ctx context.Context, name string, p lab.Progress) (lab.Image, error) {
	img, err := r.image(ctx, name, p)
	if err != nil {
		return img, err
	}
	_, err, _ = r.loads.Do(name, func() (any, error) {
		id, ok, err := r.docker.ImageID(ctx, img.Ref)
		if err != nil || ok && id == img.Digest {
			return nil, err
		}
		p("loading " + img.Ref)
		f, err := os.Open(img.Archive)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", name, err)
		}
		defer f.Close()
		_, err = r.docker.Output(ctx, f, "load", "--quiet")
		return nil, err
	})
	return img, err
}

func (r *run) doCluster(ctx context.Context, s lab.Step, p lab.Progress) (apply.Outcome, error) {
	if s.Action == lab.ActionDelete {
		if err := r.kind.Delete(ctx, s.Cluster); err != nil {
			return apply.Outcome{}, err
		}
		return apply.Outcome{Detail: "removed", Changes: []string{s.Reason}}, nil
	}
	c, _ := r.est.Cluster(s.Cluster)
	state := r.seen.Clusters[s.Cluster]
	inputs, images := clusterInputs(c, r.ports(c)), r.imageKeys(c)
	var err error
	switch {
	case state.Exists && state.Inputs == inputs: // whole once, and as wanted: it is started, and gets what it lacks
		err = r.mend(ctx, c, state, p)
		images = append(images, state.Images...)
	case state.Exists:
		p("removing what is there: " + s.Reason)
		if err = r.kind.Delete(ctx, c.Name); err == nil {
			err = r.create(ctx, c, p)
		}
	default:
		err = createAbsent(func() error { return r.create(ctx, c, p) }, func() error {
			p("removing what a killed run had begun")
			return r.kind.Delete(ctx, c.Name)
		})
	}
	if err != nil {
		return apply.Outcome{}, err
	}
	if err := r.kind.Mark(ctx, c.Name, inputs, images); err != nil {
		return apply.Outcome{}, err
	}
	if c.Role == lab.RoleHub {
		r.forgetEngine()
	}
	return apply.Outcome{Detail: r.supply.Version(imageNode), Changes: []string{s.Reason}}, nil
}

// createAbsent creates a cluster that was absent when the plan was made. What a killed run had begun may have come into being since: it is removed, once.
func createAbsent(create, remove func() error) error {
	err := create()
	var e *lab.Error
	if !errors.As(err, &e) || e.Code != cluster.CodeLeftOver {
		return err
	}
	if err := remove(); err != nil {
		return err
	}
	return create()
}

func (r *run) create(ctx context.Context, c lab.Cluster, p lab.Progress) error {
	node, err := r.inEngine(ctx, imageNode, p)
	if err != nil {
		return err
	}
	return r.kind.Create(ctx, cluster.Spec{
		Cluster: c, NodeRef: node.Ref, Ports: r.ports(c),
		Images: func(ctx context.Context) ([]lab.Image, error) { return r.images(ctx, c, p) },
	}, p)
}

func (r *run) mend(ctx context.Context, c lab.Cluster, state lab.ClusterState, p lab.Progress) error {
	if !state.Running || !state.Ready {
		if err := r.kind.Start(ctx, c.Name, p); err != nil {
			return err
		}
	}
	list, err := r.images(ctx, c, p)
	if err != nil {
		return err
	}
	return r.kind.Load(ctx, c.Name, list, p)
}

// images waits until every image of a cluster is at hand.
func (r *run) images(ctx context.Context, c lab.Cluster, p lab.Progress) ([]lab.Image, error) {
	var list []lab.Image
	for _, name := range r.imagesOf(c) {
		img, err := r.image(ctx, name, p)
		if err != nil {
			return nil, err
		}
		list = append(list, img)
	}
	return list, nil
}

func (r *run) doEngine(ctx context.Context, s lab.Step, p lab.Progress) (apply.Outcome, error) {
	chart, err := r.supply.Chart(ctx, chartArgoCD, r.supply.ChartVersion(chartArgoCD), p)
	if err != nil {
		return apply.Outcome{}, err
	}
	e, err := r.engine()
	if err != nil {
		return apply.Outcome{}, err
	}
	changed, err := e.Install(ctx, chart, r.values(), p)
	if err != nil {
		return apply.Outcome{}, err
	}
	out := apply.Outcome{Detail: "argo cd " + chart.Version}
	if changed || s.Action == lab.ActionRepair {
		out.Changes = []string{s.Reason}
	}
	return out, nil
}

// doEstate fills the forge. The working tree is pushed last, so that a run that was killed before is seen to be unfinished.
func (r *run) doEstate(ctx context.Context, _ lab.Step, p lab.Progress) (apply.Outcome, error) {
	var charts []lab.Chart
	for _, n := range r.addonCharts() {
		chart, err := r.supply.Chart(ctx, n.chart, n.version, p)
		if err != nil {
			return apply.Outcome{}, err
		}
		charts = append(charts, chart)
	}
	p("publishing charts")
	changes, err := r.forge.PublishCharts(ctx, charts)
	if err != nil {
		return apply.Outcome{}, err
	}
	hook := fmt.Sprintf("http://%s-control-plane:%d/api/webhook", lab.KindName(r.name, r.hubName()), argocd.DefaultNodePort)
	hooked, err := r.forge.EnsureWebhook(ctx, hook, r.creds.WebhookSecret)
	if err != nil {
		return apply.Outcome{}, err
	}
	if hooked {
		changes = append(changes, "webhook to argo cd")
	}
	p("pushing the working tree")
	pushed, err := r.forge.Push(ctx, r.tree(), "estate: lab up")
	if err != nil {
		return apply.Outcome{}, err
	}
	r.commit = pushed.Commit
	changes = append(changes, pushed.Changed...)
	return apply.Outcome{Detail: "commit " + abbreviate(pushed.Commit), Changes: changes}, nil
}

func abbreviate(commit string) string { return commit[:min(7, len(commit))] }

func (r *run) doBridge(ctx context.Context, s lab.Step, p lab.Progress) (apply.Outcome, error) {
	e, err := r.engine()
	if err != nil {
		return apply.Outcome{}, err
	}
	if s.Action == lab.ActionDelete {
		_, err := e.Unregister(ctx, s.Cluster, r.seen.Clusters[s.Cluster].Ready, p)
		return apply.Outcome{Detail: "forgotten", Changes: []string{s.Reason}}, err
	}
	reg, err := r.registration(s.Cluster)
	if err != nil {
		return apply.Outcome{}, err
	}
	spoke, err := r.spoke(s.Cluster)
	if err != nil {
		return apply.Outcome{}, err
	}
	changes, err := e.Register(ctx, reg, spoke)
	if err != nil {
		return apply.Outcome{}, err
	}
	return apply.Outcome{Detail: told(changes), Changes: changes}, nil
}

// told is one line for a list of changes.
func told(changes []string) string {
	switch len(changes) {
	case 0:
		return "as it was"
	case 1:
		return changes[0]
	case 2:
		return changes[0] + ", " + changes[1]
	}
	return fmt.Sprintf("%s and %d more", changes[0], len(changes)-1)
}

// doAddons hands the root application over and waits until everything that it leads to is in sync and healthy.
func (r *run) doAddons(ctx context.Context, s lab.Step, p lab.Progress) (apply.Outcome, error) {
	e, err := r.engine()
	if err != nil {
		return apply.Outcome{}, err
	}
	changes, err := e.ApplyRepositories(ctx, r.repositories())
	if err != nil {
		return apply.Outcome{}, err
	}
	root, err := r.root()
	if err != nil {
		return apply.Outcome{}, err
	}
	applied, err := e.ApplyRoot(ctx, root)
	if err != nil {
		return apply.Outcome{}, err
	}
	if applied {
		changes = append(changes, "root application")
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	apps, err := e.WaitConverged(ctx, engine.Want{Revision: r.commit, Clusters: r.only, Expected: r.expected, Gone: r.gone, Changed: true}, p)
	if err != nil {
		return apply.Outcome{}, err
	}
	if len(changes) == 0 {
		changes = []string{s.Reason}
	}
	return apply.Outcome{Detail: fmt.Sprintf("%d in sync", len(apps)), Changes: changes}, nil
}

// repositories are the two faces of the forge that Argo CD reads from.
func (r *run) repositories() []engine.Repository {
	in := r.bridgeInputs()
	return []engine.Repository{
		{Name: "estate", Type: "git", URL: in.RepoURL, Username: r.creds.ForgeUser, Password: r.creds.ForgePassword},
		{Name: "charts", Type: "helm", URL: in.ChartRepoURL, Username: r.creds.ForgeUser, Password: r.creds.ForgePassword},
	}
}

// root is the estate's app of apps, pointed at the lab's forge.
func (r *run) root() (engine.Root, error) {
	manifest, err := fs.ReadFile(r.est.FS, lab.RootFile)
	if err != nil {
		return engine.Root{}, fmt.Errorf("root application: %w", err)
	}
	in := r.bridgeInputs()
	return engine.Root{Manifest: manifest, RepoURL: in.RepoURL, Revision: in.RepoRevision}, nil
}
