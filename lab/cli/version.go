package cli

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"homelab/lab/argv"
	"homelab/lab/present"
	"homelab/lab/supply/source"
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
			recipes, err := source.Builtin()
			if err != nil {
				return err
			}
			text := fmt.Sprintf("lab %s (%s, kind %s, helm %s)", v.Version, v.Go, v.Kind, v.Helm)
			for _, c := range recipes.Images() {
				title := c.Name
				switch {
				case c.Name == "node":
					title += " (Kubernetes)"
				case strings.HasSuffix(c.Name, "-controller"), c.Name == "source-watcher":
					title += " (Flux)"
				}
				text += fmt.Sprintf("\n%-35s %s", title, c.Version)
			}
			return p.ui.Result(v, text)
		},
	}
}
