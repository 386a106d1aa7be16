package cli

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"homelab/lab/argv"
	"homelab/lab/present"
)

func (p *program) versionCommand() *cli.Command {
	return &cli.Command{
		Name:        "version",
		Usage:       "show the versions of lab and of its components",
		Description: examples("lab version", "lab version -o json"),
		Flags:       []cli.Flag{outputFlag},
		Action: func(c *cli.Context) error {
			if err := argv.NoArgs(c); err != nil {
				return err
			}
			if err := p.output(c); err != nil {
				return err
			}
			v := present.Version()
			var err error
			if v.Supply, err = present.Supply(); err != nil {
				return err
			}
			return p.ui.Result(v, fmt.Sprintf("lab %s (%s, kind %s, helm %s)", v.Version, v.Go, v.Kind, v.Helm))
		},
	}
}
