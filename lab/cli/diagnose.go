package cli

import (
	"cmp"
	"context"
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/diagnose"
	"homelab/lab/doctor"
	"homelab/lab/ui"
	"homelab/lab/workspace"
)

func (p *program) diagnoseCommand() *cli.Command {
	return &cli.Command{
		Name:      "diagnose",
		Usage:     "write an archive with everything needed to diagnose the lab",
		ArgsUsage: "[FILE]",
		Description: "Contains the checks of the machine, containers and their logs, nodes, pods, events, and the engine's objects. Secrets, values of environment " +
			"variables, passwords, tokens and keys are redacted, also where they are encoded. Clusters that lab did not create are left out unless --attached is set.\n\n" +
			examples("lab diagnose", "lab diagnose /tmp/lab.tar.gz", "lab diagnose --attached"),
		Flags: []cli.Flag{
			nameFlag, estateFlag, outputFlag,
			&cli.BoolFlag{Name: "attached", Usage: "include pods, events and logs of clusters with provider: existing"},
		},
		Action: p.labAction(p.existing, argv.AnyArgs, func(c *cli.Context, ws *workspace.Workspace) error {
			return p.diagnose(c.Context, ws, cmp.Or(c.Args().First(), "lab-"+ws.Name+"-diagnose.tar.gz"), c.Bool("attached"))
		}),
	}
}

func (p *program) diagnose(ctx context.Context, ws *workspace.Workspace, file string, attached bool) error {
	est, invalid := ws.Load()
	l, err := assemble(ws, parts{estate: est})
	if err != nil {
		return err
	}
	s := diagnose.Subject{Lab: ws.Name, Reach: l.core.Clusters.RESTConfig, Containers: l.docker, Engine: l.core.Definition}
	document := func(name string, get func(context.Context) (any, error)) {
		s.Documents = append(s.Documents, diagnose.Document{Name: name, Get: get})
	}
	document("version.json", func(context.Context) (any, error) { return versionInfo(), nil })
	document("lab.json", func(context.Context) (any, error) { return ws.Record, nil })
	document("doctor.json", func(ctx context.Context) (any, error) {
		return doctor.New(doctorOptions(false, ws, nil, nil)).Run(ctx), nil
	})
	if invalid != nil {
		document("estate.txt", func(context.Context) (any, error) { return nil, invalid })
	} else {
		document("status.json", func(ctx context.Context) (any, error) {
			st, err := l.core.Status(ctx)
			return statusResult(l.core, ws, st), err
		})
	}
	files, none := kubeconfigs(ws, nil)
	if none != nil {
		document("clusters.txt", func(context.Context) (any, error) { return nil, none })
	}
	for _, k := range files {
		s.Clusters = append(s.Clusters, k.Cluster)
	}
	if !attached {
		s.Attached = others(ws, est, s.Clusters)
	}
	s.Secrets, s.Private = ws.Dir.Secrets()
	s.Environment = os.Environ()
	if err := diagnose.Collect(ctx, s).Write(file); err != nil {
		return err
	}
	return p.ui.Result(ui.DiagnoseResult{File: file}, file)
}

// others returns the clusters that lab is not known to have created.
func others(ws *workspace.Workspace, est *lab.Estate, all []string) []string {
	own, err := ws.Dir.Contained()
	if err != nil {
		return all
	}
	existing := func(name string) bool {
		return est != nil && slices.ContainsFunc(est.Clusters, func(c lab.Cluster) bool { return c.Name == name && c.Provider == lab.ProviderExisting })
	}
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(own, name) && !existing(name) })
}
