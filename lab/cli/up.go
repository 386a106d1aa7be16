package cli

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/apply"
	"homelab/lab/bundle"
	"homelab/lab/docker"
	"homelab/lab/doctor"
	"homelab/lab/estate"
	"homelab/lab/plan"
	"homelab/lab/scenario"
	"homelab/lab/state"
	"homelab/lab/ui"
	"homelab/lab/up"
)

// forgePort is the port on 127.0.0.1 that a lab's forge takes when it is free, and the next free one otherwise.
const forgePort = 3000

func (p *program) upCommand() *cli.Command {
	return &cli.Command{
		Name:  "up",
		Usage: "bring the lab up, or make it follow the estate",
		Description: "Looks at what there is, does what is missing, and ends when every application is in sync and healthy. A run that was ended, however\n" +
			"that happened, is gone on with by the next. Where nothing is to be done, nothing is touched.\n\n" +
			examples("lab up", "lab up --fix", "lab up --only dev,prod", "lab up --recreate dev", "lab up --prune", "lab up --from ready", "lab up --images bundle=lab.tar.zst", "lab up -o json"),
		Flags: []cli.Flag{
			nameFlag, estateFlag, outputFlag, imagesFlag, mirrorFlag,
			&cli.StringSliceFlag{Name: "only", Usage: "the hub and these `CLUSTERS` alone; others are left as they are"},
			&cli.BoolFlag{Name: "fix", Usage: "as root on Linux, first cure what lab doctor finds wrong with this machine"},
			&cli.StringSliceFlag{Name: "recreate", Usage: "remove these `CLUSTERS` and make them again; what runs in them is lost"},
			&cli.BoolFlag{Name: "strict", Usage: "fail where something that the estate needs cannot be had here, rather than leave it out"},
			&cli.BoolFlag{Name: "prune", Usage: "remove the clusters that left the estate; what runs in them is lost"},
			&cli.BoolFlag{Name: "builtin", Usage: "take the built-in estate, whatever the working folder holds"},
			&cli.BoolFlag{Name: "adopt", Usage: "the lab follows this estate from now on, though it was made from another folder"},
			&cli.StringFlag{Name: "from", Usage: "begin with the `SNAPSHOT` of a lab that is down, rather than with nothing"},
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
			if err := s.hasEstate(); err != nil {
				return err
			}
			if !c.Bool("adopt") {
				if err := s.ours(); err != nil {
					return err
				}
			}
			if err := s.openForge(docker.New(), state.Credentials{}).Settled(s.files()); err != nil { // else the estate would be called invalid
				return err
			}
			if s.supply, err = s.openSupply(c.Context, docker.New(), c); err != nil {
				return err
			}
			est, err := s.load(s.limits()...)
			if err != nil {
				return err
			}
			if s.leftOut, err = leaveOut(c.Context, est, c.Bool("strict")); err != nil {
				return err
			}
			o, err := upOptions(c, est)
			if err != nil {
				return err
			}
			if c.Bool("dry-run") {
				return s.dryRun(c.Context, est, o)
			}
			return s.locked(c.Context, func(ctx context.Context) error { return s.up(ctx, c, est, o) })
		},
	}
}

// upOptions are the options that flags say.
func upOptions(c *cli.Context, est *lab.Estate) (up.Options, error) {
	o := up.Options{From: c.String("from"), Others: c.IsSet("only"), Prune: c.Bool("prune"), Recreate: c.StringSlice("recreate"), Timeout: c.Duration("timeout")}
	if err := known(est, "recreate", o.Recreate); err != nil {
		return o, err
	}
	if c.Bool("dry-run") && c.IsSet("from") {
		return o, &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: "what lab up --from would do is known once the snapshot is there", Cure: "leave --dry-run out"}
	}
	if o.Others && o.Prune {
		return o, &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: "--only leaves other clusters as they are, and --prune does not", Cure: "one of them"}
	}
	if !o.Others {
		return o, nil
	}
	only := c.StringSlice("only")
	if err := known(est, "only", only); err != nil {
		return o, err
	}
	for _, cl := range est.Clusters { // the hub too, without which the others are not managed
		if cl.Role == lab.RoleHub || slices.Contains(only, cl.Name) {
			o.Clusters = append(o.Clusters, cl)
		}
	}
	return o, nil
}

