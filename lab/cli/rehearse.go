package cli

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/snapshot"
	"homelab/lab/ui"
	"homelab/lab/up"
	"homelab/lab/workspace"
)

func (p *program) rehearseCommand() *cli.Command {
	return &cli.Command{
		Name:  "rehearse",
		Usage: "try a change on the running lab, report what it does, and go back",
		Subcommands: []*cli.Command{{
			Name: "upgrade", Usage: "upgrade the engine, report what that changes, and restore the lab",
			Description: "Saves the running lab as a snapshot, brings it up with another version of the engine, or with other spec.engine.values, and reports applications\n" +
				"that are newly out of sync, objects that were replaced, deleted or orphaned, or are tracked in another way, and pods that restarted. Then it restores the\n" +
				"snapshot, and removes it. What else the estate's folder changes comes and goes with it. --check exits with 4 if something was reported.\n\n" +
				examples("lab rehearse upgrade --engine-version newest", "lab rehearse upgrade --engine-version 3.5 --check", "lab rehearse upgrade -o json"),
			Flags: []cli.Flag{
				nameFlag, estateFlag, outputFlag, versionFlag, imagesFlag, mirrorFlag, loseFlag,
				&cli.BoolFlag{Name: "check", Usage: "exit with 4 if the upgrade changes something"},
				&cli.BoolFlag{Name: "keep", Usage: "keep the snapshot, also after restoring it"},
				timeoutFlag,
			},
			Action: p.labAction(p.existing, argv.NoArgs, func(c *cli.Context, ws *workspace.Workspace) error {
				return p.up(c.Context, ws, upOptions{
					origin: originOf(c), lose: p.consent(c, ws, "lab rehearse upgrade"), run: up.Options{Survey: true, Timeout: c.Duration("timeout")},
					rehearsal: &rehearsal{check: c.Bool("check"), keep: c.Bool("keep")},
				})
			}),
		}},
	}
}

// rehearsal are the flags of lab rehearse upgrade alone.
type rehearsal struct{ check, keep bool }

// rehearse brings up the locked lab, reports what that changed, and restores it, also after a failure.
func (p *program) rehearse(ctx context.Context, ws *workspace.Workspace, with parts, o upOptions) error {
	if i := slices.IndexFunc(with.estate.Clusters, func(c lab.Cluster) bool { return c.Provider == lab.ProviderExisting }); i >= 0 {
		c := with.estate.Clusters[i]
		return &lab.Error{
			Exit: lab.ExitInvalid, Code: "not_in_snapshots", Message: "cluster " + c.Name + " is not in snapshots, as lab did not create it: the rehearsal could not be undone there",
			Cure: "use an estate without it (" + c.Position("spec.provider").String() + ")",
		}
	}
	began := time.Now()
	name := "rehearsal-" + began.Format("20060102-150405")
	back := lab.Quote("lab", "snapshot", "restore", name)
	if _, err := p.save(ctx, ws, name, false, up.Consent{}); err != nil {
		return err
	}
	_, out, failed := p.bringUp(ctx, ws, with, o)
	if ctx.Err() != nil {
		p.ui.Println("interrupted during the rehearsal; " + ws.OnEstate(back) + " goes back")
		return errors.Join(failed, ctx.Err())
	}
	if !out.Idle || failed != nil {
		p.ui.Println("restoring snapshot " + name)
		ws.ForgetVersion()
		o.lose.By = ws.OnEstate(back) + " --lose-commits"
		if _, _, err := p.restoreAndWait(ctx, ws, with.supply, restoreOptions{name: name, origin: o.origin, timeout: o.run.Timeout, lose: o.lose}); err != nil {
			p.ui.Println("not restored; " + ws.OnEstate(back) + " tries again")
			return errors.Join(failed, err)
		}
	}
	if !o.rehearsal.keep {
		l, err := p.assembleToLose(ws)
		if err == nil {
			err = snapshot.New(ws.Name, l.docker).Remove(ctx, name)
		}
		if err != nil {
			return errors.Join(failed, err)
		}
		name = ""
	}
	if failed != nil {
		return failed
	}
	if err := p.ui.Rehearsed(ui.RehearseResult{Lab: ws.Name, Seconds: ui.Seconds(time.Since(began)), Snapshot: name, Upgrade: upgradeOf(out.Upgrade)}, out.Idle); err != nil {
		return err
	}
	if o.rehearsal.check && out.Upgrade.Changes() {
		return exitError{lab.ExitUnmet}
	}
	return nil
}
