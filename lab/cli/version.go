package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"

	"homelab/lab/ui"
)

func version() ui.VersionResult {
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

func (p *program) versionCommand() *cli.Command {
	return &cli.Command{
		Name:        "version",
		Usage:       "show the version of lab and of what it carries",
		Description: examples("lab version", "lab version -o json"),
		Flags:       []cli.Flag{outputFlag},
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			if err := p.output(c); err != nil {
				return err
			}
			v := version()
			return p.ui.Result(v, fmt.Sprintf("lab %s (%s, kind %s, helm %s)", v.Version, v.Go, v.Kind, v.Helm))
		},
	}
}
