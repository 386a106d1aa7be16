package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/doctor"
	"homelab/lab/snapshot"
	"homelab/lab/ui"
	"homelab/lab/up"
)

func (p *program) snapshotCommand() *cli.Command {
	return &cli.Command{
		Name:  "snapshot",
		Usage: "put the whole lab aside, and bring it back as it was",
		Subcommands: []*cli.Command{
			{
				Name: "save", Usage: "put the lab aside: nodes, volumes, forge, credentials and state", ArgsUsage: "[SNAPSHOT]",
				Description: "The containers are frozen for a few seconds and go on. What never changes is shared with the lab, so that a snapshot takes little room. Without\n" +
					"a name it is called by its date and time. lab down keeps snapshots.\n\n" +
					examples("lab snapshot save", "lab snapshot save ready", "lab snapshot save ready --replace"),
				Flags:  []cli.Flag{nameFlag, estateFlag, outputFlag, &cli.BoolFlag{Name: "replace", Usage: "take the place of the snapshot of that name"}},
				Action: p.snapshotSave,
			},
			{
				Name: "ls", Usage: "list the lab's snapshots, newest first",
				Description: examples("lab snapshot ls", "lab snapshot ls -o json"),
				Flags:       []cli.Flag{nameFlag, estateFlag, outputFlag},
				Action:      p.snapshotList,
			},
			{
				Name: "restore", Usage: "bring the lab back as it was; what it is now is lost", ArgsUsage: "[SNAPSHOT]",
				Description: "Objects have the uids that they had, the forge its commits. The estate's folder is left as it is: lab up brings in what changed there since. Without a\n" +
					"name the newest is taken.\n\n" + examples("lab snapshot restore", "lab snapshot restore ready", "lab up --from ready"),
				Flags: []cli.Flag{
					nameFlag, estateFlag, outputFlag, imagesFlag, mirrorFlag,
					&cli.DurationFlag{Name: "timeout", Usage: "`TIME` for the applications to converge", Value: 5 * time.Minute},
				},
				Action: p.snapshotRestore,
			},
			{
				Name: "rm", Usage: "remove snapshots", ArgsUsage: "SNAPSHOT...",
				Description: examples("lab snapshot rm ready"),
				Flags:       []cli.Flag{nameFlag, estateFlag, outputFlag},
				Action:      p.snapshotRemove,
			},
		},
	}
}

// oneSnapshot is the name that a command line gives; empty where it gives none.
func oneSnapshot(c *cli.Context) (string, error) {
	if c.NArg() > 1 {
		return "", usageError(c, fmt.Errorf("%s takes one name", c.Command.HelpName), true)
	}
	return c.Args().First(), nil
}

func (p *program) snapshotSave(c *cli.Context) error {
	name, err := oneSnapshot(c)
	if err != nil {
		return err
	}
	s, err := p.existing(c)
	if err != nil {
		return err
	}
	if name == "" {
		name = time.Now().Format("20060102-150405")
	}
	if len(name) > maxName || !nameForm.MatchString(name) {
		return &lab.Error{
			Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("%q cannot be the name of a snapshot", name),
			Cure: fmt.Sprintf("use at most %d of a-z, 0-9 and -, starting and ending with a letter or digit", maxName),
		}
	}
	return s.locked(c.Context, func(ctx context.Context) error {
		began := time.Now()
		w, err := s.engineWorld(ctx)
		if err != nil {
			return err
		}
		var saved snapshot.Snapshot
		err = s.ui.Narrate(func(tell lab.Progress) (err error) {
			saved, err = w.SaveSnapshot(ctx, name, c.Bool("replace"), tell)
			return err
		})
		if err != nil {
			return err
		}
		took := time.Since(began)
		if s.ui.WantsJSON() {
			return s.ui.JSON(ui.SnapshotSaveResult{Lab: s.name, Snapshot: snapshotRow(saved), Seconds: ui.Seconds(took)})
		}
		s.ui.Print(fmt.Sprintf("snapshot %s of lab %s: %s, %s   %s", name, s.name, clusterCount(len(saved.Clusters)), ui.Size(saved.Bytes), ui.Duration(took)))
		s.ui.Say("next: " + s.command("lab snapshot restore "+name))
		return nil
	})
}

