package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/draft"
	"homelab/lab/estate"
	"homelab/lab/ui"
	"homelab/lab/writeout"
)

func (p *program) initCommand() *cli.Command {
	return &cli.Command{
		Name:      "init",
		Usage:     "write an estate to a new folder",
		ArgsUsage: "DIR",
		Description: "DIR must be absent or empty, so that nothing is overwritten.\n\n" +
			"With --from, the estate wraps Git repositories of yours, which stay untouched: it has the clusters that their ApplicationSets select or that Flux has a folder " +
			"for, the keys they read (found, made up, or left for you to give), and a root that refers to them. The lab serves a mirror of each. Without --from, DIR gets the built-in estate.\n\n" +
			examples("lab init ~/estate", "cd ~/estate && git init && lab up", "lab init --from ~/src/gitops ~/estate", "lab init --from ~/src/fleet-infra ~/estate", "lab init --from https://github.com/OWNER/bootstrap --from ~/src/workloads ~/estate"),
		Flags: []cli.Flag{
			outputFlag,
			&cli.StringSliceFlag{Name: "from", Usage: "mount the Git repository in `DIR|URL`; the first has the root"},
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
			if from := c.StringSlice("from"); len(from) > 0 {
				err = p.ui.Narrate(func(progress lab.Progress) error {
					d, err := draft.Write(c.Context, estate.DefaultName(dir), dir, from, progress)
					res.Draft = draftInfo(d)
					if err == nil {
						err = agreeFolders(dir, d.Repositories)
					}
					return err
				})
			} else {
				err = writeout.Estate(p.env.Estate, dir)
			}
			if err != nil {
				return err
			}
			return p.ui.Initialized(res, "cd "+lab.Quote(c.Args().First())+" && lab up")
		},
	}
}

// draftInfo converts a draft, or nil to nothing.
func draftInfo(d *draft.Draft) ui.DraftInfo {
	if d == nil {
		return ui.DraftInfo{}
	}
	out := ui.DraftInfo{Clusters: d.Clusters, Namespace: d.Namespace}
	for _, r := range d.Repositories {
		out.Repositories = append(out.Repositories, ui.DraftRepository{URL: r.URL, Folder: r.Dir, Branch: r.Branch})
	}
	for _, k := range d.Keys {
		kind := "annotation"
		switch {
		case k.In != "":
			kind = k.In
		case k.Label:
			kind = "label"
		}
		out.Keys = append(out.Keys, ui.DraftKey{Kind: kind, Key: k.Name, Value: strings.TrimSpace(k.Value), How: k.How, At: k.At.String()})
	}
	for _, a := range d.Addons {
		out.Addons = append(out.Addons, ui.DraftAddon{Addon: a.Addon, On: a.On, Why: a.Why, At: a.At.String()})
	}
	for _, o := range d.Without {
		out.Without = append(out.Without, ui.DraftLeft{At: o.At.String(), Why: o.Why})
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
