package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/desired"
	"homelab/lab/diff"
	"homelab/lab/dryrun"
	"homelab/lab/finding"
	"homelab/lab/ui"
	"homelab/lab/workspace"
)

func (p *program) diffCommand() *cli.Command {
	return &cli.Command{
		Name:      "diff",
		Usage:     "compare what the engine will have: two revisions, two environments, or with what runs",
		ArgsUsage: "[ENV ENV]",
		Description: "Works without a running lab, an engine and network, like lab render. --rev REV compares a revision with the working tree, and --rev A..B what B\n" +
			"has changed since it left A, as a reviewer sees it: from their merge base to B; A...B is the same. Two environments are compared addon by addon, by one\n" +
			"cluster of each. Changes that several clusters have in common are printed once.\n\n" +
			"--live compares what runs in the lab's clusters with the working tree, or with --rev REV: their API servers say what applying would change, by dry runs.\n\n" +
			examples("lab diff --rev HEAD", "lab diff --live", "lab diff --rev main..feature --check", "lab diff dev prod --addon podinfo", "lab diff --rev main --markdown", "lab diff --rev main --html diff.html", "lab diff --rev HEAD -o json"),
		Flags: []cli.Flag{
			nameFlag, estateFlag, outputFlag, engineFlag, versionFlag, imagesFlag,
			&cli.StringSliceFlag{Name: "rev", Usage: "compare `REV` with the working tree, or A..B; FOLDER=REV for a mounted repository"},
			&cli.BoolFlag{Name: "live", Usage: "compare what runs with the working tree, or with --rev REV"},
			&cli.StringFlag{Name: "cluster", Usage: "only applications of `CLUSTER`"},
			&cli.StringFlag{Name: "addon", Usage: "only applications of `ADDON`"},
			&cli.BoolFlag{Name: "all", Usage: "print everything, however long"},
			&cli.BoolFlag{Name: "markdown", Usage: "print Markdown for a comment, at most 65,536 characters"},
			&cli.StringFlag{Name: "html", Usage: "also write a page with everything to `FILE`"},
			&cli.BoolFlag{Name: "check", Usage: "exit with 4 if there is a difference"},
		},
		Action: p.reviewAction(p.open, argv.Count("two environments, or none with --rev", func(n int) bool { return n == 0 || n == 2 }), func(c *cli.Context, ws *workspace.Workspace) error {
			return p.diff(c.Context, ws, diffOptions{
				origin: originOf(c), environments: c.Args().Slice(), revs: c.StringSlice("rev"), cluster: c.String("cluster"), addon: c.String("addon"), live: c.Bool("live"),
				all: c.Bool("all"), markdown: c.Bool("markdown"), html: c.String("html"), check: c.Bool("check"),
			})
		}),
	}
}

// diffOptions are the arguments of lab diff.
type diffOptions struct {
	origin         origin
	environments   []string
	revs           []string
	cluster, addon string
	live           bool
	all, markdown  bool
	html           string
	check          bool
}

func (p *program) diff(ctx context.Context, ws *workspace.Workspace, o diffOptions) error {
	if o.markdown && p.ui.WantsJSON() {
		return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: "--markdown and -o json cannot be combined", Cure: "use one of them"}
	}
	res, err := p.compare(ctx, ws, o)
	if err != nil {
		return err
	}
	own(ws, &res)
	seeAll := ws.OnEstate(o.command()) + " --all"
	if o.html != "" {
		page, err := ui.DiffHTML(res)
		if err == nil {
			err = os.WriteFile(o.html, []byte(page), 0o600)
		}
		if err != nil {
			return &lab.Error{Exit: lab.ExitFailed, Code: "unwritable", Message: "cannot write the page", Cure: "--html FILE in a folder that exists", Err: err}
		}
		p.ui.Println("page: " + o.html)
	}
	if o.markdown {
		p.ui.Raw(ui.DiffMarkdown(res, seeAll))
	} else if err := p.ui.Diff(res, o.all, seeAll); err != nil {
		return err
	}
	if o.check && res.Differs() {
		return exitError{lab.ExitUnmet}
	}
	return nil
}

// command returns the command line without how it prints.
func (o diffOptions) command() string {
	words := []string{"lab", "diff"}
	add := func(flag, value string) {
		if value != "" {
			words = append(words, flag, lab.Quote(value))
		}
	}
	for _, env := range o.environments {
		words = append(words, lab.Quote(env))
	}
	if o.live {
		words = append(words, "--live")
	}
	for _, rev := range o.revs {
		add("--rev", rev)
	}
	add("--engine", string(o.origin.engine))
	add("--cluster", o.cluster)
	add("--addon", o.addon)
	return strings.Join(words, " ")
}

