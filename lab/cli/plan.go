package cli

import (
	"context"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/consequence"
	"homelab/lab/ui"
	"homelab/lab/workspace"
)

func (p *program) planCommand() *cli.Command {
	return &cli.Command{
		Name:  "plan",
		Usage: "print what the engine does to the objects of clusters when the estate changes",
		Description: "Works without a running lab, an engine and network. From the last commit to the working tree, or with --rev from REV to the working tree, or what B has changed since\n" +
			"it left A. Each object that is deleted, recreated, left behind or cannot be applied is printed with the reason, what is lost with it, and how it is kept; equal effects in\n" +
			"several clusters stand once. What cannot be rendered is unknown.\n\n" +
			examples("lab plan", "lab plan --rev main..feature --check", "lab plan --cluster prod -o json"),
		Flags: []cli.Flag{
			nameFlag, estateFlag, outputFlag, engineFlag, versionFlag, imagesFlag,
			&cli.StringSliceFlag{Name: "rev", Usage: "compare `REV` with the working tree, or A..B; FOLDER=REV for a mounted repository"},
			&cli.StringFlag{Name: "cluster", Usage: "only effects in `CLUSTER`"},
			&cli.BoolFlag{Name: "check", Usage: "exit with 4 if something is deleted, recreated, refused or unknown"},
		},
		Action: p.labAction(p.open, argv.NoArgs, func(c *cli.Context, ws *workspace.Workspace) error {
			return p.plan(c.Context, ws, revisionsOf(c), c.String("cluster"), originOf(c), c.Bool("check"))
		}),
	}
}

func (p *program) plan(ctx context.Context, ws *workspace.Workspace, revs []string, cluster string, from origin, check bool) error {
	if len(revs) == 0 {
		revs = []string{"HEAD"}
	}
	sides := [2]*workspace.Workspace{}
	var err error
	if sides[0], sides[1], err = ws.Between(ctx, revs...); err != nil {
		return err
	}
	var states [2]consequence.State
	addons := map[string]string{}
	for i, side := range sides {
		est, apps, err := p.desired(ctx, side, from)
		if err != nil {
			return err
		}
		states[i] = consequence.State{Engine: est.Hub().Engine.Type, Apps: apps}
		for _, c := range est.Clusters {
			states[i].Clusters = append(states[i].Clusters, c.Name)
		}
		for _, a := range apps {
			addons[a.Name] = a.Addon
		}
	}
	if states[0].Engine != states[1].Engine {
		return &lab.Error{
			Exit: lab.ExitInvalid, Code: "engine_changes", Message: "the engine changes from " + string(states[0].Engine) + " to " + string(states[1].Engine),
			Cure: "compare with one engine: --engine " + string(states[1].Engine),
		}
	}
	effects, problems := consequence.Of(states[0], states[1])
	res := ui.ConsequenceResult{
		Lab: ws.Name, Engine: string(states[1].Engine), Before: revisions(sides[0]), After: revisions(sides[1]), Problems: ui.RenderProblems(problems), Confident: true,
	}
	for _, e := range effects {
		if cluster != "" && e.Cluster != cluster {
			continue
		}
		res.Confident = res.Confident && e.Action != consequence.Unknown
		res.Effects = append(res.Effects, ui.Consequence{
			Action: string(e.Action), Cluster: e.Cluster, Addon: addons[e.Application], Application: e.Application, Release: e.Release, Object: e.Object, Reason: e.Reason, To: e.To,
			Loses: e.Loses, Cure: e.Cure, File: e.At.File, Line: e.At.Line,
		})
	}
	for _, side := range sides {
		p.readAt(side)
	}
	if err := p.ui.Consequences(res); err != nil {
		return err
	}
	if check && res.Severe() {
		return exitError{lab.ExitUnmet}
	}
	return nil
}
