package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/supply"
	"homelab/lab/ui"
)

var (
	packagesFlag    = &cli.BoolFlag{Name: "packages", Usage: "with -o json, also list the Debian packages in each image"}
	signFlag        = &cli.StringFlag{Name: "sign", Usage: "sign the archive with a minisign `KEY`"}
	sha256Flag      = &cli.StringFlag{Name: "sha256", Usage: "load only the file with this `DIGEST`"}
	verifyFlag      = &cli.StringFlag{Name: "verify", Usage: "load only what this minisign `KEY` signed in FILE.minisig: a file, or the key itself"}
	trustBundleFlag = &cli.BoolFlag{Name: "trust", Usage: "load the file without verifying its author"}
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
				Description: "-o json shows what each item is verified against, and which Go modules it is built from.\n\n" +
					examples("lab bundle ls", "lab bundle ls -o json", "lab bundle ls -o json --packages"),
				Flags: append(slices.Clone(flags), packagesFlag),
				Action: func(c *cli.Context) error {
					return p.withSupply(argv.AnyArgs, func(ctx context.Context, s *supply.Supply, _ []string) error {
						return p.bundleShow(ctx, s, supply.Bundle{}, c.Bool("packages"))
					})(c)
				},
			},
			{
				Name: "sbom", Usage: "print an SBOM of images and charts, as a CycloneDX document", ArgsUsage: "[COMPONENT...]",
				Description: "It names the Go modules of every program, read from the programs in the images, the Debian packages, and the charts that are available.\n\n" +
					examples("lab bundle sbom", "lab bundle sbom node"),
				Flags: []cli.Flag{engineFlag, imagesFlag, mirrorFlag},
				Action: p.withSupply(argv.AnyArgs, func(ctx context.Context, s *supply.Supply, names []string) error {
					return s.SBOM(ctx, names, p.env.Out)
				}),
			},
			{
				Name: "save", Usage: "write every image and chart to one archive", ArgsUsage: "FILE",
				Description: "The archive is a zstd-compressed tar of OCI layouts and charts, so that another machine needs neither a registry nor a compiler.\n" +
					"--sign writes FILE.minisig beside it, for lab bundle load --verify.\n\n" +
					examples("lab bundle save lab.tar.zst", "lab bundle save --sign minisign.key lab.tar.zst"),
				Flags: append(slices.Clone(flags), signFlag),
				Action: func(c *cli.Context) error {
					return p.withSupply(argv.ExactlyOne("one file", "lab.tar.zst"), func(ctx context.Context, s *supply.Supply, file []string) error {
						return p.bundleSave(ctx, s, file[0], c.String("sign"))
					})(c)
				},
			},
			{
				Name: "load", Usage: "import the images and charts of an archive", ArgsUsage: "FILE",
				Description: "The node image of a bundle runs privileged: its author gets root on this machine. A bundle is therefore loaded only by digest, by signature,\n" +
					"or after confirmation. The decision is recorded, also for --images bundle=FILE.\n\n" +
					examples("lab bundle load lab.tar.zst", "lab bundle load --sha256 DIGEST lab.tar.zst", "lab bundle load --verify minisign.pub lab.tar.zst", "lab up --images bundle=lab.tar.zst"),
				Flags: []cli.Flag{outputFlag, sha256Flag, verifyFlag, trustBundleFlag},
				Action: func(c *cli.Context) error {
					if err := p.output(c); err != nil {
						return err
					}
					if err := argv.ExactlyOne("one file", "lab.tar.zst")(c); err != nil {
						return err
					}
					terms := supply.Terms{SHA256: c.String("sha256"), Key: c.String("verify"), Any: c.Bool("trust")}
					return p.bundleLoad(c.Context, c.Args().First(), terms)
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
		from := originOf(c)
		s, err := openSupply(c.Context, from)
		if err != nil {
			return err
		}
		if err := check(c); err != nil {
			return err
		}
		if c.Command.Name != "ls" { // which only reads the list
			if err := p.acceptBundle(c.Context, from); err != nil {
				return err
			}
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
	return p.bundleShow(ctx, s, supply.Bundle{}, false)
}

func (p *program) bundleSave(ctx context.Context, s *supply.Supply, file, key string) error {
	if err := p.ui.Narrate(func(progress lab.Progress) error { return s.Save(ctx, file, progress) }); err != nil {
		return err
	}
	if key != "" {
		if err := supply.Sign(ctx, file, key, p.password); err != nil {
			return err
		}
	}
	b, err := supply.Inspect(ctx, file)
	if err != nil {
		return err
	}
	return p.bundleShow(ctx, s, b, false)
}

// password asks for the password of a key.
func (p *program) password() (string, error) {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return "", &lab.Error{
			Exit: lab.ExitInvalid, Code: "usage", Message: "the key has a password, which can be entered only on a terminal",
			Cure: "run it on a terminal, or use a key without one (minisign -G -W)",
		}
	}
	p.ui.Println("password of the key:")
	secret, err := term.ReadPassword(int(os.Stdin.Fd()))
	return string(secret), err
}

func (p *program) bundlePush(ctx context.Context, s *supply.Supply, mirror []string) error {
	if err := p.ui.Narrate(func(progress lab.Progress) error { return s.Push(ctx, mirror[0], progress) }); err != nil {
		return err
	}
	return p.bundleList(ctx, s, nil)
}

// bundleLoad uses neither registry nor engine: it is the first step on a machine without a network.
func (p *program) bundleLoad(ctx context.Context, file string, terms supply.Terms) error {
	o, err := supplyOptions(origin{})
	if err != nil {
		return err
	}
	b, err := p.accept(ctx, o, file, terms)
	if err != nil {
		return err
	}
	var s *supply.Supply
	err = p.ui.Narrate(func(progress lab.Progress) (err error) {
		s, err = supply.Load(ctx, o, file, progress)
		return err
	})
	if err != nil {
		return err
	}
	return p.bundleShow(ctx, s, b, false)
}

// bundleShow lists images and charts, and the digest and origin of a file with them, if there is one.
func (p *program) bundleShow(ctx context.Context, s *supply.Supply, b supply.Bundle, packages bool) error {
	items, err := s.List(ctx)
	if err != nil {
		return err
	}
	res := bundleResult(items)
	for n, i := range items {
		if !packages {
			break
		}
		list, err := s.Debian(ctx, i)
		if err != nil {
			return err
		}
		res.Items[n].Debian = bundlePackages(list)
	}
	if b.File != "" {
		p.ui.Println(b.String())
	}
	res.File, res.SHA256, res.MadeBy, res.MadeFrom = b.File, b.SHA256, b.Made.By, b.Made.From
	if !b.Made.At.IsZero() {
		res.MadeAt = b.Made.At.Format(time.RFC3339)
	}
	return p.ui.Bundle(res)
}

// acceptBundle asks the user to accept the bundle of --images bundle=FILE, unless it was accepted before.
func (p *program) acceptBundle(ctx context.Context, from origin) error {
	file, ok := supply.Mode(from.images).Bundle()
	if !ok {
		return nil
	}
	o, err := supplyOptions(from)
	if err != nil {
		return err
	}
	_, err = p.accept(ctx, o, file, supply.Terms{})
	return err
}

func (p *program) accept(ctx context.Context, o supply.Options, file string, terms supply.Terms) (supply.Bundle, error) {
	terms.Load = func(digest, file string) string { return lab.Quote("lab", "bundle", "load", "--sha256", digest, file) }
	terms.Ask = func(ctx context.Context, b supply.Bundle) (bool, error) {
		p.ui.Println(b.String())
		p.ui.Println("its node image runs privileged: its author gets root on this machine")
		return p.ui.Ask(ctx, "load it?", nil)
	}
	return supply.Accept(ctx, o, file, terms, nil)
}

// bundleResult lists images and charts.
func bundleResult(items []supply.Item) ui.BundleResult {
	var res ui.BundleResult
	for _, i := range items {
		res.Items = append(res.Items, ui.BundleItem{
			Kind: string(i.Kind), Name: i.Name, Ref: i.Ref, Digest: i.Digest, Bytes: i.Size, Origin: string(i.Origin), AtHand: i.Present,
			Version: i.Version, Check: string(i.Verdict.Check), Why: i.Verdict.Why, Modules: bundleModules(i.Modules),
		})
	}
	return res
}

func bundleModules(list []supply.Module) []ui.BundleModule {
	var out []ui.BundleModule
	for _, m := range list {
		out = append(out, ui.BundleModule(m))
	}
	return out
}

// bundlePackages converts NAME=VERSION.
func bundlePackages(list []string) []ui.BundlePackage {
	var out []ui.BundlePackage
	for _, p := range list {
		name, version, _ := strings.Cut(p, "=")
		out = append(out, ui.BundlePackage{Name: name, Version: version})
	}
	return out
}
