package cli

import (
	"strings"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/estate"
	"homelab/lab/workspace"
)

// Flags shared by many commands.
var (
	nameFlag    = &cli.StringFlag{Name: "name", Aliases: []string{"n"}, Usage: "`NAME` of the lab (default: the estate's folder)", EnvVars: []string{"LAB_NAME"}}
	estateFlag  = &cli.StringFlag{Name: "estate", Aliases: []string{"C"}, Usage: "`DIR` of the estate (default: the enclosing one, else the built-in one)", EnvVars: []string{"LAB_ESTATE"}}
	outputFlag  = &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "`FORMAT` of the output: text or json", Value: "text"}
	engineFlag  = &cli.StringFlag{Name: "engine", Usage: "`ENGINE` of the hub: " + strings.Join(lab.DefaultEngine.Words(), " or ") + " (default: the lab's, else the estate's spec.engine)"}
	versionFlag = &cli.StringFlag{Name: "engine-version", Usage: "`VERSION` of the engine: a minor such as 3.5, an exact one, or newest (default: the lab's, else the estate's spec.engine.version, else lab's newest)"}
	imagesFlag  = &cli.StringFlag{
		Name: "images", Usage: "`ORIGIN` of images and charts: auto, registry, source or bundle=FILE", Value: "auto", EnvVars: []string{"LAB_IMAGES"},
	}
	revFlag    = &cli.StringSliceFlag{Name: "rev", Usage: "read the estate at `REV` of its Git repository; FOLDER=REV for a mounted repository"}
	mirrorFlag = &cli.StringFlag{
		Name: "registry-mirror", Usage: "`HOST[:PORT]` of a registry that holds the images under their upstream names", EnvVars: []string{"LAB_REGISTRY_MIRROR"},
	}
)

// output sets the output format: text, JSON, or one of further formats, whose errors are text.
func (p *program) output(c *cli.Context, further ...string) error {
	if err := argv.OneOf(c, "output", append([]string{"text", "json"}, further...)...); err != nil {
		return err
	}
	if err := argv.OneOf(c, "engine", lab.DefaultEngine.Words()...); err != nil {
		return err
	}
	if v := c.String("engine-version"); v != "" && v != estate.Newest {
		if _, ok := lab.WantedVersion(v); !ok {
			return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: "--engine-version cannot be " + lab.Quote(v), Cure: "a minor such as 3.5, an exact one such as 3.5.7, or newest"}
		}
	}
	p.setUI(c.String("output") == "json")
	return nil
}

// aim returns the flags and variables that select the lab and the estate.
func (p *program) aim(c *cli.Context) workspace.Options {
	return workspace.Options{
		Name: c.String("name"), Estate: c.String("estate"), Builtin: c.Bool("builtin"), Embedded: p.env.Estate, Engine: lab.EngineType(c.String("engine")),
		Version: strings.TrimPrefix(c.String("engine-version"), "v"), AroundName: p.env.Getenv("LAB_NAME"), AroundEstate: p.env.Getenv("LAB_ESTATE"),
	}
}

// open returns the selected lab.
func (p *program) open(c *cli.Context) (*workspace.Workspace, error) {
	if err := p.output(c); err != nil {
		return nil, err
	}
	return workspace.Open(p.aim(c))
}

// existing returns the selected lab, which must have been created.
func (p *program) existing(c *cli.Context) (*workspace.Workspace, error) {
	if err := p.output(c); err != nil {
		return nil, err
	}
	return workspace.Existing(p.aim(c))
}

// labAction returns the Action of a command on a lab, which checks the arguments and finds the lab first.
func (p *program) labAction(
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

// origin is the source of images and charts.
type origin struct {
	images, mirror string
	engine         lab.EngineType // of a bundle
}

func originOf(c *cli.Context) origin {
	return origin{images: c.String("images"), mirror: c.String("registry-mirror"), engine: lab.EngineType(c.String("engine"))}
}

func revisionsOf(c *cli.Context) []string { return c.StringSlice("rev") }
