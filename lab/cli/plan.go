package cli

import (
	"context"
	"fmt"
	"io/fs"
	"slices"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/bridge"
	"homelab/lab/consequence"
	"homelab/lab/desired"
	"homelab/lab/dryrun"
	"homelab/lab/estate"
	"homelab/lab/finding"
	"homelab/lab/forge"
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
		Action: p.reviewAction(p.open, argv.NoArgs, func(c *cli.Context, ws *workspace.Workspace) error {
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
	res, _, err := p.consequences(ctx, sides, from)
	if err != nil {
		return err
	}
	if cluster != "" {
		res.Effects = slices.DeleteFunc(res.Effects, func(c ui.Consequence) bool { return c.Cluster != cluster })
	}
	for _, side := range sides {
		p.readAt(side)
	}
	if err := p.leftOpen(sides[1]); err != nil {
		return err
	}
	own(sides[1], &res)
	if err := p.ui.Consequences(res); err != nil {
		return err
	}
	if check && res.Severe() {
		return exitError{lab.ExitUnmet}
	}
	return nil
}

// consequences returns what the engine does when the files of one side become those of the other, and what it has then.
func (p *program) consequences(ctx context.Context, sides [2]*workspace.Workspace, from origin) (ui.ConsequenceResult, []desired.App, error) {
	var states [2]consequence.State
	var former []lab.Cluster
	var unjudged lab.Problems
	addons := map[string]string{}
	for i, side := range sides {
		m, err := p.read(ctx, side, from, estate.WithLeft(former))
		var unread error
		gone := func(c lab.Cluster) bool {
			_, err := fs.Stat(side.Estate.FS, c.File)
			return err != nil
		}
		if err != nil && slices.ContainsFunc(former, gone) { // by what a cluster that left no longer has?
			unread = err
			m, err = p.read(ctx, side, from)
		}
		if err != nil {
			return ui.ConsequenceResult{}, nil, err
		}
		est, apps := m.Estate, applied(m.Apps)
		if n := len(m.Apps) - len(apps); n > 0 && i == 1 {
			unjudged = lab.Problems{{Code: finding.LeftOut, Position: m.Apps[slices.IndexFunc(m.Apps, foreign)].At, Message: fmt.Sprintf("of ResourceSets, and so not judged, as Flux Operator applies them: %d", n), Cure: "lab diff compares them"}}
		}
		states[i] = consequence.State{Engine: est.Hub().Engine.Type, Each: est.Hub().Engine.Everywhere(), Apps: apps, Sets: map[string]string{}}
		for _, c := range est.Clusters {
			if !c.Left {
				states[i].Clusters = append(states[i].Clusters, c.Name)
			}
		}
		for _, a := range apps {
			addons[a.Name] = a.Addon
		}
		for _, set := range est.UnknownSets {
			states[i].Sets[set.Name] = set.Why
		}
		if unread != nil {
			states[i].Unknown = map[string]string{}
			for _, c := range former {
				states[i].Unknown[c.Name] = "without its files, what its applications become cannot be read: " + unread.Error()
			}
		}
		former = est.Clusters
	}
	if states[0].Engine != states[1].Engine {
		return ui.ConsequenceResult{}, nil, &lab.Error{
			Exit: lab.ExitInvalid, Code: "engine_changes", Message: "the engine changes from " + string(states[0].Engine) + " to " + string(states[1].Engine),
			Cure: "compare with one engine: --engine " + string(states[1].Engine),
		}
	}
	effects, problems := consequence.Of(states[0], states[1])
	res := ui.ConsequenceResult{
		Lab: sides[1].Name, Engine: string(states[1].Engine), Before: revisions(sides[0]), After: revisions(sides[1]), Problems: ui.RenderProblems(append(problems, unjudged...)), Confident: true,
	}
	for _, e := range effects {
		res.Confident = res.Confident && e.Action != consequence.Unknown
		res.Effects = append(res.Effects, ui.Consequence{
			Action: string(e.Action), Cluster: e.Cluster, Addon: addons[e.Application], Application: e.Application, Release: e.Release, Object: e.Object, Reason: e.Reason, To: e.To,
			Loses: e.Loses, Cure: e.Cure, File: e.At.File, Line: e.At.Line,
		})
	}
	return res, states[1].Apps, nil
}

func foreign(a desired.App) bool { return a.Foreign }

// applied returns what the engine applies.
func applied(apps []desired.App) []desired.App { return slices.DeleteFunc(slices.Clone(apps), foreign) }

// foreseen returns what the engine does once the forge has the working tree, or why that is unknown. With ask, API servers say what they refuse.
func (p *program) foreseen(ctx context.Context, l *instance, from origin, ask bool) (effects []ui.Consequence, unknown string) {
	if runs := l.ws.Record.Type; runs != "" && runs != l.core.Definition.Type {
		return nil, "the engine is replaced"
	}
	has, err := l.gitea.Estate(ctx)
	switch {
	case err != nil:
		return nil, err.Error()
	case has == nil:
		return nil, "" // nor has the engine
	}
	before := l.ws.Having(has, func(dir string) (fs.FS, error) {
		for _, r := range l.core.Estate.Repositories {
			if r.Dir == dir && r.Name != bridge.Estate {
				return l.gitea.MirrorFiles(ctx, forge.MirrorOf(r))
			}
		}
		return nil, nil
	})
	res, apps, err := p.consequences(ctx, [2]*workspace.Workspace{before, l.ws}, from)
	if err != nil {
		return nil, err.Error()
	}
	if ask {
		refuse(ctx, l.asked(l.core.Estate), apps, res.Effects)
	}
	return res.Effects, ""
}

// refuse finds changes that the API servers of a lab refuse, by dry runs.
func refuse(ctx context.Context, clusters *dryrun.Clusters, apps []desired.App, effects []ui.Consequence) {
	changes := []string{string(consequence.Update), string(consequence.Restart), string(consequence.Create)}
	object := func(e ui.Consequence) dryrun.Object {
		return dryrun.Object{App: e.Application, Cluster: e.Cluster, ID: e.Object}
	}
	asks, of := map[dryrun.Object]bool{}, map[string]bool{}
	for _, e := range effects {
		if slices.Contains(changes, e.Action) {
			asks[object(e)], of[e.Application] = true, true
		}
	}
	refused := clusters.Refused(ctx, slices.DeleteFunc(slices.Clone(apps), func(a desired.App) bool { return !of[a.Name] }), asks)
	for i := range effects {
		if why := refused[object(effects[i])]; why != "" {
			effects[i].Action, effects[i].Reason = string(consequence.Refuse), why
		}
	}
}

// deletes returns what the engine deletes, with contents that are not in Git, once the forge has the working tree, or why that is unknown. A replaced engine leaves all
// that it has applied.
func (p *program) deletes(ctx context.Context, l *instance, o upOptions) (loses []string, unknown string) {
	if o.run.Switch {
		return nil, ""
	}
	effects, unknown := p.foreseen(ctx, l, o.origin, false)
	for _, e := range effects {
		if e.Action == string(consequence.Unknown) && unknown == "" {
			unknown = e.Application + " in " + e.Cluster + ": " + e.Reason
		}
	}
	return ui.Deleted(effects), unknown
}
