package cli

import (
	"cmp"
	"context"
	"crypto/x509"
	"strings"

	"homelab/lab"
	"homelab/lab/engine/helm"
	"homelab/lab/needs"
	"homelab/lab/registry"
	"homelab/lab/scenario"
	"homelab/lab/scenario/live"
	"homelab/lab/supply"
	"homelab/lab/up"
	"homelab/lab/workspace"
)

// world returns the running lab as scenarios see it.
func (p *program) world(ctx context.Context, ws *workspace.Workspace, o playOptions, l *instance) (scenario.World, error) {
	e, err := l.core.Hub()
	if err != nil {
		return scenario.World{}, err
	}
	runs := cmp.Or(ws.Record.Type, l.core.Definition.Type)
	w, err := live.Stage{
		Lab: ws.Name, Estate: l.core.Estate, Engine: e, Type: runs, Docker: l.docker, Reach: l.core.Clusters.RESTConfig,
		Requests: live.Requests{Forge: l.gitea}, ForgeURL: l.core.ForgeURL(), User: l.core.Creds.ForgeUser, Password: l.core.Creds.ForgePassword,
	}.World(ctx)
	if err != nil {
		return scenario.World{}, err
	}
	others := live.Repositories{Forge: l.gitea, URL: l.core.ForgeURL(), Within: l.gitea.URL(), User: l.core.Creds.ForgeUser}
	w.Others, w.Bot = others, others.Bot
	if l.core.Registry.Host != "" {
		w.Registry = live.Registry{
			Client: func(ctx context.Context) (registry.Client, error) { return registryClient(ctx, ws) },
			Archive: func(ctx context.Context, image string) (string, func(), error) {
				return archiveOf(ctx, l.docker, image, func(string) {})
			},
		}
	}
	if err := throughDoor(ws, &w); err != nil {
		return scenario.World{}, err
	}
	asked := ws.Record.Asked // empty if the estate names the engine
	w.Switch = func(ctx context.Context, to lab.EngineType) (scenario.World, error) {
		as := to
		if to == runs {
			as = asked
		}
		next, err := p.switchEngine(ctx, ws, o, to, as)
		next.Switch, next.Renew, next.Upgrade = w.Switch, w.Renew, w.Upgrade
		return next, err
	}
	w.Renew = func(ctx context.Context, cluster string) (scenario.World, error) {
		next, err := p.renew(ctx, ws, o, cluster)
		next.Switch, next.Renew, next.Upgrade = w.Switch, w.Renew, w.Upgrade
		return next, err
	}
	w.Upgrade = func(ctx context.Context, values map[string]any) (scenario.World, map[string][]string, error) {
		next, changed, err := p.upgradeEngine(ctx, ws, o, values)
		next.Switch, next.Renew, next.Upgrade = w.Switch, w.Renew, w.Upgrade
		return next, changed, err
	}
	return w, nil
}

// upgradeEngine brings up the engine with values over those of the estate, and returns what that changed.
func (p *program) upgradeEngine(ctx context.Context, ws *workspace.Workspace, o playOptions, values map[string]any) (scenario.World, map[string][]string, error) {
	s, err := openSupply(ctx, o.origin)
	if err != nil {
		return scenario.World{}, nil, err
	}
	quiet := &program{env: p.env, ui: p.ui.Aside()}
	run := upOptions{origin: o.origin, run: up.Options{Timeout: o.timeout, Survey: values != nil}}
	with, err := partsWith(ctx, ws, s)
	if err == nil && values != nil && ws.Values == nil {
		err = quiet.upToDate(ctx, ws, with, run)
	}
	if err != nil {
		return scenario.World{}, nil, err
	}
	ws.Values = values
	if with, err = partsWith(ctx, ws, s); err != nil {
		return scenario.World{}, nil, err
	}
	l, out, err := quiet.bringUp(ctx, ws, with, run)
	if err != nil {
		return scenario.World{}, nil, err
	}
	w, err := p.world(ctx, ws, o, l)
	return w, out.Upgrade.Kinds(), err
}

