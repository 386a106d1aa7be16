package cli

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/docker"
	"homelab/lab/snapshot"
	"homelab/lab/supply"
	"homelab/lab/ui"
	"homelab/lab/up"
	"homelab/lab/workspace"
)

func (p *program) snapshotCommand() *cli.Command {
	return &cli.Command{
		Name:  "snapshot",
		Usage: "save the whole lab, and restore it",
		Subcommands: []*cli.Command{
			{
				Name: "save", Usage: "save the lab: nodes, volumes, forge, credentials and state", ArgsUsage: "[SNAPSHOT]",
				Description: "The containers are paused for a few seconds. Immutable data is shared with the lab, so a snapshot takes little space. Without a name, it is\n" +
					"named after its date and time. lab down keeps snapshots. What others put into the forge and only a replaced snapshot has is lost only with a yes on the\n" +
					"terminal or --lose-commits.\n\n" +
					examples("lab snapshot save", "lab snapshot save ready", "lab snapshot save ready --replace"),
				Flags: []cli.Flag{nameFlag, estateFlag, outputFlag, &cli.BoolFlag{Name: "replace", Usage: "replace the snapshot of that name"}, loseFlag},
				Action: p.labAction(p.existing, argv.Count("one name", func(n int) bool { return n < 2 }), func(c *cli.Context, ws *workspace.Workspace) error {
					return p.snapshotSave(c.Context, ws, c.Args().First(), c.Bool("replace"), p.consent(c, ws, lab.Quote("lab", "snapshot", "save", c.Args().First())+" --replace"))
				}),
			},
			{
				Name: "ls", Usage: "list the lab's snapshots, newest first",
				Description: examples("lab snapshot ls", "lab snapshot ls -o json"),
				Flags:       []cli.Flag{nameFlag, estateFlag, outputFlag},
				Action: p.labAction(p.open, argv.NoArgs, func(c *cli.Context, ws *workspace.Workspace) error {
					return p.snapshotList(c.Context, ws)
				}),
			},
			{
				Name: "restore", Usage: "restore the lab; its present state is lost", ArgsUsage: "[SNAPSHOT]",
				Description: "Objects keep their uids, and the forge its commits. The estate's folder is left alone: lab up brings in what changed there since. Without a name, the\n" +
					"newest snapshot is restored. What exists only in the forge, and not in the snapshot, is listed, and lost only after confirmation on the terminal, or with --lose-commits.\n\n" + examples("lab snapshot restore", "lab snapshot restore ready", "lab up --from ready"),
				Flags: []cli.Flag{
					nameFlag, estateFlag, outputFlag, imagesFlag, mirrorFlag,
					loseFlag,
					timeoutFlag,
				},
				Action: p.labAction(p.open, argv.Count("one name", func(n int) bool { return n < 2 }), func(c *cli.Context, ws *workspace.Workspace) error {
					o := restoreOptions{name: c.Args().First(), origin: originOf(c), timeout: c.Duration("timeout")}
					o.lose = p.consent(c, ws, lab.Quote(append([]string{"lab", "snapshot", "restore"}, c.Args().Slice()...)...))
					return p.snapshotRestore(c.Context, ws, o)
				}),
			},
			{
				Name: "rm", Usage: "remove snapshots", ArgsUsage: "SNAPSHOT...",
				Description: "What others put into the forge, and only these snapshots have, is listed, and lost only after confirmation on the terminal, or with --lose-commits.\n\n" +
					examples("lab snapshot rm ready"),
				Flags: []cli.Flag{nameFlag, estateFlag, outputFlag, loseFlag},
				Action: p.labAction(p.open, argv.Count("the names of snapshots", func(n int) bool { return n > 0 }), func(c *cli.Context, ws *workspace.Workspace) error {
					return p.snapshotRemove(c.Context, ws, c.Args().Slice(), p.consent(c, ws, lab.Quote(append([]string{"lab", "snapshot", "rm"}, c.Args().Slice()...)...)))
				}),
			},
		},
	}
}

