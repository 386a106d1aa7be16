package cli

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/doctor"
	"homelab/lab/promote"
	"homelab/lab/ui"
	"homelab/lab/up"
)

func (p *program) promoteCommand() *cli.Command {
	return &cli.Command{
		Name:      "promote",
		Usage:     "carry an addon's version to a later environment",
		ArgsUsage: "ADDON",
		Description: "Changes the version that the later environment is pinned to in the estate's files, and nothing else in them: comments and layout stay.\n" +
			"Shows the change as a diff. With --push it is committed to the forge at once, else by the next lab up.\n\n" +
			examples("lab promote podinfo --from dev --to staging --dry-run", "lab promote podinfo --from dev --to staging --push"),
		Flags: []cli.Flag{
			nameFlag, estateFlag, outputFlag,
			&cli.StringFlag{Name: "from", Usage: "`ENV` that has the version"},
			&cli.StringFlag{Name: "to", Usage: "`ENV` that gets it; promotion goes upwards"},
			&cli.BoolFlag{Name: "dry-run", Usage: "show the change and make none"},
			&cli.BoolFlag{Name: "push", Usage: "commit the estate to the forge"},
		},
		Action: func(c *cli.Context) error {
			s, err := p.open(c)
			if err != nil {
				return err
			}
			if c.NArg() != 1 || c.String("from") == "" || c.String("to") == "" {
				return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: "lab promote takes an addon, --from and --to", Cure: "lab promote podinfo --from dev --to staging"}
			}
			est, err := s.load()
			if err != nil {
				return err
			}
			plan, err := promote.Plan(est, c.Args().First(), c.String("from"), c.String("to"))
			if err != nil {
				return err
			}
			return s.promote(c.Context, est, plan, c.Bool("dry-run"), c.Bool("push"))
		},
	}
}

func (s *session) promote(ctx context.Context, est *lab.Estate, plan promote.Promotion, dry, push bool) error {
	res := ui.PromoteResult{
		Addon: plan.Addon, From: plan.From, To: plan.To, Was: plan.Was, Version: plan.Version, File: plan.File, Changed: plan.Changes(), Diff: plan.Diff(),
	}
	if !s.ui.WantsJSON() {
		s.ui.Raw(res.Diff)
		if res.Diff != "" {
			s.ui.Print("")
		}
		s.ui.Print(plan.Summary() + s.standing(ctx, est, plan))
	}
	if dry || !plan.Changes() {
		return s.promoted(res)
	}
	if est.Dir == "" {
		return &lab.Error{Exit: lab.ExitFailed, Code: "embedded", Message: "the built-in estate cannot be changed", Cure: "lab init DIR writes it out"}
	}
	if push {
		if err := s.ours(); err != nil {
			return err
		}
	}
	if push && !s.dir.Exists() {
		return &lab.Error{Exit: lab.ExitFailed, Code: "no_lab", Message: fmt.Sprintf("there is no lab %q to push to, nothing was changed", s.name), Cure: "lab up makes it; without --push the file alone is changed"}
	}
	if err := plan.Write(est.Dir); err != nil {
		return err
	}
	res.Written = true
	if push {
		var err error
		if res.Commit, err = s.pushPromotion(ctx, plan); err != nil {
			return err
		}
	}
	return s.promoted(res)
}

func (s *session) promoted(res ui.PromoteResult) error {
	if s.ui.WantsJSON() {
		return s.ui.JSON(res)
	}
	switch {
	case res.Commit != "":
		s.ui.Print("pushed " + up.Abbreviate(res.Commit))
	case res.Written:
		s.ui.Print("next: " + s.onEstate("lab up"))
	}
	return nil
}

// standing says how the version does where it comes from, if the lab is up to tell: ", as dev runs it (healthy)".
func (s *session) standing(ctx context.Context, est *lab.Estate, plan promote.Promotion) string {
	if !s.dir.Exists() || !plan.Changes() {
		return ""
	}
	w, err := s.openWorld(est, doctor.Traits{})
	if err != nil {
		return ""
	}
	e, err := w.engine()
	if err != nil {
		return ""
	}
	apps, err := e.Applications(ctx)
	if err != nil {
		return "" // a lab that does not answer has no say in what the files become
	}
	for _, cl := range est.Clusters {
		if cl.Environment != plan.From || !cl.Has(plan.Addon) {
			continue
		}
		for _, a := range apps {
			switch {
			case a.Cluster != cl.Name || a.Addon != plan.Addon:
			case a.Version != plan.Version:
				return fmt.Sprintf(", while %s still runs %s", cl.Name, a.Version)
			case !a.Converged():
				return fmt.Sprintf(", while %s is %s and %s there", cl.Name, a.Sync, a.Health)
			default:
				return fmt.Sprintf(", as %s runs it (healthy)", cl.Name)
			}
		}
	}
	return ""
}

// pushPromotion commits the estate as it is now to the forge.
func (s *session) pushPromotion(ctx context.Context, plan promote.Promotion) (string, error) {
	est, err := s.load()
	if err != nil {
		return "", err
	}
	w, err := s.openWorld(est, doctor.Traits{})
	if err != nil {
		return "", err
	}
	res, err := w.gitea.Push(ctx, w.Tree(), plan.Message())
	return res.Commit, err
}