// throughDoor has requests from outside know the lab's door, if it has one.
func throughDoor(ws *workspace.Workspace, w *scenario.World) error {
	address := doorURL(ws.Dir, "")
	if address == "" {
		return nil
	}
	text, err := certificate(ws)
	if err != nil {
		return err
	}
	if w.Roots, err = x509.SystemCertPool(); err != nil {
		w.Roots = x509.NewCertPool()
	}
	w.Roots.AppendCertsFromPEM([]byte(text))
	w.Door = strings.TrimPrefix(address, "https://")
	return nil
}

// renew recreates a cluster as `lab up --recreate` does, or with cluster "" completes what was begun.
func (p *program) renew(ctx context.Context, ws *workspace.Workspace, o playOptions, cluster string) (scenario.World, error) {
	s, err := openSupply(ctx, o.origin)
	if err != nil {
		return scenario.World{}, err
	}
	quiet := &program{env: p.env, ui: p.ui.Aside()}
	run := upOptions{origin: o.origin, run: up.Options{Timeout: o.timeout}}
	with, err := partsWith(ctx, ws, s)
	if err == nil && cluster != "" {
		err = quiet.upToDate(ctx, ws, with, run)
		run.run.Recreate = []string{cluster}
	}
	if err == nil {
		with, err = partsWith(ctx, ws, s)
	}
	if err == nil {
		_, _, err = quiet.bringUp(ctx, ws, with, run)
	}
	if err != nil {
		return scenario.World{}, err
	}
	l, err := assemble(ws, with)
	if err != nil {
		return scenario.World{}, err
	}
	return p.world(ctx, ws, o, l)
}

// switchEngine replaces the lab's engine as `lab up --switch-engine` does, with as for --engine.
func (p *program) switchEngine(ctx context.Context, ws *workspace.Workspace, o playOptions, to, as lab.EngineType) (scenario.World, error) {
	s, err := openSupply(ctx, o.origin)
	if err != nil {
		return scenario.World{}, err
	}
	quiet := &program{env: p.env, ui: p.ui.Aside()}
	run := upOptions{origin: o.origin, run: up.Options{Switch: true, Timeout: o.timeout}}
	if ws.Record.Type != to && ws.Record.Former.Type == "" { // else it was begun
		with, err := partsWith(ctx, ws, s)
		if err == nil {
			err = quiet.upToDate(ctx, ws, with, run)
		}
		if err != nil {
			return scenario.World{}, err
		}
	}
	ws.Engine = as
	with, err := partsWith(ctx, ws, s)
	if err != nil {
		return scenario.World{}, err
	}
	if _, _, err := quiet.bringUp(ctx, ws, with, run); err != nil {
		return scenario.World{}, err
	}
	if ws.Record, err = ws.Dir.Load(); err != nil {
		return scenario.World{}, err
	}
	l, err := assemble(ws, with)
	if err != nil {
		return scenario.World{}, err
	}
	return p.world(ctx, ws, o, l)
}

// partsWith loads the estate for the workspace's engine.
func partsWith(ctx context.Context, ws *workspace.Workspace, s *supply.Supply) (parts, error) {
	est, err := ws.Load(supplied(ctx, s)...)
	if err != nil {
		return parts{}, err
	}
	gone, err := unavailable(ctx, ws, est)
	if err != nil {
		return parts{}, err
	}
	needs.Mark(est, gone)
	for i := range est.Clusters {
		if c := &est.Clusters[i]; c.Role == lab.RoleHub && ws.Values != nil {
			c.Engine.Values = helm.Merge(c.Engine.Values, ws.Values)
		}
	}
	with := parts{estate: est, supply: s}
	return with, with.choose(ctx)
}

// upToDate returns an error if lab up would change clusters, forge or files of the lab.
func (p *program) upToDate(ctx context.Context, ws *workspace.Workspace, with parts, o upOptions) error {
	l, err := p.prepare(ctx, ws, with, &o)
	if err != nil {
		return err
	}
	return l.core.Current(ctx, o.run)
}