// engineWorld is the lab without its estate, on a container engine that answers.
func (s *session) engineWorld(ctx context.Context) (*world, error) {
	w, err := s.openWorld(nil, doctor.Traits{})
	if err != nil {
		return nil, err
	}
	return w, answers(ctx, w.docker)
}

// onEngine is open for a command about a lab that may be down, on a container engine that answers.
func (p *program) onEngine(c *cli.Context) (*session, *docker.Docker, error) {
	s, err := p.open(c)
	if err != nil {
		return nil, nil, err
	}
	d := docker.New()
	return s, d, answers(c.Context, d)
}

func answers(ctx context.Context, d *docker.Docker) error {
	if _, err := d.Info(ctx); err != nil {
		return &lab.Error{Exit: lab.ExitFailed, Code: "no_engine", Message: "the docker engine does not answer", Cure: "lab doctor tells why", Err: err}
	}
	return nil
}

func snapshotRow(o snapshot.Snapshot) ui.Snapshot {
	return ui.Snapshot{Name: o.Name, Taken: o.Taken.Format(time.RFC3339), Clusters: slices.Sorted(maps.Keys(o.Clusters)), Bytes: o.Bytes}
}

func clusterCount(n int) string {
	if n == 1 {
		return "1 cluster"
	}
	return fmt.Sprintf("%d clusters", n)
}

func (p *program) snapshotList(c *cli.Context) error {
	if err := noArgs(c); err != nil {
		return err
	}
	s, d, err := p.onEngine(c)
	if err != nil {
		return err
	}
	list, err := snapshot.New(s.name, d).List(c.Context)
	if err != nil {
		return err
	}
	if s.ui.WantsJSON() {
		res := ui.SnapshotListResult{Lab: s.name}
		for _, o := range list {
			res.Snapshots = append(res.Snapshots, snapshotRow(o))
		}
		return s.ui.JSON(res)
	}
	if len(list) == 0 {
		s.ui.Print("lab " + s.name + " has no snapshot: " + s.command("lab snapshot save") + " makes one")
		return nil
	}
	t := ui.Table{Head: []string{"SNAPSHOT", "TAKEN", "SIZE", "CLUSTERS"}, Right: []int{2}}
	for _, o := range list {
		t.Rows = append(t.Rows, []string{o.Name, o.Taken.Local().Format("2006-01-02 15:04"), ui.Size(o.Bytes), strings.Join(slices.Sorted(maps.Keys(o.Clusters)), ", ")})
	}
	s.ui.Table(t)
	return nil
}

func (p *program) snapshotRemove(c *cli.Context) error {
	names := c.Args().Slice()
	if len(names) == 0 {
		return usageError(c, fmt.Errorf("%s takes the names of snapshots", c.Command.HelpName), true)
	}
	s, d, err := p.onEngine(c)
	if err != nil {
		return err
	}
	list := snapshot.New(s.name, d)
	for _, name := range names { // all problems before anything is removed
		if _, err := list.Find(c.Context, name); err != nil {
			return err
		}
		if name == s.dir.Restoring() {
			return &lab.Error{
				Exit: lab.ExitFailed, Code: "restoring", Message: "a restore of snapshot " + name + " has not ended: without it the lab is lost",
				Cure: s.command("lab up") + " goes on with it",
			}
		}
	}
	return s.held(c.Context, func(ctx context.Context) error {
		if err := list.Remove(ctx, names...); err != nil {
			return err
		}
		if s.ui.WantsJSON() {
			return s.ui.JSON(ui.SnapshotRemoveResult{Lab: s.name, Removed: names})
		}
		s.ui.Print("removed: " + strings.Join(names, ", "))
		return nil
	})
}

// held is locked for a command that a lab which is down may be the object of: the folder that the lock needs goes again.
func (s *session) held(ctx context.Context, do func(context.Context) error) error {
	if s.dir.Exists() {
		return s.locked(ctx, do)
	}
	return s.locked(ctx, func(ctx context.Context) error {
		err := do(ctx)
		if !s.dir.Exists() && s.dir.Restoring() == "" {
			_ = s.dir.Remove() // what is left there holds nothing
		}
		return err
	})
}

func (p *program) snapshotRestore(c *cli.Context) error {
	name, err := oneSnapshot(c)
	if err != nil {
		return err
	}
	s, d, err := p.onEngine(c)
	if err != nil {
		return err
	}
	if err := s.hasSnapshot(c.Context, d, name); err != nil {
		return err
	}
	if s.supply, err = s.openSupply(c.Context, d, c); err != nil {
		return err
	}
	return s.held(c.Context, func(ctx context.Context) error { return s.restored(ctx, name, c.Duration("timeout")) })
}