// known refuses names of clusters that the estate has not.
func known(est *lab.Estate, flag string, names []string) error {
	for _, name := range names {
		if _, ok := est.Cluster(name); !ok {
			return &lab.Error{
				Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("--%s: the estate has no cluster %q", flag, name),
				Cure: "there are: " + strings.Join(clusterNames(est.Clusters), ", "),
			}
		}
	}
	return nil
}

// limits are what an estate can have where images come from.
func (s *session) limits() []estate.Option {
	options := []estate.Option{estate.WithCharts(s.suppliable)}
	if s.supply.Origin() != lab.OriginRegistry {
		options = append(options, estate.WithoutLoadBalancer())
	}
	return options
}

// leaveOut marks what of the estate needs something that cannot be had here; strict refuses it.
func leaveOut(ctx context.Context, est *lab.Estate, strict bool) (lab.Problems, error) {
	problems := estate.LeaveOut(est, bundle.Unreachable(ctx, estate.Others(est)))
	if !strict || len(problems) == 0 {
		return problems, nil
	}
	return nil, &lab.Error{Exit: lab.ExitInvalid, Code: "unavailable", Message: "the estate needs what cannot be had here, nothing was touched", Problems: problems}
}

// suppliable reports whether a chart of the estate can be had; one from a repository that is not lab's is the engine's to fetch.
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

// remember writes down where the lab is from and which ports it has. Those of a lab whose record was lost are found again in its containers.
func (w *world) remember(ctx context.Context, images string) error {
	r := w.record
	r.Lab, r.Estate, r.Images = w.name, w.estate.dir, images
	if r.Ports == (state.Ports{}) {
		var err error
		if r.Ports, err = w.publishedPorts(ctx); err != nil {
			return err
		}
		if r.Ports.Forge == 0 {
			if r.Ports.Forge, err = state.FreePort(forgePort, takenPorts()...); err != nil {
				return err
			}
		}
		if r.Ports.Engine == 0 {
			if r.Ports.Engine, err = state.FreePort(w.Definition.Port, append(takenPorts(), r.Ports.Forge)...); err != nil {
				return err
			}
		}
	}
	if r == w.record {
		return nil
	}
	w.record, w.Ports = r, r.Ports
	return w.dir.Save(r)
}

// publishedPorts are those that the lab's containers were made with; 0 for one that is not there.
func (w *world) publishedPorts(ctx context.Context) (state.Ports, error) {
	var ports state.Ports
	list, err := w.docker.Containers(ctx, "network="+lab.NetworkName(w.name))
	if err != nil {
		return ports, err
	}
	for _, c := range list {
		for port, to := range map[string]*int{fmt.Sprintf("%d/tcp", w.Definition.NodePort): &ports.Engine, "3000/tcp": &ports.Forge} {
			_, at, ok := strings.Cut(c.Published[port], ":")
			if !ok || port == "3000/tcp" && c.Name != lab.ForgeName(w.name) {
				continue
			}
			if *to, err = strconv.Atoi(at); err != nil {
				return ports, fmt.Errorf("port of %s: %w", c.Name, err)
			}
		}
	}
	return ports, nil
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
				ports = append(ports, r.Ports.Engine, r.Ports.Forge)
			}
		}
	}
	return ports
}

func (s *session) up(ctx context.Context, c *cli.Context, est *lab.Estate, o up.Options) error {
	began := time.Now()
	if err := s.setAside(); err != nil {
		return err
	}
	w, report, err := s.prepare(ctx, est, c.Bool("fix"))
	if err != nil {
		return err
	}
	o.Preflight = report.Summary()
	if w, err = w.began(ctx, o.From, report.Traits); err != nil {
		return err
	}
	if err := w.remember(ctx, c.String("images")); err != nil {
		return err
	}
	for _, p := range est.Notes {
		w.ui.Say("note: " + p.String())
	}
	for _, p := range s.leftOut {
		w.ui.Say("left out: " + p.String())
	}
	return w.converge(ctx, o, began)
}

