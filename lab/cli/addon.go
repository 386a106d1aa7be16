package cli

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"slices"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/estate"
	"homelab/lab/fieldpath"
	"homelab/lab/strict"
	"homelab/lab/supply"
	"homelab/lab/ui"
	"homelab/lab/workspace"
	"homelab/lab/yamledit"
)

func (p *program) addonCommand() *cli.Command {
	sw := func(name, usage string, on bool, uses ...string) *cli.Command {
		return &cli.Command{
			Name: name, Usage: usage, ArgsUsage: "ADDON...",
			Description: "Edits spec.addons of each cluster.yaml, where comments stay, and writes the manifests that lead Flux to it. What would leave the estate invalid, or not\n" +
				"select the addon, is an error, and then nothing is written. lab up makes the lab follow.\n\n" + examples(uses...),
			Flags: []cli.Flag{
				nameFlag, estateFlag, outputFlag,
				&cli.StringSliceFlag{Name: "cluster", Usage: "in `CLUSTER`; may be repeated"},
				&cli.StringSliceFlag{Name: "env", Usage: "in all clusters of `ENV`; may be repeated"},
			},
			Action: p.labAction(p.open, argv.AnyArgs, func(c *cli.Context, ws *workspace.Workspace) error {
				return p.switchAddons(ws, c.Args().Slice(), c.StringSlice("cluster"), c.StringSlice("env"), on)
			}),
		}
	}
	return &cli.Command{
		Name: "addon", Usage: "the addons of the estate: list them, and switch them in clusters",
		Subcommands: []*cli.Command{
			{
				Name: "ls", Usage: "list addons, the clusters that have them, and what their images take",
				Description: "The size is that of the images; memory and seconds until it is ready are what was measured once, with the images at hand, and - was not. The last column is what\nbuilding missing images from source takes here. Works without a running lab.\n\n" +
					examples("lab addon ls", "lab addon ls --engine flux", "lab addon ls -o json"),
				Flags: []cli.Flag{nameFlag, estateFlag, outputFlag, engineFlag, versionFlag, imagesFlag},
				Action: p.labAction(p.open, argv.NoArgs, func(c *cli.Context, ws *workspace.Workspace) error {
					return p.addons(c.Context, ws, originOf(c))
				}),
			},
			sw("enable", "switch addons on in clusters", true, "lab addon enable podinfo --cluster dev", "lab addon enable identity --env prod"),
			sw("disable", "switch addons off in clusters", false, "lab addon disable podinfo --cluster dev", "lab addon disable identity --env prod"),
		},
	}
}

func (p *program) addons(ctx context.Context, ws *workspace.Workspace, from origin) error {
	s, err := p.local(ctx, from)
	if err != nil {
		return err
	}
	est, err := ws.Load(supplied(ctx, s)...)
	if err != nil {
		return err
	}
	files, err := toggled(est, est.Clusters, names(est.Addons), true)
	if err != nil {
		return err
	}
	// What an addon needs is known of one that is on. With Flux, nothing leads to what is off, but an ApplicationSet does.
	all, _, _, err := ws.Having(withEdits{est.FS, files}, mountsOf(est)).Inspect(append(supplied(ctx, s), estate.Ungenerated(), estate.WithEngine(lab.EngineArgoCD))...)
	if err != nil {
		return err
	}
	items, err := s.List(ctx)
	if err != nil {
		return err
	}
	figures, err := supply.Figures()
	if err != nil {
		return err
	}
	res := ui.AddonResult{Lab: ws.Name, Engine: string(est.Hub().Engine.Type)}
	for _, a := range est.Addons {
		entry := ui.AddonEntry{Name: a.Name}
		for _, c := range est.Clusters {
			if c.Has(a.Name) {
				entry.On = append(entry.On, c.Name)
			} else {
				entry.Off = append(entry.Off, c.Name)
			}
		}
		var images []string
		for _, g := range slices.Concat(est.Applications, all.Applications) {
			if g.Addon == a.Name {
				images = append(images, g.Images...)
				for _, c := range g.Charts {
					images = append(images, s.ImagesOf(c.Name, c.Version)...)
				}
			}
		}
		slices.Sort(images)
		for _, i := range items {
			if i.Kind != supply.KindImage || !slices.Contains(images, i.Name) {
				continue
			}
			entry.Images = append(entry.Images, i.Ref)
			entry.Bytes += i.Size
			entry.Memory += int64(figures[i.Name].Memory) * 1e6
			entry.Ready = max(entry.Ready, float64(figures[i.Name].Seconds))
			if !i.Present {
				entry.Missing = append(entry.Missing, i.Ref)
				entry.MissingBytes += int64(figures[i.Name].Size) * 1e6
				entry.Seconds += i.Seconds
			}
		}
		res.Addons = append(res.Addons, entry)
	}
	return p.ui.Addons(res)
}

