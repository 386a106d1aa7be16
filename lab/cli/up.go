package cli

import (
	"context"
	"time"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/docker"
	"homelab/lab/doctor"
	"homelab/lab/needs"
	"homelab/lab/plan"
	"homelab/lab/snapshot"
	"homelab/lab/state"
	"homelab/lab/ui"
	"homelab/lab/up"
	"homelab/lab/workspace"
)

var timeoutFlag = &cli.DurationFlag{Name: "timeout", Usage: "`TIME` in which something must move until the applications have converged; five times that is the limit", Value: 5 * time.Minute}

func (p *program) upCommand() *cli.Command {
	return &cli.Command{
		Name:  "up",
		Usage: "bring the lab up, or make it follow the estate",
		Description: "Compares the lab with the estate, applies the difference, and returns once every application is in sync and healthy. An interrupted\n" +
			"run is resumed by the next. If there is nothing to do, nothing is touched.\n\n" +
			examples("lab up", "lab up --fix", "lab up --engine flux", "lab up --engine flux --switch-engine", "lab up --engine-version 3.5", "lab up --only dev,prod", "lab up --recreate dev", "lab up --prune", "lab up --from ready", "lab up --images bundle=lab.tar.zst", "lab up -o json"),
		Flags: []cli.Flag{
			nameFlag, estateFlag, outputFlag, engineFlag, versionFlag, imagesFlag, mirrorFlag,
			&cli.StringSliceFlag{Name: "only", Usage: "only the hub and these `CLUSTERS`; leave the others alone"},
			&cli.BoolFlag{Name: "fix", Usage: "first fix what lab doctor finds wrong with this machine; needs root on Linux"},
			&cli.StringSliceFlag{Name: "recreate", Usage: "delete and recreate these `CLUSTERS`; what runs in them is lost"},
			&cli.BoolFlag{Name: "strict", Usage: "fail if lab would leave out something, as what it needs is unavailable here or nothing provides it"},
			&cli.BoolFlag{Name: "prune", Usage: "delete clusters that left the estate; what runs in them is lost"},
			&cli.BoolFlag{Name: "switch-engine", Usage: "replace the lab's engine; the objects that it applied stay"},
			&cli.BoolFlag{Name: "builtin", Usage: "use the built-in estate instead of the working folder"},
			&cli.BoolFlag{Name: "adopt", Usage: "follow this estate from now on, though the lab was created from another folder"},
			&cli.StringFlag{Name: "from", Usage: "restore the `SNAPSHOT` of a lab that is down, instead of starting from scratch"},
			&cli.StringFlag{Name: "save", Usage: "first save the running lab as `SNAPSHOT`, which lab snapshot restore goes back to"},
			&cli.BoolFlag{Name: loseFlag.Name, Usage: "with --from, " + loseFlag.Usage},
			&cli.BoolFlag{Name: "lose-data", Usage: "let the engine delete namespaces, volumes and definitions that leave the estate, with their contents"},
			&cli.BoolFlag{Name: "trust", Usage: "trust the estate with all access outside of the lab that it needs, without asking"},
			&cli.BoolFlag{Name: "dry-run", Usage: "print the plan and do nothing"},
			timeoutFlag,
		},
		Action: p.labAction(p.open, argv.NoArgs, func(c *cli.Context, ws *workspace.Workspace) error {
			return p.up(c.Context, ws, upOptions{
				origin: originOf(c), adopt: c.Bool("adopt"), trust: c.Bool("trust"), fix: c.Bool("fix"), strict: c.Bool("strict"), dryRun: c.Bool("dry-run"), some: c.IsSet("only"), only: c.StringSlice("only"),
				lose: p.consent(c, ws, "lab up --from "+lab.Quote(c.String("from"))),
				save: c.String("save"), saves: c.IsSet("save"), began: c.IsSet("from"), run: up.Options{
					From: c.String("from"), Switch: c.Bool("switch-engine"), Others: c.IsSet("only"), Prune: c.Bool("prune"), Recreate: c.StringSlice("recreate"), Timeout: c.Duration("timeout"),
					Deleting: up.Deleting{Given: c.Bool("lose-data")},
				},
			})
		}),
	}
}

// upOptions are the flags of lab up.
type upOptions struct {
	origin                     origin
	adopt, fix, strict, dryRun bool
	trust                      bool
	rehearsal                  *rehearsal
	some, began                bool // --only and --from were given, even if empty
	only                       []string
	save                       string
	saves                      bool // --save was given, even if empty
	run                        up.Options
	lose                       up.Consent // with --from
}

func (p *program) up(ctx context.Context, ws *workspace.Workspace, o upOptions) error {
	if err := ws.HasEstate(); err != nil {
		return err
	}
	if err := ws.Ours(); err != nil && !o.adopt {
		return err
	}
	if err := forgeOf(ws, docker.New(), state.Credentials{}).Settled(workingTree(ws)); err != nil { // before the estate is reported as invalid
		return err
	}
	s, err := openSupply(ctx, o.origin)
	if err != nil {
		return err
	}
	est, err := ws.Load(supplied(ctx, s)...)
	if err != nil {
		return err
	}
	if err := o.check(est); err != nil {
		return err
	}
	with := parts{estate: est, supply: s}
	if with.open, err = p.openIn(ws); err != nil {
		return err
	}
	if err := with.choose(ctx); err != nil {
		return err
	}
	if !o.dryRun {
		if err := p.agree(ctx, ws, est, o.trust); err != nil {
			return err
		}
	}
	gone, err := unavailable(ctx, ws, est)
	if err != nil {
		return err
	}
	if err := needs.Refuse(est, needs.Mark(est, gone)); o.strict && err != nil {
		return err
	}
	if o.dryRun {
		return p.dryRun(ctx, ws, with, o)
	}
	if err := p.acceptBundle(ctx, o.origin); err != nil {
		return err
	}
	return ws.Locked(ctx, func(ctx context.Context) error {
		if o.rehearsal != nil {
			return p.rehearse(ctx, ws, with, o)
		}
		began := time.Now()
		l, out, err := p.bringUp(ctx, ws, with, o)
		if err != nil {
			return err
		}
		return p.showOutcome(ctx, l, out, began)
	})
}

