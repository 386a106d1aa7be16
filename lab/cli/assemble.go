package cli

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"homelab/lab"
	"homelab/lab/cluster"
	"homelab/lab/docker"
	"homelab/lab/doctor"
	"homelab/lab/engine/argocd"
	"homelab/lab/engine/flux"
	"homelab/lab/estate"
	"homelab/lab/forge"
	"homelab/lab/plan"
	"homelab/lab/registry"
	"homelab/lab/snapshot"
	"homelab/lab/state"
	"homelab/lab/supply"
	"homelab/lab/supply/source"
	"homelab/lab/ui"
	"homelab/lab/up"
	"homelab/lab/workspace"
)

// engines are all engines; the rest of lab depends on engine.Definition alone.
var engines = up.Engines{
	{Type: lab.EngineArgoCD}:                           argocd.Definition,
	{Type: lab.EngineFlux}:                             flux.Definition,
	{Type: lab.EngineFlux, Shape: lab.ShapeStandalone}: flux.Standalone,
}

// parts are the optional dependencies of a lab.
type parts struct {
	estate *lab.Estate    // nil for commands that need none
	supply *supply.Supply // for commands that need images
	traits doctor.Traits

	release lab.Release            // of the engine; set with supply, by choose
	nodes   map[string]lab.Release // of Kubernetes, by cluster; likewise

	leaving bool // attached clusters are released

	open []ui.OpenValue // of the estate
}

// instance is a lab with its adapters.
type instance struct {
	ws     *workspace.Workspace
	core   *up.Lab
	docker *docker.Docker
	gitea  *forge.Gitea
	with   parts
}

// assemble creates a lab with its adapters. It makes no requests.
func assemble(ws *workspace.Workspace, with parts) (*instance, error) {
	creds, err := ws.Dir.Credentials()
	if err != nil {
		return nil, err
	}
	d := docker.New()
	l := &instance{
		ws: ws, docker: d, with: with, gitea: forgeOf(ws, d, creds),
	}
	agreed, err := ws.Agreed()
	if err != nil {
		return nil, err
	}
	existing := cluster.NewExisting(ws.Dir, with.estate, agreed.Has)
	existing.Leaving = with.leaving
	kind := cluster.NewKind(ws.Dir, d, cluster.Host{CgroupV1: with.traits.CgroupV1, NoOOMAdjust: with.traits.NoOOMAdjust})
	l.core = &up.Lab{
		Name: ws.Name, Estate: with.estate, Dir: ws.Dir, Ports: ws.Record.Ports, Creds: creds, Forge: l.gitea, Supply: with.supply, Containers: d,
		Clusters: cluster.NewSet(kind, existing), Snapshots: snapshot.New(ws.Name, d), Release: with.release, Nodes: with.nodes,
	}
	l.core.Definition, l.core.Others = engines.Of(ws.Record, with.estate)
	l.addParts(creds)
	return l, nil
}

// addParts adds the optional parts, which the estate may have.
func (l *instance) addParts(creds state.Credentials) {
	var hub lab.Cluster
	if l.with.estate != nil {
		hub = l.with.estate.Hub()
	}
	login := registry.Credentials{User: creds.RegistryUser, Password: creds.RegistryPassword, Hash: creds.RegistryHash}
	l.core.Parts = []up.Part{{
		Part:   plan.Part{Name: registry.Name, Wanted: hub.Registry, First: true, Keeps: "the images and charts in the registry"},
		Images: []string{registry.Component}, Service: registry.Service(l.ws.Name, l.docker, l.ws.Dir, login),
	}}
	l.core.Registry = lab.Registry{}
	if hub.Registry {
		l.core.Registry = registry.Of(login)
		l.core.Registry.Through = hub.Through
	}
	l.addCaches(hub.Through)
	l.addDoor(hub.Door, creds)
	l.addRunner(creds, hub.Runner)
}

