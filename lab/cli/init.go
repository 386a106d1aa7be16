package cli

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/draft"
	"homelab/lab/estate"
	"homelab/lab/present"
	"homelab/lab/ui"
)

func (p *program) initCommand() *cli.Command {
	return &cli.Command{
		Name:      "init",
		Usage:     "write an estate to a folder of your own",
		ArgsUsage: "DIR",
		Description: "DIR must be absent or empty: nothing of yours is written over.\n\n" +
			"With --from, the estate is one beside Git repositories of yours, which stay as they are: the clusters that their ApplicationSets select, the keys that those " +
			"read (found, made up or to be given), and a root that leads to them. The lab serves a mirror of each. Without --from it is the built-in estate.\n\n" +
			examples("lab init ~/estate", "cd ~/estate && git init && lab up", "lab init --from ~/src/gitops ~/estate", "lab init --from https://github.com/OWNER/bootstrap --from ~/src/workloads ~/estate"),
		Flags: []cli.Flag{
			outputFlag,
			&cli.StringSliceFlag{Name: "from", Usage: "mount the Git repository in `DIR|URL`; the first has the root"},
		},
		Action: func(c *cli.Context) error {
			if err := p.output(c); err != nil {
				return err
			}
			if c.NArg() != 1 {
				return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: "lab init takes one folder", Cure: "lab init DIR"}
			}
			dir, err := filepath.Abs(c.Args().First())
			if err != nil {
				return fmt.Errorf("folder: %w", err)
			}
			res := ui.InitResult{Estate: dir}
			if from := c.StringSlice("from"); len(from) > 0 {
				res.Draft, err = p.draft(c.Context, dir, from)
			} else {
				err = estate.Write(p.env.Estate, dir)
			}
			if err != nil {
				return err
			}
			return p.ui.Initialized(res, "cd "+c.Args().First()+" && lab up")
		},
	}
}

func (p *program) draft(ctx context.Context, dir string, from []string) (ui.DraftInfo, error) {
	var d *draft.Draft
	err := p.ui.Narrate(func(tell lab.Progress) (err error) {
		d, err = draft.Write(ctx, estate.DefaultName(dir), dir, from, tell)
		return err
	})
	if err != nil {
		return ui.DraftInfo{}, err
	}
	return present.Draft(d), nil
}
