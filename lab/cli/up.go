package cli

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/apply"
	"homelab/lab/docker"
	"homelab/lab/doctor"
	"homelab/lab/estate"
	"homelab/lab/plan"
	"homelab/lab/scenario"
	"homelab/lab/state"
	"homelab/lab/ui"
)

// Ports on 127.0.0.1 that a lab takes when they are free, and the next free ones otherwise.
const (
	argocdPort = 8080
	forgePort  = 3000
)

func (p *program) upCommand() *cli.Command {
	return &cli.Command{
		Name:  "up",
		Usage: "bring the lab up, or make it follow the estate",
		Description: "Looks at what there is, does what is missing, and ends when every application is in sync and healthy. A run that was ended, however\n" +
			"that happened, is gone on with by the next. Where nothing is to be done, nothing is touched.\n\n" +
			examples("lab up", "lab up --fix", "lab up --only dev,prod", "lab up --images bundle=lab.tar.zst", "lab up -o json"),
		Flags: []cli.Flag{
			nameFlag, estateFlag, outputFlag, imagesFlag, mirrorFlag,
			&cli.StringSliceFlag{Name: "only", Usage: "the hub and these `CLUSTERS` alone; others are left as they are"},
			&cli.BoolFlag{Name: "fix", Usage: "as root on Linux, first cure what lab doctor finds wrong with this machine"},
			&cli.BoolFlag{Name: "recreate", Usage: "make clusters anew whose spec.kind changed; what runs in them is lost"},
			&cli.BoolFlag{Name: "dry-run", Usage: "print the plan and do nothing"},
			&cli.DurationFlag{Name: "timeout", Usage: "`TIME` for the applications to converge", Value: 5 * time.Minute},
		},
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			s, err := p.open(c)
			if err != nil {
				return err
			}
			if s.supply, err = s.openSupply(c.Context, docker.New(), c); err != nil {
				return err
			}
			est, err := s.load(s.limits()...)
			if err != nil {
				return err
			}
			clusters, err := selected(c, est)
			if err != nil {
				return err
			}
			if c.Bool("dry-run") {
				return s.dryRun(c, est, clusters)
			}
			return s.locked(c.Context, func(ctx context.Context) error { return s.up(ctx, c, est, clusters) })
		},
	}
}

// selected are the clusters that --only names, with the hub, without which the others are not managed; all without the flag.
func selected(c *cli.Context, est *lab.Estate) ([]lab.Cluster, error) {
	only := c.StringSlice("only")
	if len(only) == 0 {
		return est.Clusters, nil
	}
	for _, name := range only {
		if _, ok := est.Cluster(name); !ok {
			return nil, &lab.Error{
				Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("--only: the estate has no cluster %q", name),
				Cure: "there are: " + strings.Join(clusterNames(est.Clusters), ", "),
			}
		}
	}
	var list []lab.Cluster
	for _, cl := range est.Clusters {
		if cl.Role == lab.RoleHub || slices.Contains(only, cl.Name) {
			list = append(list, cl)
		}
	}
	return list, nil
}

// limits are what an estate can have where images come from.
func (s *session) limits() []estate.Option {
	options := []estate.Option{estate.WithCharts(s.suppliable)}
	if s.supply.Origin() != lab.OriginRegistry {
		options = append(options, estate.WithoutLoadBalancer())
	}
	return options
}

// suppliable says whether a chart of the estate can be had; one from a repository that is not lab's is the engine's to fetch.
func (s *session) suppliable(c estate.Chart) bool {
	return c.Repository != "" || s.supply.HasChart(c.Name, c.Version)
}

// prepare does what comes before a plan: checks the machine, and puts the adapters together.
func (s *session) prepare(ctx context.Context, est *lab.Estate, fix bool) (*world, doctor.Report, error) {
	report, err := s.preflight(ctx, s.doctor(s.toMake(est), s.supply.Builds()), fix)
	if err != nil {
		return nil, report, err
	}
	w, err := s.openWorld(est, report.Traits)
	return w, report, err
}