// addCaches adds the caches of registries, and those that the estate no longer has.
func (l *instance) addCaches(through []lab.Upstream) {
	urls := map[string]string{}
	for _, name := range l.ws.Dir.Parts() {
		if strings.HasPrefix(name, lab.CachePrefix) {
			urls[name] = ""
		}
	}
	for _, u := range through {
		urls[u.Cache()] = u.URL
	}
	for _, name := range slices.Sorted(maps.Keys(urls)) {
		l.core.Parts = append(l.core.Parts, up.Part{
			Part: plan.Part{Name: name, Wanted: urls[name] != ""}, Images: []string{registry.Component}, Passing: true,
			Service: registry.Cache(l.ws.Name, l.docker, l.ws.Dir, name, urls[name]),
		})
	}
}

// renew replaces a former lab's credentials, which its clusters know. From here on its forge rejects it, until lab up
// has converted it.
func (l *instance) renew() error {
	if err := l.ws.Dir.Renew(); err != nil {
		return err
	}
	creds, err := l.ws.Dir.Credentials()
	if err != nil {
		return err
	}
	if l.with.estate.Hub().Door {
		if err := ensureAuthority(l.ws.Dir, &creds); err != nil {
			return err
		}
	}
	l.gitea = forgeOf(l.ws, l.docker, creds)
	l.core.Creds, l.core.Forge = creds, l.gitea
	l.addParts(creds)
	return nil
}

// assembleWithEstate assembles a lab with its estate.
func assembleWithEstate(ctx context.Context, ws *workspace.Workspace) (*instance, error) {
	options, err := judging(ctx)
	if err != nil {
		return nil, err
	}
	est, err := ws.Load(options...)
	if err != nil {
		return nil, err
	}
	return assemble(ws, parts{estate: est})
}

// judging returns the options for judging an estate as lab up does, wherever its images come from.
func judging(ctx context.Context) ([]estate.Option, error) {
	recipes, err := source.Builtin()
	if err != nil {
		return nil, err
	}
	list := []estate.Option{estate.WithImages(recipes.ByRef)}
	if o, err := supplyOptions(origin{}); err == nil {
		if s, err := supply.Local(ctx, o); err == nil { // otherwise charts stay unknown
			list = append(list, chartFiles(ctx, s))
		}
	}
	return list, nil
}

// forgeOf returns the lab's forge, which records pulls in the lab's state folder.
func forgeOf(ws *workspace.Workspace, d *docker.Docker, creds state.Credentials) *forge.Gitea {
	return forge.NewGitea(ws.Name, d, forge.Credentials{User: creds.ForgeUser, Password: creds.ForgePassword, Keys: forge.Keys(creds.ForgeKeys)}, forge.WithTokens(ws.Dir),
		forge.WithPulls(ws.Dir, forge.Commands{Pull: ws.OnEstate("lab git pull"), URL: ws.OnEstate("lab git url --credentials"), Up: ws.OnEstate("lab up")}))
}

// workingTree returns the estate's working tree, which may be invalid: a pull may leave conflicts, or repair it.
func workingTree(ws *workspace.Workspace) forge.Tree {
	return forge.Tree{FS: ws.Estate.FS, Dir: ws.Estate.Dir}
}

// archTimeout limits the query of the engine's architecture.
const archTimeout = 5 * time.Second

// openSupply opens the source of images.
func openSupply(ctx context.Context, from origin) (*supply.Supply, error) {
	o, err := supplyOptions(from)
	if err != nil {
		return nil, err
	}
	o.Docker = docker.New()
	asked, cancel := context.WithTimeout(ctx, archTimeout)
	defer cancel()
	if arch, err := o.Docker.Arch(asked); err == nil && arch != "" { // without an engine, images are for this machine
		o.Arch = arch
	}
	return supply.Open(ctx, o)
}

// supplyOptions returns the options of a supply without a container engine.
func supplyOptions(from origin) (supply.Options, error) {
	cache, err := state.CacheRoot()
	if err != nil {
		return supply.Options{}, err
	}
	root, err := state.Root()
	if err != nil {
		return supply.Options{}, err
	}
	return supply.Options{
		Mode: supply.Mode(from.images), Mirror: from.mirror, CacheDir: cache, StateDir: root, Lab: versionInfo().Version, Engine: from.engine,
	}, nil
}