func (p *program) compare(ctx context.Context, ws *workspace.Workspace, o diffOptions) (ui.DiffResult, error) {
	if o.live {
		return p.compareLive(ctx, ws, o)
	}
	if len(o.environments) == 0 {
		return p.compareRevisions(ctx, ws, o)
	}
	ws, err := p.at(ctx, ws, o.revs)
	if err != nil {
		return ui.DiffResult{}, err
	}
	est, apps, err := p.model(ctx, ws, o.origin)
	if err != nil {
		return ui.DiffResult{}, err
	}
	for _, env := range o.environments {
		if !slices.ContainsFunc(est.Clusters, func(c lab.Cluster) bool { return c.Environment == env }) {
			var names []string
			for _, e := range est.Environments {
				names = append(names, e.Name)
			}
			return ui.DiffResult{}, &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("no cluster is in an environment %q", env), Cure: "there are: " + strings.Join(names, ", ")}
		}
	}
	if apps, err = o.choose(apps, est); err != nil {
		return ui.DiffResult{}, err
	}
	found, pairs := diff.Environments(est, apps, o.environments[0], o.environments[1])
	res := compared(ws, est, found)
	if err := p.leftOpen(ws); err != nil {
		return res, err
	}
	res.Before, res.After = "environment "+o.environments[0], "environment "+o.environments[1]
	res.Read = ui.DiffRead{Before: revisions(ws), After: revisions(ws)}
	for _, pair := range pairs {
		res.Pairs = append(res.Pairs, ui.DiffPair{Addon: pair.Addon, Before: pair.Before, After: pair.After, BeforeClusters: pair.Of[0], AfterClusters: pair.Of[1]})
	}
	return res, nil
}

func (p *program) compareRevisions(ctx context.Context, ws *workspace.Workspace, o diffOptions) (res ui.DiffResult, err error) {
	if len(o.revs) == 0 {
		return res, &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: "nothing to compare with", Cure: "lab diff --rev HEAD compares with the last commit, lab diff dev prod two environments, lab diff --live what runs"}
	}
	before, after, err := ws.Between(ctx, o.revs...)
	if err != nil {
		return res, err
	}
	return p.between(ctx, before, after, o)
}

// between compares two states of an estate.
func (p *program) between(ctx context.Context, before, after *workspace.Workspace, o diffOptions) (res ui.DiffResult, err error) {
	was, old, err := p.model(ctx, before, o.origin)
	if err != nil {
		return res, err
	}
	est, apps, err := p.model(ctx, after, o.origin)
	if err != nil {
		return res, err
	}
	all := slices.Concat(old, apps)
	if _, err := o.choose(all, was, est); err != nil {
		return res, err
	}
	old, apps = o.chosen(old), o.chosen(apps)
	res = compared(after, est, diff.Compare(old, apps, nil))
	if err := p.leftOpen(after); err != nil {
		return res, err
	}
	res.Before, res.After = titleOf(before.Revisions(), after.Revisions()), titleOf(after.Revisions(), before.Revisions())
	res.Read = ui.DiffRead{Before: revisions(before), After: revisions(after)}
	var printed []workspace.Revision
	for _, r := range slices.Concat(before.Revisions(), after.Revisions()) {
		if r.Folder != "." && !slices.Contains(printed, r) {
			printed = append(printed, r)
			p.ui.Println("read: " + r.String())
		}
	}
	for _, set := range was.UnknownSets {
		if !slices.ContainsFunc(est.UnknownSets, func(o lab.UnknownSet) bool { return o.Name == set.Name }) {
			res.Problems = append(res.Problems, ui.RenderProblems(lab.Problems{unknownSet(set)})...)
		}
	}
	return res, nil
}

// compareLive compares what runs with what the engine will have.
func (p *program) compareLive(ctx context.Context, ws *workspace.Workspace, o diffOptions) (res ui.DiffResult, err error) {
	if len(o.environments) > 0 {
		return res, &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: "--live and environments cannot be combined", Cure: "use one of them"}
	}
	if err := ws.HasLab(); err != nil {
		return res, err
	}
	if ws, err = p.at(ctx, ws, o.revs); err != nil {
		return res, err
	}
	est, apps, err := p.model(ctx, ws, o.origin)
	if err != nil {
		return res, err
	}
	if apps, err = o.choose(applied(apps), est); err != nil {
		return res, err
	}
	l, err := assemble(ws, parts{estate: est})
	if err != nil {
		return res, err
	}
	clusters := l.asked(est)
	var is, would []desired.App
	err = p.ui.Narrate(func(progress lab.Progress) (err error) {
		progress("asking what applying would change")
		is, would, err = clusters.Compare(ctx, apps, func(app string) { progress("asking what applying would change, last: " + app) })
		return err
	})
	if err != nil {
		return res, err
	}
	res = compared(ws, est, diff.Compare(is, would, nil))
	res.Before, res.After = "what runs", "the working tree"
	if read := ws.Revisions(); len(read) > 0 {
		res.After = titleOf(read, nil)
		res.Read.After = revisions(ws)
	}
	return res, nil
}