func (p *program) snapshotSave(ctx context.Context, ws *workspace.Workspace, name string, replace bool, lose up.Consent) error {
	if name == "" {
		name = time.Now().Format("20060102-150405")
	}
	if err := snapshot.CheckName(name); err != nil {
		return err
	}
	return ws.Locked(ctx, func(ctx context.Context) error {
		began := time.Now()
		saved, err := p.save(ctx, ws, name, replace, lose)
		if err != nil {
			return err
		}
		return p.ui.SnapshotSaved(ws.Name, snapshotInfo(saved.Snapshot), time.Since(began), ws.Command("lab snapshot restore "+lab.Quote(name)))
	})
}

// save saves a snapshot of the locked lab.
func (p *program) save(ctx context.Context, ws *workspace.Workspace, name string, replace bool, lose up.Consent) (saved up.Saved, err error) {
	l, err := p.assembleToLose(ws)
	if err == nil {
		err = l.docker.Answers(ctx)
	}
	if err != nil {
		return saved, err
	}
	err = p.ui.Narrate(func(progress lab.Progress) (err error) {
		if saved, err = l.core.SaveSnapshot(ctx, name, replace, lose, progress); err != nil {
			return err
		}
		return saved.Recovered(ctx, progress)
	})
	return saved, err
}

// shelf returns the snapshots of a lab, which may be down. The container engine must answer.
func shelf(ctx context.Context, ws *workspace.Workspace) (*snapshot.Snapshots, error) {
	d := docker.New()
	return snapshot.New(ws.Name, d), d.Answers(ctx)
}

func (p *program) snapshotList(ctx context.Context, ws *workspace.Workspace) error {
	kept, err := shelf(ctx, ws)
	if err != nil {
		return err
	}
	list, err := kept.List(ctx)
	if err != nil {
		return err
	}
	return p.ui.Snapshots(snapshotList(ws.Name, list), ws.Command("lab snapshot save"))
}

func (p *program) snapshotRemove(ctx context.Context, ws *workspace.Workspace, names []string, lose up.Consent) error {
	kept, err := shelf(ctx, ws)
	if err != nil {
		return err
	}
	if err := ws.Spare(names, func(name string) error { _, err := kept.Find(ctx, name); return err }); err != nil { // report all problems first
		return err
	}
	return ws.LockedOrDown(ctx, func(ctx context.Context) error {
		l, err := p.assembleToLose(ws)
		if err != nil {
			return err
		}
		if err := p.ui.Narrate(func(progress lab.Progress) error { return l.core.RemoveSnapshots(ctx, names, lose, progress) }); err != nil {
			return err
		}
		return p.ui.Result(ui.SnapshotRemoveResult{Lab: ws.Name, Removed: names}, "removed: "+strings.Join(names, ", "))
	})
}

// restoreOptions are the flags of a restore.
type restoreOptions struct {
	name    string // empty for the newest
	origin  origin
	timeout time.Duration
	lose    up.Consent
}

func (p *program) snapshotRestore(ctx context.Context, ws *workspace.Workspace, o restoreOptions) error {
	kept, err := shelf(ctx, ws)
	if err != nil {
		return err
	}
	if err := kept.Has(ctx, o.name); err != nil { // check first
		return err
	}
	s, err := openSupply(ctx, o.origin)
	if err != nil {
		return err
	}
	if err := p.acceptBundle(ctx, o.origin); err != nil {
		return err
	}
	return ws.LockedOrDown(ctx, func(ctx context.Context) error {
		began := time.Now()
		l, out, err := p.restoreAndWait(ctx, ws, s, o)
		if err != nil {
			return err
		}
		return errors.Join(p.showOutcome(ctx, l, out, began), p.reportDifferences(ctx, l))
	})
}

