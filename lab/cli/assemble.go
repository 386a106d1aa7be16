package cli

import (
	"context"

	"homelab/lab"
	"homelab/lab/cluster"
	"homelab/lab/docker"
	"homelab/lab/doctor"
	"homelab/lab/engine"
	"homelab/lab/engine/argocd"
	"homelab/lab/forge"
	"homelab/lab/snapshot"
	"homelab/lab/state"
	"homelab/lab/supply"
	"homelab/lab/up"
	"homelab/lab/workspace"
)

// theEngine is the one that labs have: every other part of lab knows it as this value alone.
func theEngine(namespace string) engine.Definition { return argocd.Definition(namespace) }

// parts are what a lab is put together from, beside its own files.
type parts struct {
	estate *lab.Estate    // nil for commands that need none
	supply *supply.Supply // where a command needs images
	traits doctor.Traits
}

// instance is a lab with its adapters at hand: what commands work on.
type instance struct {
	ws     *workspace.Workspace
	core   *up.Lab
	docker *docker.Docker
	gitea  *forge.Gitea
	with   parts
}

// assemble puts the adapters of a lab together. Nothing is asked of them yet.
func assemble(ws *workspace.Workspace, with parts) (*instance, error) {
	creds, err := ws.Dir.Credentials()
	if err != nil {
		return nil, err
	}
	d := docker.New()
	l := &instance{
		ws: ws, docker: d, with: with, gitea: forgeOf(ws, d, creds),
	}
	kind := cluster.NewKind(ws.Dir, d, cluster.Host{CgroupV1: with.traits.CgroupV1, NoOOMAdjust: with.traits.NoOOMAdjust})
	l.core = &up.Lab{
		Name: ws.Name, Estate: with.estate, Dir: ws.Dir, Ports: ws.Record.Ports, Creds: creds, Forge: l.gitea, Supply: with.supply, Containers: d,
		Clusters: cluster.NewSet(kind, cluster.NewExisting(ws.Dir, with.estate)), Snapshots: snapshot.New(ws.Name, d), Definition: theEngine(up.EngineNamespace(ws.Record, with.estate)),
	}
	return l, nil
}

// withEngine is assemble on a container engine that answers.
func withEngine(ctx context.Context, ws *workspace.Workspace) (*instance, error) {
	l, err := assemble(ws, parts{})
	if err != nil {
		return nil, err
	}
	return l, l.docker.Answers(ctx)
}

// loaded is a lab with its estate.
func loaded(ws *workspace.Workspace) (*instance, error) {
	est, err := ws.Load()
	if err != nil {
		return nil, err
	}
	return assemble(ws, parts{estate: est})
}

// forgeOf is the lab's forge, whose pulls are remembered in the lab's state folder.
func forgeOf(ws *workspace.Workspace, d *docker.Docker, creds state.Credentials) *forge.Gitea {
	return forge.NewGitea(ws.Name, d, forge.Credentials{User: creds.ForgeUser, Password: creds.ForgePassword},
		forge.WithPulls(ws.Dir, forge.Commands{Pull: ws.OnEstate("lab git pull"), Up: ws.OnEstate("lab up")}))
}

// workingTree is the estate's, whether it is valid or not: conflicts of a pull may make it invalid, and a pull may cure it.
func workingTree(ws *workspace.Workspace) forge.Tree {
	return forge.Tree{FS: ws.Estate.FS, Dir: ws.Estate.Dir}
}

// openSupply finds out where images come from.
func openSupply(ctx context.Context, from origin) (*supply.Supply, error) {
	root, err := state.CacheRoot()
	if err != nil {
		return nil, err
	}
	return supply.Open(ctx, supply.Options{Mode: supply.Mode(from.images), Mirror: from.mirror, CacheDir: root, Docker: docker.New()})
}
