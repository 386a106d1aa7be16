package cli

import (
	"fmt"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/estate"
	"homelab/lab/ui"
)

func (p *program) initCommand() *cli.Command {
	return &cli.Command{
		Name:      "init",
		Usage:     "write the built-in estate to a folder of your own",
		ArgsUsage: "DIR",
		Description: "DIR must be absent or empty: nothing of yours is written over.\n\n" +
			examples("lab init ~/estate", "cd ~/estate && git init && lab up"),
		Flags: []cli.Flag{outputFlag},
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
			if err := estate.Write(p.env.Estate, dir); err != nil {
				return err
			}
			if err := p.ui.Result(ui.InitResult{Estate: dir}, "an estate is in "+dir); err != nil || p.ui.WantsJSON() {
				return err
			}
			p.ui.Say("next: cd " + c.Args().First() + " && lab up")
			return nil
		},
	}
}
