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
	replace := func(ctx context.Context, begun bool, run up.Options, with func(*up.Options)) (scenario.World, up.Upgrade, error) {
		next, upgrade, err := p.replace(ctx, ws, o, begun, run, with)
		next.Switch, next.Renew, next.Upgrade = w.Switch, w.Renew, w.Upgrade
		return next, upgrade, err
	}
	w.Switch = func(ctx context.Context, to lab.EngineType) (scenario.World, error) { // as `lab up --switch-engine`
		begun := ws.Record.Type == to || ws.Record.Former.Type != ""
		next, _, err := replace(ctx, begun, up.Options{Switch: true}, func(*up.Options) {
			if ws.Engine = to; to == runs {
				ws.Engine = asked
			}
		})
		return next, err
	}
	w.Renew = func(ctx context.Context, cluster string) (scenario.World, error) { // as `lab up --recreate`
		next, _, err := replace(ctx, cluster == "", up.Options{}, func(run *up.Options) {
			if cluster != "" {
				run.Recreate = []string{cluster}
			}
		})
		return next, err
	}
	w.Upgrade = func(ctx context.Context, values map[string]any) (scenario.World, map[string][]string, error) {
		begun := values == nil || ws.Values != nil
		next, upgrade, err := replace(ctx, begun, up.Options{Survey: values != nil}, func(*up.Options) { ws.Values = values })
		return next, upgrade.Kinds(), err
	}
	return w, nil
}

// replace brings up the lab with what change asks for, and returns it as scenarios see it. Unless that was begun before, lab up may not have anything else to do.
func (p *program) replace(ctx context.Context, ws *workspace.Workspace, o playOptions, begun bool, run up.Options, change func(*up.Options)) (scenario.World, up.Upgrade, error) {
	run.Timeout = o.timeout
	all := upOptions{origin: o.origin, run: run}
	quiet := &program{env: p.env, ui: p.ui.Aside()}
	s, err := openSupply(ctx, o.origin)
	if err == nil && !begun {
		var with parts
		if with, err = partsWith(ctx, ws, s); err == nil {
			err = quiet.upToDate(ctx, ws, with, all)
		}
	}
	if err != nil {
		return scenario.World{}, up.Upgrade{}, err
	}
	change(&all.run)
	with, err := partsWith(ctx, ws, s)
	if err != nil {
		return scenario.World{}, up.Upgrade{}, err
	}
	_, out, err := quiet.bringUp(ctx, ws, with, all)
	if err != nil {
		return scenario.World{}, up.Upgrade{}, err
	}
	if ws.Record, err = ws.Dir.Load(); err != nil {
		return scenario.World{}, up.Upgrade{}, err
	}
	l, err := assemble(ws, with)
	if err != nil {
		return scenario.World{}, up.Upgrade{}, err
	}
	w, err := p.world(ctx, ws, o, l)
	return w, out.Upgrade, err
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