// remember writes down where the lab is from and which ports it has, the first time.
func (s *session) remember(images string) error {
	r := s.record
	r.Lab, r.Estate, r.Images = s.name, s.estate.dir, images
	if r.Ports == (state.Ports{}) {
		var err error
		if r.Ports.Forge, err = state.FreePort(forgePort, takenPorts()...); err != nil {
			return err
		}
		if r.Ports.ArgoCD, err = state.FreePort(argocdPort, append(takenPorts(), r.Ports.Forge)...); err != nil {
			return err
		}
	}
	if r == s.record {
		return nil
	}
	s.record = r
	return s.dir.Save(r)
}

// takenPorts are those of the other labs, which may be stopped at the moment.
func takenPorts() []int {
	names, err := state.List()
	if err != nil {
		return nil
	}
	var ports []int
	for _, name := range names {
		if d, err := state.Open(name); err == nil {
			if r, err := d.Load(); err == nil {
				ports = append(ports, r.Ports.ArgoCD, r.Ports.Forge)
			}
		}
	}
	return ports
}

func (s *session) up(ctx context.Context, c *cli.Context, est *lab.Estate, clusters []lab.Cluster) error {
	began := time.Now()
	w, report, err := s.prepare(ctx, est, c.Bool("fix"))
	if err != nil {
		return err
	}
	if err := w.remember(c.String("images")); err != nil {
		return err
	}
	seen, err := w.observe(ctx, clusters)
	if err != nil {
		return err
	}
	steps := plan.Build(w.desired(ctx, clusters, seen.Observed, !c.IsSet("only"), report.Summary()), seen.Observed)
	if err := remakeAllowed(steps, c.Bool("recreate")); err != nil {
		return err
	}
	if !plan.Changes(steps) {
		s.ui.UpToDate(s.name, len(clusters), len(seen.Applications), time.Since(began))
		return s.upResult(nil, time.Since(began), nil)
	}
	r := &run{
		world: w, clusters: clusters, seen: seen, commit: seen.forge.Revision, timeout: c.Duration("timeout"), only: only(clusters, est),
		expected: seen.Expected, gone: applicationNames(w.switched(false, clusters)),
	}
	if len(seen.Missing) > 0 {
		s.ui.Say(w.supply.Why())
	}
	s.ui.Begin(w.header(clusters), steps)
	result, err := apply.Runner{Executors: r.executors(), Events: s.ui.Event}.Run(ctx, steps)
	s.ui.End()
	if err != nil {
		return err
	}
	if r.record.Engine == "" {
		r.record.Engine = lab.EngineArgoCD
		if err := s.dir.Save(r.record); err != nil {
			return err
		}
	}
	if err := r.summary(ctx, steps, result, time.Since(began)); err != nil {
		return err
	}
	return s.upResult(changedTitles(steps, result), time.Since(began), result.Steps)
}

// dryRun prints the plan.
func (s *session) dryRun(c *cli.Context, est *lab.Estate, clusters []lab.Cluster) error {
	w, report, err := s.prepare(c.Context, est, false)
	if err != nil {
		return err
	}
	seen, err := w.observe(c.Context, clusters)
	if err != nil {
		return err
	}
	steps := plan.Build(w.desired(c.Context, clusters, seen.Observed, !c.IsSet("only"), report.Summary()), seen.Observed)
	if s.ui.WantsJSON() {
		return s.ui.JSON(ui.NewPlanResult(s.name, steps))
	}
	s.ui.Raw(plan.String(steps))
	return nil
}

// remakeAllowed refuses a plan that would empty clusters, unless that was asked for.
func remakeAllowed(steps []lab.Step, recreate bool) error {
	names := plan.Remade(steps)
	if len(names) == 0 || recreate {
		return nil
	}
	return &lab.Error{
		Exit: lab.ExitFailed, Code: "recreate",
		Message: "spec.kind changed in " + strings.Join(names, ", ") + ", and kind cannot change a cluster that runs",
		Cure:    "lab up --recreate makes them anew and loses what runs in them",
	}
}

