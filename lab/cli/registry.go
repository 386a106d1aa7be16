package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/docker"
	"homelab/lab/registry"
	"homelab/lab/service"
	"homelab/lab/supply"
	"homelab/lab/ui"
	"homelab/lab/workspace"
)

func (p *program) registryCommand() *cli.Command {
	return &cli.Command{
		Name:  "registry",
		Usage: "the lab's registry for images and charts",
		Subcommands: []*cli.Command{
			{
				Name: "push", Usage: "push an image or a chart", ArgsUsage: "IMAGE|FILE|DIR [NEW]",
				Description: "IMAGE is an image of the docker engine, or one that lab has built; FILE a packed chart (.tgz) or what docker save writes (.tar); DIR an OCI image layout.\n" +
					"NEW is what the registry calls it, NAME or NAME:TAG: by default the image's own name without its registry. A chart keeps its name and version, and NEW is\n" +
					"the folder to put it in, charts by default. A tag that exists is moved.\n\n" +
					examples("lab registry push podinfo:dev", "lab registry push ghcr.io/stefanprodan/podinfo:6.9.2 team/podinfo:1", "lab registry push web-0.1.0.tgz", "lab registry push ./layout team/tool:1 -o json"),
				Flags: []cli.Flag{nameFlag, estateFlag, outputFlag},
				Action: p.labAction(p.existing, argv.Count("an image, a file or a folder, and optionally a name", func(n int) bool { return n == 1 || n == 2 }), func(c *cli.Context, ws *workspace.Workspace) error {
					return p.registryPush(c.Context, ws, c.Args().Get(0), c.Args().Get(1))
				}),
			},
			{
				Name: "ls", Usage: "list what the registry has",
				Description: examples("lab registry ls", "lab registry ls -o json"),
				Flags:       []cli.Flag{nameFlag, estateFlag, outputFlag},
				Action: p.labAction(p.existing, argv.NoArgs, func(c *cli.Context, ws *workspace.Workspace) error {
					return p.registryList(c.Context, ws)
				}),
			},
			{
				Name: "rm", Usage: "remove tags", ArgsUsage: "NAME:TAG...",
				Description: "What a tag named stays in the registry's volume, under its other tags and by digest.\n\n" + examples("lab registry rm team/podinfo:1"),
				Flags:       []cli.Flag{nameFlag, estateFlag, outputFlag},
				Action: p.labAction(p.existing, argv.Count("names with tags", func(n int) bool { return n > 0 }), func(c *cli.Context, ws *workspace.Workspace) error {
					return p.registryRemove(c.Context, ws, c.Args().Slice())
				}),
			},
			{
				Name: "url", Usage: "print the registry's address on this machine",
				Description: examples("lab registry url", "lab registry url --credentials") +
					"\n\nIn the lab the registry is called " + registry.Of(registry.Credentials{}).Host + ". With --credentials the address contains the password: use it in commands, not in files.",
				Flags: []cli.Flag{nameFlag, estateFlag, outputFlag, &cli.BoolFlag{Name: "credentials", Usage: "include user and password in the address"}},
				Action: p.labAction(p.existing, argv.NoArgs, func(c *cli.Context, ws *workspace.Workspace) error {
					return p.registryURL(ws, c.Bool("credentials"))
				}),
			},
		},
	}
}

// registryPort returns the port of a lab's registry on this machine, or an error if it has none.
func registryPort(ws *workspace.Workspace) (int, error) {
	if port := ws.Dir.PortOf(service.PortName(registry.Name, registry.Port)); port != 0 {
		return port, nil
	}
	return 0, &lab.Error{
		Exit: lab.ExitFailed, Code: "no_registry", Message: "lab " + ws.Name + " has no registry",
		Cure: "add spec.registry: {} to the hub's cluster.yaml, then " + ws.OnEstate("lab up"),
	}
}

// registryClient returns a client of the lab's registry, which must answer.
func registryClient(ctx context.Context, ws *workspace.Workspace) (registry.Client, error) {
	port, err := registryPort(ws)
	if err != nil {
		return registry.Client{}, err
	}
	creds, err := ws.Dir.Credentials()
	if err != nil {
		return registry.Client{}, err
	}
	c := registry.Client{Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), User: creds.RegistryUser, Password: creds.RegistryPassword}
	if err := c.Answers(ctx); err != nil {
		return c, &lab.Error{
			Exit: lab.ExitFailed, Code: "no_registry", Message: "the registry of lab " + ws.Name + " does not answer", Cure: ws.OnEstate("lab up") + " starts it", Err: err,
		}
	}
	return c, nil
}

func (p *program) registryURL(ws *workspace.Workspace, credentials bool) error {
	port, err := registryPort(ws)
	if err != nil {
		return err
	}
	creds, err := ws.Dir.Credentials()
	if err != nil {
		return err
	}
	at := url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	if credentials {
		at.User = url.UserPassword(creds.RegistryUser, creds.RegistryPassword)
	}
	return p.ui.Result(ui.RegistryURLResult{URL: at.String(), Host: registry.Of(registry.Credentials{}).Host}, at.String())
}

