package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/present"
	"homelab/lab/state"
	"homelab/lab/supply"
	"homelab/lab/ui"
)

func (p *program) bundleCommand() *cli.Command {
	flags := []cli.Flag{outputFlag, engineFlag, imagesFlag, mirrorFlag}
	return &cli.Command{
		Name:  "bundle",
		Usage: "the images and charts of a lab: build, list, save, load and push them",
		Subcommands: []*cli.Command{
			{
				Name:        "build",
				Usage:       "build or fetch every image and chart that is missing",
				ArgsUsage:   "[COMPONENT...]",
				Description: "What has not changed is not rebuilt.\n\n" + examples("lab bundle build", "lab bundle build node gitea", "lab bundle build --engine flux", "lab bundle build --images registry"),
				Flags:       flags,
				Action:      p.withSupply(argv.AnyArgs, p.bundleBuild),
			},
			{
				Name: "ls", Usage: "list all images and charts, and whether they are available",
				Description: examples("lab bundle ls", "lab bundle ls -o json"),
				Flags:       flags,
				Action:      p.withSupply(argv.AnyArgs, p.bundleList),
			},
			{
				Name: "save", Usage: "write every image and chart to one archive", ArgsUsage: "FILE",
				Description: "The archive is a zstd-compressed tar of OCI layouts and charts, so that another machine needs neither a registry nor a compiler.\n\n" +
					examples("lab bundle save lab.tar.zst"),
				Flags:  flags,
				Action: p.withSupply(argv.ExactlyOne("one file", "lab.tar.zst"), p.bundleSave),
			},
			{
				Name: "load", Usage: "import the images and charts of an archive", ArgsUsage: "FILE",
				Description: examples("lab bundle load lab.tar.zst", "lab up --images bundle=lab.tar.zst"),
				Flags:       []cli.Flag{outputFlag},
				Action: func(c *cli.Context) error {
					if err := p.output(c); err != nil {
						return err
					}
					if err := argv.ExactlyOne("one file", "lab.tar.zst")(c); err != nil {
						return err
					}
					return p.bundleLoad(c.Context, c.Args().First())
				},
			},
			{
				Name: "push", Usage: "push every image and chart to a registry, as a mirror for other machines", ArgsUsage: "HOST[:PORT]",
				Description: "Images keep their names below the mirror's; charts go to charts/. Credentials are those of docker login. The digests are those of the pushed images.\n\n" +
					examples("lab bundle push registry.example.com", "lab up --images registry --registry-mirror registry.example.com"),
				Flags:  flags,
				Action: p.withSupply(argv.ExactlyOne("one registry", "registry.example.com"), p.bundlePush),
			},
		},
	}
}

// withSupply returns the Action of a command on the supply without a lab, which checks the arguments first.
func (p *program) withSupply(check func(*cli.Context) error, do func(ctx context.Context, s *supply.Supply, words []string) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		if err := p.output(c); err != nil {
			return err
		}
		s, err := openSupply(c.Context, originOf(c))
		if err != nil {
			return err
		}
		if err := check(c); err != nil {
			return err
		}
		return do(c.Context, s, c.Args().Slice())
	}
}

func (p *program) bundleBuild(ctx context.Context, s *supply.Supply, names []string) error {
	items, err := s.Choose(ctx, names)
	if err != nil {
		return err
	}
	for _, i := range items {
		began := time.Now()
		if err := p.ui.Narrate(func(progress lab.Progress) error { return s.Bring(ctx, i, progress) }); err != nil {
			return err
		}
		if !i.Present {
			p.ui.Println(fmt.Sprintf("%s %s is available   %s", i.Kind, i.Title(), ui.Duration(time.Since(began))))
		}
	}
	return p.bundleList(ctx, s, nil)
}

func (p *program) bundleList(ctx context.Context, s *supply.Supply, _ []string) error {
	items, err := s.List(ctx)
	if err != nil {
		return err
	}
	return p.ui.Bundle(present.Bundle(items))
}

func (p *program) bundleSave(ctx context.Context, s *supply.Supply, file []string) error {
	if err := p.ui.Narrate(func(progress lab.Progress) error { return s.Save(ctx, file[0], progress) }); err != nil {
		return err
	}
	return p.bundleList(ctx, s, nil)
}

func (p *program) bundlePush(ctx context.Context, s *supply.Supply, mirror []string) error {
	if err := p.ui.Narrate(func(progress lab.Progress) error { return s.Push(ctx, mirror[0], progress) }); err != nil {
		return err
	}
	return p.bundleList(ctx, s, nil)
}

// bundleLoad uses neither registry nor engine: it is the first step on a machine without a network.
func (p *program) bundleLoad(ctx context.Context, file string) error {
	root, err := state.CacheRoot()
	if err != nil {
		return err
	}
	var s *supply.Supply
	err = p.ui.Narrate(func(progress lab.Progress) (err error) {
		s, err = supply.Load(ctx, supply.Options{CacheDir: root}, file, progress)
		return err
	})
	if err != nil {
		return err
	}
	return p.bundleList(ctx, s, nil)
}
