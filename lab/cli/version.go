package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/urfave/cli/v2"

	"homelab/lab/argv"
	"homelab/lab/supply"
	"homelab/lab/supply/source"
	"homelab/lab/ui"
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
			v := versionInfo()
			var err error
			if v.Supply, err = versionSupply(); err != nil {
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

// versionSupply lists what lab knows of all images and charts.
func versionSupply() ([]ui.VersionSupply, error) {
	items, err := supply.Catalog()
	var list []ui.VersionSupply
	for _, i := range items {
		list = append(list, ui.VersionSupply{
			Kind: string(i.Kind), Name: i.Name, Version: i.Version, Ref: i.Ref, Origin: string(i.Origin), Digest: i.Digest,
			Check: string(i.Verdict.Check), Why: i.Verdict.Why, Modules: bundleModules(i.Modules),
		})
	}
	return list, err
}

// versionInfo returns the versions of the program and of its parts.
func versionInfo() ui.VersionResult {
	v := ui.VersionResult{Version: "dev", Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Revision = s.Value
		}
	}
	for _, m := range info.Deps {
		switch m.Path {
		case "sigs.k8s.io/kind":
			v.Kind = m.Version
		case "helm.sh/helm/v3":
			v.Helm = m.Version
		}
	}
	return v
}