// header is the first line of a run: "lab homelab · argocd · 4 clusters · images from the registry".
func (w *world) header(clusters []lab.Cluster) string {
	n := "1 cluster"
	if len(clusters) != 1 {
		n = fmt.Sprintf("%d clusters", len(clusters))
	}
	return fmt.Sprintf("lab %s · %s · %s · %s", w.name, lab.EngineArgoCD, n, origins[w.supply.Origin()])
}

// origins says in a word or two where images come from; Supply.Why says at length.
var origins = map[lab.Origin]string{
	lab.OriginEngine: "images at hand", lab.OriginBundle: "images from a bundle", lab.OriginRegistry: "images from registries", lab.OriginSource: "images from source",
}

func changedTitles(steps []lab.Step, result apply.Result) []string {
	var titles []string
	for _, s := range steps {
		if slices.ContainsFunc(result.Changes, func(c string) bool { return strings.HasPrefix(c, s.ID+": ") }) {
			titles = append(titles, s.Title())
		}
	}
	return titles
}

func (s *session) upResult(changed []string, took time.Duration, steps []lab.StepResult) error {
	if !s.ui.WantsJSON() {
		return nil
	}
	return s.ui.JSON(ui.NewUpResult(s.name, changed, took, steps))
}

// summary is the last screen.
func (r *run) summary(ctx context.Context, steps []lab.Step, result apply.Result, took time.Duration) error {
	if r.ui.WantsJSON() {
		return nil
	}
	st, err := r.status(ctx)
	if err != nil {
		return err
	}
	times := map[string]time.Duration{}
	for i, s := range result.Steps {
		times[steps[i].ID] = time.Duration(s.Seconds * float64(time.Second))
	}
	r.ui.Summary(ui.Summary{
		Lab: r.name, Took: took, Longest: ui.LongestWay(steps, times), Clusters: st.Clusters, Applications: st.Applications, Addons: addonNames(r.est),
		Endpoints: []ui.Entry{
			{Name: "argo cd", Text: r.argocdURL(), Note: "user " + r.creds.ArgoCDUser + ", password: " + r.command("lab creds argocd")},
			{Name: "forge", Text: r.forgeURL(), Note: "user " + r.creds.ForgeUser + ", password: " + r.command("lab creds forge")},
			{Name: "kubectl", Text: "export KUBECONFIG=$(" + r.command("lab kubeconfig") + ")"},
		},
		Next: r.next(),
	})
	return nil
}

// next is what a person may want to try on this estate: a layer of values to edit, a story to play.
func (r *run) next() string {
	var ideas []string
	for _, e := range slices.SortedFunc(slices.Values(r.est.Environments), func(a, b lab.Environment) int { return cmp.Compare(a.Order, b.Order) }) {
		values, err := fs.Glob(r.est.FS, path.Join(lab.EnvironmentsDir, e.Name, lab.AddonsDir, "*", "values.yaml"))
		if err == nil && len(values) > 0 && e.Order > 0 {
			if r.estate.dir == "" { // a folder called like the lab is that lab's estate
				ideas = append(ideas, "lab init "+r.name+" && cd "+r.name+", edit "+values[0]+" and run lab up")
			} else {
				ideas = append(ideas, "edit "+r.toEdit(values[0])+" and run "+r.onEstate("lab up"))
			}
			break
		}
	}
	if stories, err := scenario.List(r.est.FS); err == nil && len(stories) > 0 {
		story := stories[0]
		if slices.Contains(stories, "drift") {
			story = "drift"
		}
		ideas = append(ideas, "play a story: "+r.onEstate("lab scenario run "+story))
	}
	return strings.Join(ideas, ", or ")
}

func addonNames(est *lab.Estate) []string {
	var names []string
	for _, a := range est.Addons {
		names = append(names, a.Name)
	}
	return names
}