// converge makes the lab follow the estate.
func (w *world) converge(ctx context.Context, o up.Options, began time.Time) error {
	seen, err := w.Observe(ctx, o)
	if err != nil {
		return err
	}
	w.mourn(seen)
	if err := w.Remember(ctx, seen); err != nil {
		return err
	}
	steps, err := w.agree(ctx, &o, seen)
	if err != nil {
		return err
	}
	clusters := w.Estate.Clusters
	if o.Others {
		clusters = o.Clusters
	}
	if !plan.Changes(steps) {
		w.ui.UpToDate(w.name, len(clusters), len(seen.Applications), time.Since(began))
		return w.upResult(nil, time.Since(began), nil)
	}
	if w.estate.dir == "" && w.record.Estate == "" {
		w.ui.Say("the estate is the built-in one; lab init DIR writes it to a folder")
	}
	if len(seen.Missing) > 0 {
		w.ui.Say(w.supply.Why())
	}
	w.ui.Begin(w.header(clusters), steps)
	result, err := w.Apply(ctx, o, seen, steps, w.ui.Event)
	w.ui.End()
	if err != nil {
		return err
	}
	if w.record.Engine == "" {
		w.record.Engine = w.Definition.Type
		if err := w.dir.Save(w.record); err != nil {
			return err
		}
	}
	if err := w.summary(ctx, steps, result, time.Since(began)); err != nil {
		return err
	}
	return w.upResult(changedTitles(steps, result), time.Since(began), result.Steps)
}

// dryRun prints the plan.
func (s *session) dryRun(ctx context.Context, est *lab.Estate, o up.Options) error {
	if s.garbled != nil {
		return s.garbled
	}
	w, report, err := s.prepare(ctx, est, false)
	if err != nil {
		return err
	}
	o.Preflight = report.Summary()
	if name := w.dir.Restoring(); name != "" {
		w.ui.Say("lab up first goes on with the restore of snapshot " + name + ", which did not end")
	}
	seen, err := w.Observe(ctx, o)
	if err != nil {
		return err
	}
	w.mourn(seen)
	steps := w.Plan(ctx, o, seen)
	if s.ui.WantsJSON() {
		return s.ui.JSON(ui.NewPlanResult(s.name, steps))
	}
	s.ui.Raw(plan.String(steps))
	return nil
}

// header is the first line of a run: "lab homelab · ENGINE · 4 clusters · images from the registry".
func (w *world) header(clusters []lab.Cluster) string {
	n := "1 cluster"
	if len(clusters) != 1 {
		n = fmt.Sprintf("%d clusters", len(clusters))
	}
	return fmt.Sprintf("lab %s · %s · %s · %s", w.name, w.Definition.Type, n, origins[w.supply.Origin()])
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
func (w *world) summary(ctx context.Context, steps []lab.Step, result apply.Result, took time.Duration) error {
	if w.ui.WantsJSON() {
		return nil
	}
	st, err := w.Status(ctx)
	if err != nil {
		return err
	}
	times := map[string]time.Duration{}
	for i, s := range result.Steps {
		times[steps[i].ID] = time.Duration(s.Seconds * float64(time.Second))
	}
	w.ui.Summary(ui.Summary{
		Lab: w.name, Took: took, Longest: ui.LongestWay(steps, times), Clusters: ui.StatusClusters(st.Clusters), Applications: st.Applications, Addons: addonNames(w.Estate),
		Endpoints: []ui.Entry{
			{Name: w.Definition.Title, Text: w.EngineURL(), Note: "user " + w.Creds.EngineUser + ", password: " + w.command("lab creds "+string(w.Definition.Type))},
			{Name: "forge", Text: w.forgeURL(), Note: "user " + w.Creds.ForgeUser + ", password: " + w.command("lab creds forge")},
			{Name: "kubectl", Text: "export KUBECONFIG=$(" + w.command("lab kubeconfig") + ")"},
		},
		Next: w.next(),
	})
	return nil
}

// next is what a user may want to try on this estate: a layer of values to edit, a story to play.
func (w *world) next() string {
	var ideas []string
	for _, e := range slices.SortedFunc(slices.Values(w.Estate.Environments), func(a, b lab.Environment) int { return cmp.Compare(a.Order, b.Order) }) {
		values, err := fs.Glob(w.Estate.FS, path.Join(lab.EnvironmentsDir, e.Name, lab.AddonsDir, "*", "values.yaml"))
		if err == nil && len(values) > 0 && e.Order > 0 {
			if w.estate.dir == "" { // a folder called like the lab is that lab's estate
				ideas = append(ideas, "lab init "+w.name+" && cd "+w.name+", edit "+values[0]+" and run lab up")
			} else {
				ideas = append(ideas, "edit "+w.toEdit(values[0])+" and run "+w.onEstate("lab up"))
			}
			break
		}
	}
	if stories, err := scenario.List(w.Estate.FS); err == nil && len(stories) > 0 {
		story := stories[0]
		if slices.Contains(stories, "drift") {
			story = "drift"
		}
		ideas = append(ideas, "play a story: "+w.onEstate("lab scenario run "+story))
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
