package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/draft"
	"homelab/lab/estate"
	"homelab/lab/fill"
	"homelab/lab/ui"
	"homelab/lab/workspace"
	"homelab/lab/writeout"
)

func (p *program) initCommand() *cli.Command {
	return &cli.Command{
		Name:      "init",
		Usage:     "write an estate to a new folder",
		ArgsUsage: "DIR",
		Description: "DIR must be absent or empty, so that nothing is overwritten.\n\n" +
			"With --from, the estate wraps Git repositories of yours, which stay untouched: it has the clusters that their ApplicationSets select or that Flux has a folder " +
			"for, the keys they read, and a root that refers to them. The lab serves a mirror of each. A value that nothing says is open: a placeholder, which lab fill or --fill\n" +
			"sets. It ends with the check of lab up, and its exit code. All that it found is in DIR/init.md. Without --from, DIR gets the built-in estate.\n\n" +
			examples("lab init ~/estate", "cd ~/estate && git init && lab up", "lab init --from ~/src/gitops ~/estate", "lab init --from ~/src/fleet-infra ~/estate", "lab init --from ~/src/gitops --fill values.yaml ~/estate", "lab init --from https://github.com/OWNER/bootstrap --from ~/src/workloads ~/estate"),
		Flags: []cli.Flag{
			outputFlag,
			&cli.StringSliceFlag{Name: "from", Usage: "mount the Git repository in `DIR|URL`; may be repeated, in any order"},
			&cli.StringFlag{Name: "root", Usage: "with --from, take only the root in `FILE` of a repository, of several side by side"},
			&cli.StringFlag{Name: "fill", Usage: "with --from, set the open values to those of a YAML mapping in `FILE`"},
		},
		Action: func(c *cli.Context) error {
			if err := p.output(c); err != nil {
				return err
			}
			if err := argv.ExactlyOne("one folder", "DIR")(c); err != nil {
				return err
			}
			dir, err := filepath.Abs(c.Args().First())
			if err != nil {
				return fmt.Errorf("folder: %w", err)
			}
			res := ui.InitResult{Estate: dir}
			next := "cd " + lab.Quote(c.Args().First()) + " && lab "
			if from := c.StringSlice("from"); len(from) > 0 {
				return p.draft(c.Context, draft.Options{Name: estate.DefaultName(dir), Dir: dir, From: from, Root: c.String("root")}, c.String("fill"), next)
			}
			if c.IsSet("fill") || c.IsSet("root") {
				return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: "--fill and --root need --from", Cure: "lab init --from DIR --fill FILE --root FILE NEW"}
			}
			if err := writeout.Estate(p.env.Estate, dir); err != nil {
				return err
			}
			return p.ui.Initialized(res, next+"up")
		},
	}
}

// draft writes an estate for repositories, prints it, and ends with the check of lab up.
func (p *program) draft(ctx context.Context, o draft.Options, values, next string) error {
	var err error
	if o.Fill, err = valuesOf(values); err != nil {
		return err
	}
	if p.ui.Asks() {
		o.Ask = func(c draft.Choice) (string, error) {
			o.Progress("") // clears the line
			return p.ui.Choose(ctx, c.About+", read by "+c.At.String(), c.Of)
		}
	}
	var d *draft.Draft
	err = p.ui.Narrate(func(progress lab.Progress) error {
		o.Progress = progress
		if d, err = draft.Write(ctx, o); err != nil {
			return err
		}
		return agreeFolders(o.Dir, d.Repositories)
	})
	if err != nil {
		return err
	}
	res := ui.InitResult{Estate: o.Dir, Draft: draftInfo(d)}
	est, invalid := p.checked(ctx, o.Dir)
	if invalid == nil {
		for _, a := range est.Applications {
			if !a.Listed() {
				continue
			}
			res.Draft.Applications = append(res.Draft.Applications, ui.PlanApplication{Name: a.Name, Cluster: a.Cluster, Addon: a.Addon, LeftOut: a.LeftOut})
		}
		for _, s := range est.UnknownSets {
			res.Draft.Unknown = append(res.Draft.Unknown, ui.PlanApplication{Name: lab.SetName(s.Name), LeftOut: s.Why})
		}
		if len(est.Applications)+len(est.UnknownSets)+len(d.Addons) == 0 && !d.Objects {
			invalid = &lab.Error{
				Exit: lab.ExitInvalid, Code: "no_applications", Message: "the estate deploys nothing: no Application is in what its roots lead to", Cure: cureOfNothing(d),
			}
		}
		for _, note := range est.Notes {
			res.Draft.Notes = append(res.Draft.Notes, note.String())
		}
	}
	if list, err := fill.Find(d.Files); err == nil {
		res.Draft.Open = openValues(list)
	}
	switch {
	case len(res.Draft.Open) > 0:
		next += "fill KEY=VALUE"
	case invalid == nil:
		next += "up"
	default:
		next = ""
	}
	return errors.Join(p.ui.Initialized(res, next), invalid)
}

// cureOfNothing returns what may make a draft deploy something.
func cureOfNothing(d *draft.Draft) string {
	switch {
	case slices.ContainsFunc(d.Choices, func(c draft.Choice) bool { return c.About == draft.RootChoice }):
		return "take another root: lab init --root FILE; init.md lists them"
	case slices.ContainsFunc(d.Keys, func(k draft.Key) bool { return k.How == draft.Open }):
		return "set what is open: lab fill"
	case len(d.Choices) > 0:
		return "choose otherwise in its files: init.md lists the choices"
	}
	return "name the repository that contains them, too: lab init --from DIR --from DIR NEW"
}

// checked loads a new estate as lab up does.
func (p *program) checked(ctx context.Context, dir string) (*lab.Estate, error) {
	ws, err := workspace.Open(workspace.Options{Estate: dir, Embedded: p.env.Estate})
	if err != nil {
		return nil, err
	}
	options, err := judging(ctx)
	if err != nil {
		return nil, err
	}
	est, err := ws.Load(options...)
	var failed *lab.Error
	if errors.As(err, &failed) {
		failed.Message = strings.TrimSuffix(failed.Message, ", nothing was touched") + ", as lab up reports it"
	}
	return est, err
}

// draftInfo converts a draft.
func draftInfo(d *draft.Draft) ui.DraftInfo {
	out := ui.DraftInfo{Clusters: d.Clusters, Namespace: d.Namespace}
	for _, r := range d.Repositories {
		out.Repositories = append(out.Repositories, ui.DraftRepository{URL: r.URL, Folder: r.Dir, Branch: r.Branch})
	}
	for _, k := range d.Keys {
		out.Keys = append(out.Keys, ui.DraftKey{Kind: k.Kind(), Key: k.Name, Value: strings.TrimSpace(k.Value), How: k.How, At: k.At.String()})
	}
	for _, a := range d.Addons {
		out.Addons = append(out.Addons, ui.DraftAddon{Addon: a.Addon, On: a.On, Why: a.Why, At: a.At.String()})
	}
	for _, o := range d.Without {
		out.Without = append(out.Without, ui.DraftLeft{At: o.At.String(), Why: o.Why})
	}
	for _, c := range d.Choices {
		out.Choices = append(out.Choices, ui.DraftChoice{About: c.About, Took: c.Took, Of: c.Of, At: c.At.String()})
	}
	out.Roots, out.Beside = texts(d.Roots), texts(d.Beside)
	return out
}

func texts(list []lab.Position) []string {
	var out []string
	for _, at := range list {
		out = append(out, at.String())
	}
	return out
}
