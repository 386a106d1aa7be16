package cli

import (
	"context"
	"slices"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/cluster"
	"homelab/lab/needs"
	"homelab/lab/trust"
	"homelab/lab/ui"
	"homelab/lab/up"
	"homelab/lab/workspace"
)

func (p *program) statusCommand() *cli.Command {
	return &cli.Command{
		Name:  "status",
		Usage: "clusters and addons, with version, sync and health",
		Description: "With --check, exits with status 4 unless everything is ready, in sync and healthy.\n\n" +
			examples("lab status", "lab status -o json", "lab status --check"),
		Flags: []cli.Flag{
			nameFlag, estateFlag, outputFlag,
			&cli.BoolFlag{Name: "check", Usage: "exit with 4 unless everything is ready, in sync and healthy"},
		},
		Action: p.labAction(p.existing, argv.NoArgs, func(c *cli.Context, ws *workspace.Workspace) error {
			return p.status(c.Context, ws, c.Bool("check"))
		}),
	}
}

func (p *program) status(ctx context.Context, ws *workspace.Workspace, check bool) error {
	l, err := assembleWithEstate(ctx, ws)
	if err != nil {
		return err
	}
	lacking, err := untrusted(ws, l.core.Estate)
	if err != nil {
		return err
	}
	gone, err := unavailable(ctx, ws, l.core.Estate)
	if err != nil {
		return err
	}
	needs.Mark(l.core.Estate, gone)
	st, err := l.core.Status(ctx)
	if err != nil {
		return err
	}
	res := statusResult(l.core, ws, st)
	distrust(&res, lacking)
	if err := p.ui.Status(res); err != nil {
		return err
	}
	if check && !st.Well() {
		return exitError{lab.ExitUnmet}
	}
	return nil
}

// statusResult converts the state of a lab, with commands to act on it.
func statusResult(l *up.Lab, ws *workspace.Workspace, st up.Status) ui.Status {
	res := ui.Status{
		Lab: ws.Name, Engine: string(st.Engine), Revision: st.Revision, Clusters: ui.StatusClusters(st.Clusters), Applications: st.Applications, Off: st.Off,
		OnlyInForge: onlyInForge(st.Losing),
	}
	for _, part := range st.Parts {
		res.Parts = append(res.Parts, ui.StatusPart{Name: part.Name, State: part.State.Phase()})
	}
	for _, c := range credentials(l) {
		res.Endpoints = append(res.Endpoints, ui.Endpoint{Name: c.Service, URL: c.URL, User: c.User, PasswordBy: ws.Command("lab creds " + lab.Quote(c.Service))})
	}
	if at := doorURL(l.Dir, ""); at != "" {
		res.Endpoints = append(res.Endpoints, ui.Endpoint{Name: "names", URL: at})
	}
	if len(st.Off) > 0 {
		res.Starts = ws.OnEstate("lab up")
	}
	res.OnlyInForge.ListedBy = ws.OnEstate("lab down --dry-run")
	return res
}

// distrust adds what is not trusted to a status. The state of an untrusted existing cluster is unknown, as it was not contacted.
func distrust(s *ui.Status, lacking []trust.Thing) {
	s.Untrusted = things(lacking)
	for i, c := range s.Clusters {
		if slices.ContainsFunc(lacking, func(t trust.Thing) bool { return t.Kind == trust.Cluster && t.Cluster == c.Name }) {
			s.Clusters[i].State = cluster.Untrusted
		}
	}
}
