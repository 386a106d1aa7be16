package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/doctor"
	"homelab/lab/ui"
)

func (p *program) statusCommand() *cli.Command {
	return &cli.Command{
		Name:  "status",
		Usage: "clusters and addons, with version, sync and health",
		Description: "Exit status 4 with --check when something is not in sync, not healthy or not ready.\n\n" +
			examples("lab status", "lab status -o json", "lab status --check"),
		Flags: []cli.Flag{
			nameFlag, estateFlag, outputFlag,
			&cli.BoolFlag{Name: "check", Usage: "exit with 4 unless everything is ready, in sync and healthy"},
		},
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			s, err := p.existing(c)
			if err != nil {
				return err
			}
			est, err := s.load()
			if err != nil {
				return err
			}
			w, err := s.openWorld(est, doctor.Traits{})
			if err != nil {
				return err
			}
			st, err := w.status(c.Context)
			if err != nil {
				return err
			}
			if err := p.ui.Status(st); err != nil {
				return err
			}
			if c.Bool("check") && !wellOff(st) {
				return exitError{lab.ExitUnmet}
			}
			return nil
		},
	}
}

func (w *world) status(ctx context.Context) (ui.Status, error) {
	states, err := w.kind.Observe(ctx)
	if err != nil {
		return ui.Status{}, err
	}
	byName := map[string]lab.ClusterState{}
	for _, s := range states {
		byName[s.Name] = s
	}
	clusters := w.states(byName)
	st := ui.Status{
		Lab: w.name, Clusters: ui.StatusClusters(clusters),
		Endpoints: []ui.Endpoint{
			{Name: "argocd", URL: w.argocdURL(), User: w.creds.ArgoCDUser, PasswordBy: w.command("lab creds argocd")},
			{Name: "forge", URL: w.forgeURL(), User: w.creds.ForgeUser, PasswordBy: w.command("lab creds forge")},
		},
	}
	hub := byName[w.hubName()]
	if !hub.Running || hub.Kubernetes == "" {
		return st, nil
	}
	e, err := w.engine()
	if err != nil {
		return st, err
	}
	seen, err := e.Observe(ctx)
	if err != nil || !seen.Installed() {
		return st, err
	}
	st.Engine = string(lab.EngineArgoCD)
	standing, err := e.Standing(ctx)
	if err != nil {
		return st, err
	}
	asked := w.switched(true, registered(w.est, seen.Registrations))
	st.Applications, st.Revision = withMissing(doubted(standing.Applications, clusters), asked), standing.Revision
	return st, nil
}

// doubted says of applications whose cluster does not answer that nobody knows: the engine goes on showing what it saw last.
func doubted(applications []lab.Application, clusters []lab.ClusterState) []lab.Application {
	for i := range applications {
		a := &applications[i]
		if slices.ContainsFunc(clusters, func(c lab.ClusterState) bool { return c.Name == a.Cluster && c.Kubernetes == "" }) {
			a.Message = fmt.Sprintf("cluster %s does not answer; last seen %s, %s", a.Cluster, a.Sync, a.Health)
			a.Sync, a.Health = "Unknown", "Unknown"
		}
	}
	return applications
}

// states are the estate's clusters with what was seen of each.
func (w *world) states(seen map[string]lab.ClusterState) []lab.ClusterState {
	var list []lab.ClusterState
	for _, c := range w.est.Clusters {
		st := seen[c.Name]
		st.Name, st.Role, st.Env = c.Name, c.Role, c.Environment
		list = append(list, st)
	}
	return list
}

// withMissing adds the applications that are asked for and not there: nothing else would show them.
func withMissing(have, asked []lab.Application) []lab.Application {
	for _, a := range asked {
		if !slices.ContainsFunc(have, func(h lab.Application) bool { return h.Cluster == a.Cluster && h.Addon == a.Addon }) {
			a.Sync, a.Health, a.Message = "Unknown", "Missing", "the estate asks for it, and it is not there"
			have = append(have, a)
		}
	}
	slices.SortFunc(have, func(a, b lab.Application) int { return cmp.Compare(a.Name, b.Name) })
	return have
}

func wellOff(s ui.Status) bool {
	for _, c := range s.Clusters {
		if !c.Ready {
			return false
		}
	}
	for _, a := range s.Applications {
		if !a.Converged() {
			return false
		}
	}
	return len(s.Clusters) > 0 && s.Engine != ""
}