// check reports flags that exclude each other, and determines the clusters of the run.
func (o *upOptions) check(est *lab.Estate) error {
	if err := up.Recreatable(est, o.run.Recreate); err != nil {
		return err
	}
	if o.dryRun && o.began {
		return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: "the plan of lab up --from is known only after the snapshot is restored", Cure: "leave --dry-run out"}
	}
	if o.saves {
		if err := snapshot.CheckName(o.save); err != nil {
			return err
		}
	}
	if o.some && o.run.Prune {
		return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: "--only leaves other clusters as they are, and --prune does not", Cure: "one of them"}
	}
	if !o.some {
		return nil
	}
	return o.run.Only(est, o.only)
}

// bringUp prepares the machine, restores the requested snapshot, and reconciles the lab.
func (p *program) bringUp(ctx context.Context, ws *workspace.Workspace, with parts, o upOptions) (l *instance, out up.Outcome, err error) {
	if err := ws.SetAside(p.ui.Println); err != nil {
		return nil, out, err
	}
	if l, err = p.prepare(ctx, ws, with, &o); err != nil {
		return nil, out, err
	}
	if l, err = p.resume(ctx, l, o.run.From, o.lose); err != nil {
		return nil, out, err
	}
	if o.saves && ws.Dir.Exists() {
		if _, err := p.save(ctx, ws, o.save, false, up.Consent{}); err != nil {
			return nil, out, err
		}
	}
	is := ws.Record
	own := up.EngineOf(is, l.core.Estate)
	is.Lab, is.Estate, is.Images, is.Namespace, is.Shape, is.Asked = ws.Name, ws.Estate.Dir, o.origin.images, own.Namespace, own.Shape, ws.Engine
	if is.Version = ""; ws.Version.Of == "" || ws.Version.Of == own.Type {
		is.Version = ws.Version.Version
	}
	if ws.Record, err = l.core.Settle(ctx, ws.Record, is, o.run); err != nil {
		return nil, out, err
	}
	if err := l.renew(); err != nil {
		return nil, out, err
	}
	o.run.Deleting.By = ws.OnEstate("lab up --lose-data")
	o.run.Deleting.Foresee = func(ctx context.Context) ([]string, string) { return p.deletes(ctx, l, o) }
	out, err = p.follow(ctx, l, o.run)
	return l, out, err
}

// prepare runs the machine checks, which have no side effects, and assembles the lab for the machine.
func (p *program) prepare(ctx context.Context, ws *workspace.Workspace, with parts, o *upOptions) (*instance, error) {
	scope := with.estate.Clusters
	if o.run.Others {
		scope = o.run.Clusters
	}
	report, err := doctor.New(doctorOptions(with.builds(), ws, with.estate, scope)).Examine(ctx, o.fix, p.ui.Println)
	if err != nil {
		return nil, err
	}
	if err := report.Err(); err != nil {
		return nil, err
	}
	notes, err := with.notes(time.Now())
	if err != nil {
		return nil, err
	}
	for _, note := range with.estate.Notes {
		notes = append(notes, note.String())
	}
	for _, note := range notes {
		p.ui.Println("note: " + note)
	}
	with.traits, o.run.Preflight = report.Traits, report.Summary()
	return assemble(ws, with)
}

// dryRun prints the plan.
func (p *program) dryRun(ctx context.Context, ws *workspace.Workspace, with parts, o upOptions) error {
	if err := ws.Readable(); err != nil {
		return err
	}
	o.fix = false
	lacking, err := untrusted(ws, with.estate)
	if err != nil {
		return err
	}
	if !p.ui.WantsJSON() {
		for _, line := range lines(lacking) {
			p.ui.Println("not trusted yet: " + line)
		}
	}
	l, err := p.prepare(ctx, ws, with, &o)
	if err != nil {
		return err
	}
	if name := ws.Dir.Restoring(); name != "" {
		p.ui.Println("lab up first resumes the interrupted restore of snapshot " + name)
	}
	seen, err := l.core.Observe(ctx, o.run)
	if err != nil {
		return err
	}
	if err := l.core.Unasked(o.run, seen); err != nil {
		return err
	}
	if err := l.core.Contested(seen); err != nil {
		return err
	}
	for _, line := range seen.ContestsUnknown() {
		p.ui.Println(line)
	}
	for _, line := range seen.Losses() {
		p.ui.Println(line)
	}
	steps := l.core.Plan(ctx, o.run, seen)
	for _, line := range l.core.Warnings(seen, steps) {
		p.ui.Println(line)
	}
	asks := ui.Asks{Untrusted: things(lacking), Open: with.open}
	if seen.Forge.Answers && len(seen.Estate) > 0 {
		p.ui.Println("reading what the engine has from the forge")
		asks.Effects, asks.EffectsUnknown = p.foreseen(ctx, l, o.origin, true)
	}
	return p.ui.Plan(ws.Name, steps, l.core.Estate.Applications, ui.OnlyInForge{}, plan.String(steps), asks)
}
