package cli

import (
	"fmt"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/draft"
	"homelab/lab/estate"
	"homelab/lab/present"
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
					res.Draft = present.Draft(d)
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
