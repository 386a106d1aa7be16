package cli

import (
	"github.com/urfave/cli/v2"

	"homelab/lab/workspace"
)

// Flags that many commands share.
var (
	nameFlag   = &cli.StringFlag{Name: "name", Aliases: []string{"n"}, Usage: "`NAME` of the lab (default: the estate's folder)", EnvVars: []string{"LAB_NAME"}}
	estateFlag = &cli.StringFlag{Name: "estate", Aliases: []string{"C"}, Usage: "`DIR` of the estate (default: the folder that this is in, else the one built in)", EnvVars: []string{"LAB_ESTATE"}}
	outputFlag = &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FORMAT` of the output: text or json", Value: "text"}
	imagesFlag = &cli.StringFlag{
		Name: "images", Usage: "`ORIGIN` of images and charts: auto, registry, source or bundle=FILE", Value: "auto", EnvVars: []string{"LAB_IMAGES"},
	}
	mirrorFlag = &cli.StringFlag{
		Name: "registry-mirror", Usage: "`HOST[:PORT]` of a registry that holds the images under their upstream names", EnvVars: []string{"LAB_REGISTRY_MIRROR"},
	}
)

// output sets how results are written.
func (p *program) output(c *cli.Context) error {
	if err := oneOf(c, "output", "text", "json"); err != nil {
		return err
	}
	p.screen(c.String("output") == "json")
	return nil
}

// aim is what a command line says of the lab and the estate that it is about.
func (p *program) aim(c *cli.Context) workspace.Options {
	return workspace.Options{
		Name: c.String("name"), Estate: c.String("estate"), Builtin: c.Bool("builtin"), Embedded: p.env.Estate,
		AroundName: p.env.Getenv("LAB_NAME"), AroundEstate: p.env.Getenv("LAB_ESTATE"),
	}
}

// open finds the lab that a command is about.
func (p *program) open(c *cli.Context) (*workspace.Workspace, error) {
	if err := p.output(c); err != nil {
		return nil, err
	}
	return workspace.Open(p.aim(c))
}

// existing is open for a command that needs a lab that was brought up.
func (p *program) existing(c *cli.Context) (*workspace.Workspace, error) {
	if err := p.output(c); err != nil {
		return nil, err
	}
	return workspace.Existing(p.aim(c))
}

// on is the Action of a command about a lab: its words are checked, and the lab is found, before it does anything.
func (p *program) on(
	find func(*cli.Context) (*workspace.Workspace, error), check func(*cli.Context) error, do func(*cli.Context, *workspace.Workspace) error,
) cli.ActionFunc {
	return func(c *cli.Context) error {
		if err := check(c); err != nil {
			return err
		}
		ws, err := find(c)
		if err != nil {
			return err
		}
		return do(c, ws)
	}
}

// origin is where images and charts are to come from.
type origin struct{ images, mirror string }

func originOf(c *cli.Context) origin {
	return origin{images: c.String("images"), mirror: c.String("registry-mirror")}
}