// switchAddons switches addons in clusters, in all files or in none.
func (p *program) switchAddons(ws *workspace.Workspace, addons, clusters, envs []string, on bool) error {
	verb := map[bool]string{true: "enable", false: "disable"}[on]
	usage := func(message, cure string) error {
		return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: message, Cure: cure}
	}
	switch {
	case ws.Estate.Dir == "":
		return &lab.Error{Exit: lab.ExitInvalid, Code: "no_estate", Message: "the built-in estate is read-only", Cure: "lab init DIR writes it out"}
	case len(addons) == 0:
		return usage("lab addon "+verb+" takes the names of addons", "lab addon ls lists them")
	case len(clusters)+len(envs) == 0:
		return usage("in which clusters?", "--cluster NAME or --env NAME")
	}
	est, err := ws.Load()
	if err != nil {
		return err
	}
	for _, name := range addons {
		if _, known := est.Addon(name); !known {
			cure := "lab addon ls lists them"
			if best := strict.Closest(name, names(est.Addons)); best != "" {
				cure = fmt.Sprintf("did you mean %q?", best)
			}
			return usage(fmt.Sprintf("no addon %q in the estate", name), cure)
		}
	}
	var chosen []lab.Cluster
	for _, name := range clusters {
		if err := hasCluster(est, name); err != nil {
			return err
		}
	}
	for _, env := range envs {
		if !slices.ContainsFunc(est.Clusters, func(c lab.Cluster) bool { return c.Environment == env }) {
			return usage(fmt.Sprintf("no cluster of environment %q in the estate", env), "lab bridge show lists them")
		}
	}
	for _, c := range est.Clusters {
		if slices.Contains(clusters, c.Name) || c.Environment != "" && slices.Contains(envs, c.Environment) {
			chosen = append(chosen, c)
		}
	}
	files, err := toggled(est, chosen, addons, on)
	if err != nil {
		return err
	}
	after, err := ws.Having(withEdits{est.FS, files}, mountsOf(est)).Load(estate.Ungenerated())
	if err != nil {
		return err
	}
	res := ui.AddonSwitch{On: on}
	for _, was := range chosen {
		is, _ := after.Cluster(was.Name)
		for _, name := range addons {
			if is.Has(name) != on {
				a, _ := est.Addon(name)
				return &lab.Error{
					Exit: lab.ExitInvalid, Code: "not_selected", Message: fmt.Sprintf("spec.addons.%s of cluster %s does not decide whether it has the addon", name, was.Name),
					Cure: fmt.Sprintf("change what selects clusters: %s, or the labels that it reads", a.Position("generators")),
				}
			}
			if was.Has(name) != on {
				res.Changed = append(res.Changed, ui.SwitchedAddon{Addon: name, Cluster: was.Name, File: was.File, Line: is.Position("spec.addons." + name).Line})
			}
		}
	}
	generates := len(files) > 0 && keepsFlux(ws, est, files)
	if err := overwrite(ws.Estate.Dir, files); err != nil {
		return err
	}
	if generates {
		done, err := ws.Generate()
		if err != nil {
			return err
		}
		res.Written, res.Removed = done.Written, done.Removed
	}
	return p.ui.AddonsSwitched(res, ws.OnEstate("lab up"))
}

// keepsFlux reports whether an estate has current manifests of Flux, its engine or not, and can have them after an edit.
func keepsFlux(ws *workspace.Workspace, est *lab.Estate, files map[string][]byte) bool {
	if est.Hub().Engine.Type == lab.EngineFlux {
		return true
	}
	if _, err := ws.Load(estate.WithEngine(lab.EngineFlux)); err != nil {
		return false
	}
	_, err := ws.Having(withEdits{est.FS, files}, mountsOf(est)).Load(estate.WithEngine(lab.EngineFlux), estate.Ungenerated())
	return err == nil
}

// toggled returns the cluster.yaml files in which addons are on or off, where that changes them.
func toggled(est *lab.Estate, clusters []lab.Cluster, addons []string, on bool) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, c := range clusters {
		before, err := fs.ReadFile(est.FS, c.File)
		if err != nil {
			return nil, err
		}
		data := before
		for _, name := range addons {
			if is, set := c.Addons[name]; is == on && (set || !on) {
				continue
			}
			if data, err = yamledit.Set(data, fieldpath.Of("spec", "addons", name), on); err != nil {
				return nil, fmt.Errorf("%s: %w", c.File, err)
			}
		}
		if !bytes.Equal(before, data) {
			files[c.File] = data
		}
	}
	return files, nil
}

func names(addons []lab.Addon) []string {
	var list []string
	for _, a := range addons {
		list = append(list, a.Name)
	}
	return list
}

// mountsOf returns the mounted repositories of an estate as they are.
func mountsOf(est *lab.Estate) func(dir string) (fs.FS, error) {
	return func(dir string) (fs.FS, error) {
		for _, r := range est.Repositories {
			if r.Dir == dir {
				return r.FS, nil
			}
		}
		return nil, nil
	}
}

// withEdits are files of which some have another content.
type withEdits struct {
	fs.FS
	files map[string][]byte
}

func (e withEdits) Open(name string) (fs.File, error) {
	f, err := e.FS.Open(name)
	data, is := e.files[name]
	if err != nil || !is {
		return f, err
	}
	return content{f, bytes.NewReader(data)}, nil
}

// content is a file with another content.
type content struct {
	fs.File
	*bytes.Reader
}

func (c content) Read(p []byte) (int, error) { return c.Reader.Read(p) }

func (c content) Stat() (fs.FileInfo, error) {
	info, err := c.File.Stat()
	return sized{info, c.Reader.Size()}, err
}

type sized struct {
	fs.FileInfo
	size int64
}

func (s sized) Size() int64 { return s.size }
