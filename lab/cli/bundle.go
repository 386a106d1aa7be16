package cli

import (
	"fmt"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/bundle"
	"homelab/lab/docker"
	"homelab/lab/state"
	"homelab/lab/ui"
)

func (p *program) bundleCommand() *cli.Command {
	flags := []cli.Flag{outputFlag, imagesFlag, mirrorFlag}
	return &cli.Command{
		Name:  "bundle",
		Usage: "the images and charts of a lab: build, list, save, load and push them",
		Subcommands: []*cli.Command{
			{
				Name:        "build",
				Usage:       "bring every image and chart to hand, building or fetching what is missing",
				ArgsUsage:   "[COMPONENT...]",
				Description: "What has not changed is not built again.\n\n" + examples("lab bundle build", "lab bundle build node argocd", "lab bundle build --images registry"),
				Flags:       flags,
				Action:      p.withSupply(p.bundleBuild),
			},
			{
				Name: "ls", Usage: "list every image and chart, and whether it is at hand",
				Description: examples("lab bundle ls", "lab bundle ls -o json"),
				Flags:       flags,
				Action:      p.withSupply(p.bundleList),
			},
			{
				Name: "save", Usage: "write every image and chart to one archive", ArgsUsage: "FILE",
				Description: "The archive is a zstd-compressed tar of OCI layouts and charts: another machine needs no registry and no compiler.\n\n" +
					examples("lab bundle save lab.tar.zst"),
				Flags:  flags,
				Action: p.withSupply(p.bundleSave),
			},
			{
				Name: "load", Usage: "bring an archive's images and charts to hand on this machine", ArgsUsage: "FILE",
				Description: examples("lab bundle load lab.tar.zst", "lab up --images bundle=lab.tar.zst"),
				Flags:       []cli.Flag{outputFlag},
				Action:      p.bundleLoad,
			},
			{
				Name: "push", Usage: "fill a registry with every image and chart, as a mirror for other machines", ArgsUsage: "HOST[:PORT]",
				Description: "Images keep their names under the mirror's; charts go to charts/. Credentials are those of docker login. What is pushed says its own digests.\n\n" +
					examples("lab bundle push registry.example.com", "lab up --images registry --registry-mirror registry.example.com"),
				Flags:  flags,
				Action: p.withSupply(p.bundlePush),
			},
		},
	}
}

// withSupply opens the supply for a command that needs no lab.
func (p *program) withSupply(do func(*cli.Context, *bundle.Supply) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		if err := p.output(c); err != nil {
			return err
		}
		supply, err := (&session{program: p}).openSupply(c.Context, docker.New(), c)
		if err != nil {
			return err
		}
		return do(c, supply)
	}
}

func (p *program) bundleBuild(c *cli.Context, supply *bundle.Supply) error {
	items, err := supply.List(c.Context)
	if err != nil {
		return err
	}
	for _, word := range c.Args().Slice() {
		if !slices.ContainsFunc(items, func(i bundle.Item) bool { return i.Name == word }) {
			return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("no image or chart is called %q", word), Cure: "lab bundle ls"}
		}
	}
	for _, i := range items {
		if c.NArg() > 0 && !slices.Contains(c.Args().Slice(), i.Name) {
			continue
		}
		began := time.Now()
		if err := p.bringToHand(c, supply, i); err != nil {
			return err
		}
		if !i.AtHand {
			p.ui.Say(fmt.Sprintf("%s %s is at hand   %s", i.Kind, i.Title(), ui.Duration(time.Since(began))))
		}
	}
	return p.bundleList(c, supply)
}

func (p *program) bringToHand(c *cli.Context, supply *bundle.Supply, i bundle.Item) error {
	return p.ui.Narrate(func(progress lab.Progress) (err error) {
		if i.Kind == bundle.KindChart {
			_, err = supply.Chart(c.Context, i.Name, i.Version, progress)
		} else {
			_, err = supply.Image(c.Context, i.Name, progress)
		}
		return err
	})
}

func (p *program) bundleList(c *cli.Context, supply *bundle.Supply) error {
	items, err := supply.List(c.Context)
	if err != nil {
		return err
	}
	if p.ui.WantsJSON() {
		var res ui.BundleResult
		for _, i := range items {
			res.Items = append(res.Items, ui.BundleItem{
				Kind: string(i.Kind), Name: i.Name, Ref: i.Ref, Digest: i.Digest, Bytes: i.Size, Origin: string(i.Origin), AtHand: i.AtHand,
			})
		}
		return p.ui.JSON(res)
	}
	t := ui.Table{Head: []string{"KIND", "NAME", "REF", "ORIGIN", "SIZE"}}
	for _, i := range items {
		size := "-"
		if i.AtHand {
			size = ui.Size(i.Size)
		}
		t.Rows = append(t.Rows, []string{string(i.Kind), i.Name, i.Ref, string(i.Origin), size})
	}
	p.ui.Table(t)
	return nil
}

func oneFile(c *cli.Context) (string, error) {
	if c.NArg() != 1 {
		return "", &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: c.Command.HelpName + " takes one file", Cure: c.Command.HelpName + " lab.tar.zst"}
	}
	return c.Args().First(), nil
}

func (p *program) bundleSave(c *cli.Context, supply *bundle.Supply) error {
	file, err := oneFile(c)
	if err != nil {
		return err
	}
	if err := p.ui.Narrate(func(progress lab.Progress) error { return supply.Save(c.Context, file, progress) }); err != nil {
		return err
	}
	return p.bundleList(c, supply)
}

func (p *program) bundlePush(c *cli.Context, supply *bundle.Supply) error {
	if c.NArg() != 1 {
		return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: "lab bundle push takes one registry", Cure: "lab bundle push registry.example.com"}
	}
	if err := p.ui.Narrate(func(progress lab.Progress) error { return supply.Push(c.Context, c.Args().First(), progress) }); err != nil {
		return err
	}
	return p.bundleList(c, supply)
}

// bundleLoad asks neither registry nor engine: it is what a machine without a network begins with.
func (p *program) bundleLoad(c *cli.Context) error {
	if err := p.output(c); err != nil {
		return err
	}
	file, err := oneFile(c)
	if err != nil {
		return err
	}
	root, err := state.CacheRoot()
	if err != nil {
		return err
	}
	var supply *bundle.Supply
	err = p.ui.Narrate(func(progress lab.Progress) (err error) {
		supply, err = bundle.Load(c.Context, bundle.Options{CacheDir: root}, file, progress)
		return err
	})
	if err != nil {
		return err
	}
	return p.bundleList(c, supply)
}
