package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/estate"
	"homelab/lab/forge"
	"homelab/lab/promote"
	"homelab/lab/ui"
	"homelab/lab/workspace"
)

func (p *program) promoteCommand() *cli.Command {
	return &cli.Command{
		Name:      "promote",
		Usage:     "promote an addon's version to a later environment",
		ArgsUsage: "ADDON...",
		Description: "Changes the later environment's pin in the estate's files, for Argo CD and for Flux if it has both, and nothing else: comments and layout stay.\n" +
			"Prints the change as a diff. With --push it is committed to the forge immediately, otherwise by the next lab up.\n" +
			"With --pr, a pull request for the forge's main is opened instead, for one addon or several: its body has what the engine will have, and a commit status what the gate says, " +
			"whether the earlier environment runs the version in sync and healthy. The working tree stays; again, the open pull request is brought up to date.\n\n" +
			examples("lab promote podinfo --from dev --to staging --dry-run", "lab promote podinfo --from dev --to staging --push", "lab promote podinfo --from dev --to staging --pr"),
		Flags: []cli.Flag{
			nameFlag, estateFlag, outputFlag,
			&cli.StringFlag{Name: "from", Usage: "`ENV` to take the version from"},
			&cli.StringFlag{Name: "to", Usage: "`ENV` to promote it to; must be a later one"},
			&cli.BoolFlag{Name: "dry-run", Usage: "print the change and make none"},
			&cli.BoolFlag{Name: "push", Usage: "commit the estate to the forge"},
			&cli.BoolFlag{Name: "pr", Usage: "open a pull request"},
		},
		Action: p.labAction(p.open, argv.AnyArgs, func(c *cli.Context, ws *workspace.Workspace) error {
			o := promoteOptions{addons: c.Args().Slice(), from: c.String("from"), to: c.String("to"), dry: c.Bool("dry-run"), push: c.Bool("push"), request: c.Bool("pr")}
			if err := o.check(); err != nil {
				return err
			}
			if o.request {
				return p.promoteByRequest(c.Context, ws, o)
			}
			return p.promote(c.Context, ws, o)
		}),
	}
}

// promoteOptions are the flags of lab promote.
type promoteOptions struct {
	addons             []string
	from, to           string
	dry, push, request bool
}

func (p *program) promote(ctx context.Context, ws *workspace.Workspace, o promoteOptions) error {
	est, err := ws.Load(estate.EveryEngine())
	if err != nil {
		return err
	}
	plan, err := promote.Plan(est, o.addons[0], o.from, o.to)
	if err != nil {
		return err
	}
	res := promoteResult(plan)
	if !p.ui.WantsJSON() {
		p.ui.Promotion(res, plan.Summary()+healthAtSource(ctx, ws, est, plan))
	}
	if o.dry || !plan.Changes() && !o.push { // a pin that was written before may not be pushed
		return p.ui.Promoted(res, ws.OnEstate("lab up"))
	}
	if err := ws.Editable(); err != nil {
		return err
	}
	if err := ws.Ours(); o.push && err != nil {
		return err
	}
	if o.push && !ws.Dir.Exists() {
		return &lab.Error{Exit: lab.ExitFailed, Code: "no_lab", Message: fmt.Sprintf("no lab %q to push to, nothing was changed", ws.Name), Cure: "lab up creates it; without --push the file alone is changed"}
	}
	var pushed forge.PushResult
	if !o.push {
		err = plan.Write(est.Dir)
	} else {
		pushed, err = pushPromotion(ctx, ws, plan)
	}
	if err != nil {
		return err
	}
	res.Written, res.Commit = plan.Changes(), pushed.Commit
	if o.push && !pushed.Pushed && !p.ui.WantsJSON() {
		return p.ui.Pushed(ui.PushResult{Commit: pushed.Commit}, "")
	}
	return p.ui.Promoted(res, ws.OnEstate("lab up"))
}

// healthAtSource describes the health of the version at its source, or returns "" if the lab is unavailable. It does not affect the files.
func healthAtSource(ctx context.Context, ws *workspace.Workspace, est *lab.Estate, plan promote.Promotion) string {
	if !ws.Dir.Exists() || !plan.Changes() {
		return ""
	}
	l, err := assemble(ws, parts{estate: est})
	if err != nil {
		return ""
	}
	apps, err := l.core.Applications(ctx)
	if err != nil {
		return ""
	}
	return plan.Evidence(est, apps)
}

// pushPromotion writes a promotion to the estate and pushes that to the forge.
func pushPromotion(ctx context.Context, ws *workspace.Workspace, plan promote.Promotion) (pushed forge.PushResult, err error) {
	err = ws.Locked(ctx, func(ctx context.Context) error {
		if err := plan.Write(ws.Estate.Dir); err != nil {
			return err
		}
		l, err := assembleWithEstate(ctx, ws)
		if err != nil {
			return err
		}
		pushed, err = l.gitea.Push(ctx, l.core.Tree(), plan.Message())
		return err
	})
	return pushed, err
}

// promoteResult converts a planned promotion.
func promoteResult(p promote.Promotion) ui.PromoteResult {
	return ui.PromoteResult{
		Addon: p.Addon, From: p.From, To: p.To, Was: p.Was, Version: p.Version, File: p.Edits[0].File, Files: slices.Sorted(maps.Keys(p.Changed())),
		Changed: p.Changes(), Diff: p.Diff(), Notes: p.Notes,
	}
}