// hasSnapshot refuses a name that no snapshot has, before anything is made for it.
func (s *session) hasSnapshot(ctx context.Context, d *docker.Docker, name string) error {
	list := snapshot.New(s.name, d)
	names, err := list.Names(ctx)
	if err != nil || slices.Contains(names, name) || name == "" && len(names) > 0 {
		return err
	}
	_, err = list.Find(ctx, name)
	return err
}

// restored brings a snapshot back, and waits until all is as it was, by the estate that the forge holds.
func (s *session) restored(ctx context.Context, name string, timeout time.Duration) error {
	began := time.Now()
	if err := s.setAside(); err != nil {
		return err
	}
	w, err := s.engineWorld(ctx)
	if err != nil {
		return err
	}
	o, err := w.restore(ctx, name)
	if err != nil {
		return err
	}
	if w, err = s.openWorld(nil, doctor.Traits{}); err != nil {
		return err
	}
	files, err := w.gitea.Estate(ctx)
	if err != nil {
		return err
	}
	asItWas := *s
	if files != nil {
		asItWas.estate, asItWas.doubt, asItWas.builtin = estateFiles{fsys: files, name: s.estate.name}, "", true
	}
	est, err := asItWas.load(s.limits()...)
	if err != nil {
		return err
	}
	options := up.Options{Timeout: timeout}
	for _, cl := range est.Clusters {
		if _, ok := o.Clusters[cl.Name]; ok {
			options.Clusters = append(options.Clusters, cl)
		} else {
			options.Others = true
		}
	}
	if w, err = s.openWorld(est, doctor.Traits{}); err != nil {
		return err
	}
	if err := w.converge(ctx, options, began); err != nil {
		return err
	}
	return w.edited(ctx)
}

// restore puts a snapshot in the place of the lab. The session's record is the snapshot's afterwards.
func (w *world) restore(ctx context.Context, name string) (o snapshot.Snapshot, err error) {
	err = w.ui.Narrate(func(tell lab.Progress) (err error) {
		o, err = w.Restore(ctx, name, tell)
		return err
	})
	if err != nil {
		return o, err
	}
	w.session.record, err = w.dir.Load()
	return o, err
}

// edited says where the estate's folder is not as the forge has it.
func (w *world) edited(ctx context.Context) error {
	if w.estate.dir == "" || w.doubt != "" {
		return nil
	}
	paths, err := w.gitea.Diff(ctx, w.files())
	if err != nil || len(paths) == 0 {
		return err
	}
	w.ui.Say("the estate's folder is not as the snapshot has it: " + up.Summary(paths) + "; " + w.onEstate("lab up") + " brings it in")
	return nil
}

// snapshots are the names of the lab's snapshots, newest first.
func (w *world) snapshots(ctx context.Context) ([]string, error) {
	list, err := w.Snapshots.List(ctx)
	var names []string
	for _, o := range list {
		names = append(names, o.Name)
	}
	return names, err
}

// began goes on with a restore that has not ended, or begins the one that was asked for, and returns the lab that it left.
func (w *world) began(ctx context.Context, from string, traits doctor.Traits) (*world, error) {
	pending := w.dir.Restoring()
	name := cmp.Or(from, pending)
	switch {
	case name == "":
		return w, nil
	case pending == "":
		if err := w.absent(ctx); err != nil {
			return nil, err
		}
	case pending == name:
		w.ui.Say("going on with the restore of snapshot " + name + ", which did not end")
	}
	if _, err := w.restore(ctx, name); err != nil {
		return nil, err
	}
	return w.openWorld(w.Estate, traits)
}

// absent refuses to put a snapshot in the place of a lab where nobody said that this may be lost.
func (w *world) absent(ctx context.Context) error {
	states, err := w.Clusters.Observe(ctx)
	if err != nil || len(states) == 0 {
		return err
	}
	return &lab.Error{
		Exit: lab.ExitInvalid, Code: "exists", Message: "lab " + w.name + " is there, nothing was touched",
		Cure: "to have a snapshot in its place: " + w.command("lab snapshot restore"),
	}
}