func (p *program) registryPush(ctx context.Context, ws *workspace.Workspace, what, to string) error {
	c, err := registryClient(ctx, ws)
	if err != nil {
		return err
	}
	var pushed registry.Content
	err = p.ui.Narrate(func(progress lab.Progress) (err error) {
		pushed, err = push(ctx, c, docker.New(), what, to, progress)
		return err
	})
	if err != nil {
		return err
	}
	return p.ui.RegistryPushed(ui.RegistryPushResult{Lab: ws.Name, Pushed: registryContent(pushed)})
}

// push pushes a chart, a file, a folder, or an image of the engine or of lab's own.
func push(ctx context.Context, c registry.Client, d *docker.Docker, what, to string, p lab.Progress) (registry.Content, error) {
	info, err := os.Stat(what)
	switch {
	case err == nil && info.IsDir():
		if to == "" {
			to = strings.ToLower(filepath.Base(what))
		}
		p("pushing " + to)
		return c.PushImage(ctx, registry.Source{Layout: what}, to)
	case err == nil && (strings.HasSuffix(what, ".tgz") || strings.HasSuffix(what, ".tar.gz")):
		p("pushing " + filepath.Base(what))
		return c.PushChart(ctx, what, to)
	case err == nil:
		if to == "" {
			to = strings.ToLower(strings.TrimSuffix(filepath.Base(what), ".tar"))
		}
		p("pushing " + to)
		return c.PushImage(ctx, registry.Source{Archive: what}, to)
	case !errors.Is(err, fs.ErrNotExist):
		return registry.Content{}, err
	case strings.HasSuffix(what, ".tgz") || strings.HasSuffix(what, ".tar") || strings.HasPrefix(what, ".") || path.IsAbs(what):
		return registry.Content{}, &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: what + " does not exist", Cure: "lab registry push --help lists what can be pushed"}
	}
	ref, err := name.ParseReference(what)
	if err != nil {
		return registry.Content{}, &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("%q is neither a file nor the name of an image", what), Cure: "lab registry push --help lists what can be pushed"}
	}
	if to == "" {
		to = strings.TrimPrefix(ref.Context().RepositoryStr(), "library/") + ":" + tagOf(ref)
	}
	archive, done, err := archiveOf(ctx, d, what, p)
	if err != nil {
		return registry.Content{}, err
	}
	defer done()
	p("pushing " + to)
	return c.PushImage(ctx, registry.Source{Archive: archive}, to)
}

func tagOf(ref name.Reference) string {
	if tag, ok := ref.(name.Tag); ok {
		return tag.TagStr()
	}
	return name.DefaultTag
}

// archiveOf returns an archive of an image that the engine or lab has. done removes it if it is temporary.
func archiveOf(ctx context.Context, d *docker.Docker, ref string, p lab.Progress) (file string, done func(), err error) {
	_, found, err := d.ImageID(ctx, ref)
	if err != nil {
		return "", nil, err
	}
	if !found {
		return builtArchive(ctx, ref)
	}
	f, err := os.CreateTemp("", "lab-push-*.tar")
	if err != nil {
		return "", nil, err
	}
	done = func() { _ = os.Remove(f.Name()) }
	p("saving " + ref)
	if err := errors.Join(d.Run(ctx, nil, f, "save", ref), f.Close()); err != nil {
		done()
		return "", nil, err
	}
	return f.Name(), done, nil
}

// builtArchive returns the archive of an image that lab has built or fetched, by reference or component.
func builtArchive(ctx context.Context, ref string) (string, func(), error) {
	o, err := supplyOptions(origin{})
	if err != nil {
		return "", nil, err
	}
	s, err := supply.Local(ctx, o)
	if err != nil {
		return "", nil, err
	}
	component := s.ByRef(ref)
	if component == "" {
		component = ref
	}
	if s.Key(component) == "" || !s.Present(component, "", "") {
		return "", nil, &lab.Error{
			Exit: lab.ExitInvalid, Code: "no_image", Message: "neither the docker engine nor lab has the image " + ref,
			Cure: "build or pull it with docker; lab bundle ls lists lab's own",
		}
	}
	image, err := s.Image(ctx, component, nil)
	return image.Archive, func() { /* it is lab's cache */ }, err
}

func (p *program) registryList(ctx context.Context, ws *workspace.Workspace) error {
	c, err := registryClient(ctx, ws)
	if err != nil {
		return err
	}
	list, err := c.List(ctx)
	if err != nil {
		return err
	}
	res := ui.RegistryListResult{Lab: ws.Name}
	for _, content := range list {
		res.Contents = append(res.Contents, registryContent(content))
	}
	return p.ui.Registry(res, ws.Command("lab registry push"))
}

func (p *program) registryRemove(ctx context.Context, ws *workspace.Workspace, names []string) error {
	c, err := registryClient(ctx, ws)
	if err != nil {
		return err
	}
	res := ui.RegistryRemoveResult{Lab: ws.Name}
	for _, which := range names {
		had, err := c.Remove(ctx, which)
		if err != nil {
			return err
		}
		res.Removed = append(res.Removed, had.Name())
	}
	return p.ui.Result(res, "removed "+strings.Join(res.Removed, ", "))
}

func registryContent(c registry.Content) ui.RegistryContent {
	return ui.RegistryContent{Name: c.Name(), Repository: c.Repository, Tag: c.Tag, Digest: c.Digest, Kind: c.Kind, Bytes: c.Size}
}