// asked returns the clusters of a lab for dry runs.
func (l *instance) asked(est *lab.Estate) *dryrun.Clusters {
	hub := est.Hub()
	return &dryrun.Clusters{
		Connect: func(name string) (*dryrun.Cluster, error) {
			cfg, err := l.core.Clusters.RESTConfig(name)
			if err != nil {
				return nil, err
			}
			return dryrun.Connect(cfg)
		},
		Home: func(a desired.App) string {
			if hub.Engine.Everywhere() {
				return a.Cluster
			}
			return hub.Name
		},
	}
}

// titleOf names a state by its revisions that the other one does not have.
func titleOf(revisions, other []workspace.Revision) string {
	var names []string
	for _, r := range revisions {
		if !slices.Contains(other, r) {
			names = append(names, r.String())
		}
	}
	if len(names) == 0 {
		return revisions[0].String()
	}
	return strings.Join(names, ", ")
}

// chosen returns the applications that are compared.
func (o diffOptions) chosen(apps []desired.App) (list []desired.App) {
	for _, a := range apps {
		if (o.cluster == "" || a.Cluster == o.cluster) && (o.addon == "" || a.Addon == o.addon) {
			list = append(list, a)
		}
	}
	return list
}

// choose is chosen for an estate, at one or two revisions; none is an error.
func (o diffOptions) choose(apps []desired.App, estates ...*lab.Estate) ([]desired.App, error) {
	if o.cluster != "" && !slices.ContainsFunc(estates, func(e *lab.Estate) bool { _, ok := e.Cluster(o.cluster); return ok }) {
		return nil, &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("no cluster %q in the estate", o.cluster), Cure: "lab bridge show lists them"}
	}
	chosen := o.chosen(apps)
	if len(chosen) == 0 && o.addon+o.cluster != "" {
		return nil, &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: "no such application", Cure: "lab render --kind applications prints all"}
	}
	return chosen, nil
}

func unknownSet(set lab.UnknownSet) lab.Problem {
	p := set.Problem()
	p.Code = finding.UnknownOutput
	return p
}

// compared converts a comparison.
func compared(ws *workspace.Workspace, est *lab.Estate, found diff.Result) ui.DiffResult {
	res := ui.DiffResult{Lab: ws.Name, Engine: string(est.Hub().Engine.Type), Applications: found.Apps, Differ: found.Differ}
	for _, set := range est.UnknownSets {
		res.Problems = append(res.Problems, ui.RenderProblems(lab.Problems{unknownSet(set)})...)
	}
	for _, m := range found.Unknown {
		reason := func(problem lab.Problem) string {
			if problem.Message == "" {
				return ""
			}
			return problem.String()
		}
		res.Unknown = append(res.Unknown, ui.DiffUnknown{
			Addon: m.App.Addon, Applications: diffApplications(m.Apps), Release: m.Part, Before: reason(m.Before), After: reason(m.After),
		})
	}
	for _, g := range found.Changes {
		c := ui.DiffChange{
			Addon: g.App.Addon, Applications: diffApplications(g.Apps), Named: g.Named, Change: string(g.Kind), Cluster: g.Object.Cluster, Group: g.Object.Group,
			Kind: g.Object.Kind, Namespace: g.Object.Namespace, Name: g.Object.Name, From: g.From, Routine: len(g.Bumps) > 0,
		}
		for _, f := range g.Fields {
			c.Fields = append(c.Fields, ui.DiffField{Path: f.Path.String(), Change: string(f.Kind), Before: rawJSON(f.Before), After: rawJSON(f.After), Secret: f.Secret, Lines: f.Lines()})
		}
		for _, path := range g.Random {
			c.Random = append(c.Random, path.String())
		}
		for _, b := range g.Bumps {
			c.Bumps = append(c.Bumps, ui.DiffBump(b))
		}
		res.Changes = append(res.Changes, c)
	}
	return res
}

func diffApplications(apps []diff.App) (list ui.List[ui.DiffApplication]) {
	for _, a := range apps {
		list = append(list, ui.ShortApplication(a.Name, a.Cluster, lab.ApplicationName(a.Cluster, a.Addon)))
	}
	return list
}

// rawJSON returns a value as JSON, without escapes for HTML.
func rawJSON(v any) ui.Raw {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "null"
	}
	return ui.Raw(strings.TrimSpace(b.String()))
}