// restoreAndWait restores a snapshot and waits until the lab has converged to the estate in the forge.
func (p *program) restoreAndWait(ctx context.Context, ws *workspace.Workspace, s *supply.Supply, o restoreOptions) (l *instance, out up.Outcome, err error) {
	if err := ws.SetAside(p.ui.Println); err != nil {
		return nil, out, err
	}
	if l, err = p.assembleToLose(ws); err != nil {
		return nil, out, err
	}
	if err := l.docker.Answers(ctx); err != nil {
		return nil, out, err
	}
	was, err := p.restore(ctx, l, o.name, o.lose)
	if err != nil {
		return nil, out, err
	}
	if l, err = assemble(ws, parts{}); err != nil {
		return nil, out, err
	}
	files, err := l.gitea.Estate(ctx)
	if err != nil {
		return nil, out, err
	}
	with := parts{supply: s}
	if with.estate, err = ws.WithFiles(files).Load(supplied(ctx, s)...); err != nil {
		return nil, out, err
	}
	if err := with.choose(ctx); err != nil {
		return nil, out, err
	}
	options := up.Held(with.estate, was)
	options.Timeout = o.timeout
	if l, err = assemble(ws, with); err != nil {
		return nil, out, err
	}
	out, err = p.follow(ctx, l, options)
	return l, out, err
}

// restore replaces the lab with a snapshot, and reloads the lab's record.
func (p *program) restore(ctx context.Context, l *instance, name string, lose up.Consent) (o snapshot.Snapshot, err error) {
	err = p.ui.Narrate(func(progress lab.Progress) (err error) {
		o, err = l.core.Restore(ctx, name, lose, progress)
		return err
	})
	if err != nil {
		return o, err
	}
	return o, l.ws.Reload()
}

// resume resumes an unfinished restore, or begins the requested one, and returns the resulting lab.
func (p *program) resume(ctx context.Context, l *instance, from string, lose up.Consent) (*instance, error) {
	name, resumed, err := l.core.Pending(ctx, from, l.ws.Command("lab snapshot restore"))
	if err != nil || name == "" {
		return l, err
	}
	if resumed {
		p.ui.Println("resuming the interrupted restore of snapshot " + name)
	}
	asked, with := l.ws.Version, l.with
	if _, err := p.restore(ctx, l, name, lose); err != nil {
		return nil, err
	}
	if l.ws.Version != asked { // by the run that the snapshot is of
		if with, err = partsWith(ctx, l.ws, l.with.supply); err != nil {
			return nil, err
		}
		with.traits = l.with.traits
	}
	return assemble(l.ws, with)
}

// reportDifferences reports differences between the estate's folder and the forge.
func (p *program) reportDifferences(ctx context.Context, l *instance) error {
	if !l.ws.Followed() {
		return nil
	}
	paths, err := l.gitea.Diff(ctx, workingTree(l.ws))
	if err != nil || len(paths) == 0 {
		return err
	}
	p.ui.Println("the estate's folder differs from the snapshot: " + up.Summary(paths) + "; " + l.ws.OnEstate("lab up") + " brings it in")
	return nil
}

// snapshotInfo converts a complete snapshot.
func snapshotInfo(o snapshot.Snapshot) ui.Snapshot {
	s := ui.Snapshot{Name: o.Name, Clusters: slices.Sorted(maps.Keys(o.Clusters)), Bytes: o.Bytes, Pruned: o.Pruned, Unreadable: o.Unreadable}
	if !o.Taken.IsZero() {
		s.Taken = o.Taken.Format(time.RFC3339)
	}
	return s
}

// snapshotList lists a lab's snapshots.
func snapshotList(labName string, list []snapshot.Snapshot) ui.SnapshotListResult {
	res := ui.SnapshotListResult{Lab: labName}
	for _, o := range list {
		res.Snapshots = append(res.Snapshots, snapshotInfo(o))
	}
	return res
}
