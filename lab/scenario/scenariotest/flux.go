package scenariotest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/flux"
	"homelab/lab/fluxset"
	"homelab/lab/render"
	"homelab/lab/scenario"
	"homelab/lab/strict"
)

// lookEvery is the interval of the default estate's HelmReleases, during which drift goes unnoticed.
const lookEvery = time.Minute

// helmRelease is the part of a HelmRelease that stories need.
type helmRelease struct {
	Spec struct {
		Chart          struct{ Spec struct{ Version string } }
		DriftDetection struct{ Mode string } `yaml:"driftDetection"`
		Values         map[string]any
		Suspend        bool
	}
}

// kustomizations reconciles the applications of the clusters' folders.
func (e *Engine) kustomizations(ctx context.Context, tree scenario.Tree) error {
	found := map[string]bool{}
	x := e.expanded(tree.FS)
	if err := e.sources(ctx, x.Sources); err != nil {
		return err
	}
	for _, app := range x.Applications {
		addon, known := e.read.est.Addon(app.Name)
		cluster, there := e.read.est.Cluster(app.Cluster)
		if !known || !there {
			continue
		}
		found[lab.ApplicationName(app.Cluster, app.Name)] = true
		if e.dependent(tree.FS, app.Cluster, app.Name) {
			continue
		}
		if err := e.kustomization(ctx, tree, app, addon, cluster); err != nil {
			return err
		}
	}
	e.mu.Lock()
	apps := maps.Clone(e.apps)
	e.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(apps)) {
		if !found[name] {
			if err := e.drop(ctx, name, apps[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// expanded expands the root with the current variables of the clusters.
func (e *Engine) expanded(fsys fs.FS) fluxset.Expansion {
	vars := map[string]map[string]string{}
	e.mu.Lock()
	for cluster, m := range e.registrations {
		of := map[string]string{}
		for _, marks := range []map[string]string{given(m.Labels), given(m.Annotations)} {
			for k, v := range marks {
				of[flux.VariableName(k)] = v
			}
		}
		vars[flux.NamespaceOf(cluster)] = of
	}
	e.mu.Unlock()
	others := map[string]string{}
	for _, url := range e.others.URLs() {
		tree, why, err := e.other(context.Background(), url)
		must(err)
		others[url] = tree.Commit + why
	}
	r, key := e.read, fmt.Sprint(vars, e.forge.heads(), others)
	r.mu.Lock() // parallel labs share it
	defer r.mu.Unlock()
	x, known := r.expands[key]
	if !known {
		x = fluxset.Expand(fluxset.World{
			FS: fsys, Vars: func(namespace, _ string) map[string]string { return vars[namespace] },
			Repository: func(url, revision string) (fs.FS, string, error) {
				if other, why, err := e.other(context.Background(), url); err != nil || why != "" {
					return nil, "", errors.Join(err, errors.New(why))
				} else if other.FS != nil {
					return other.FS, "", nil
				}
				if revision == "" || revision == scenario.Branch {
					return fsys, "", nil
				}
				tree, err := e.forge.Tree(context.Background(), revision)
				return tree.FS, "", err
			},
		}, lab.FluxRootFile(e.hub))
		r.expands[key] = x
	}
	return x
}

func (e *Engine) kustomization(ctx context.Context, tree scenario.Tree, of fluxset.Application, addon lab.Addon, cluster lab.Cluster) error {
	name := lab.ApplicationName(cluster.Name, addon.Name)
	e.mu.Lock()
	a := e.apps[name]
	if a == nil {
		a = &app{Application: scenario.Application{Application: lab.Application{Name: name, Addon: addon.Name, Cluster: cluster.Name, Sync: "Unknown", Health: "Unknown"}}}
		e.apps[name] = a
	}
	e.mu.Unlock()
	var release helmRelease
	if i := slices.IndexFunc(of.Objects, isRelease); i >= 0 {
		if err := of.Objects[i].Node.Decode(&release); err != nil {
			return err
		}
	}
	a.plain = !slices.ContainsFunc(of.Objects, isRelease)
	policy := specOf(tree.FS, cluster.Name, addon.Name).DeletionPolicy
	a.orphan = policy == "Orphan"
	version := "0.1.0" // the estate's own chart
	if addon.Chart != "" {
		version = release.Spec.Chart.Spec.Version
	}
	has := addon.Chart == "" || slices.Contains(e.charts[addon.Chart], version)
	var objects []object
	unset := notSet(of)
	if of.Stalled && strings.HasPrefix(of.LeftOut, "GitRepository ") {
		unset = of.LeftOut
	}
	if a.plain && unset == "" {
		var err error
		if objects, unset, err = e.written(ctx, cluster.Name, of); err != nil {
			return err
		}
	}
	if a.unset != unset {
		a.unset, a.failed = unset, unset
	}
	if err := e.manifests(ctx, a, policy, version, has); err != nil {
		return err
	}
	if unset != "" { // what was applied stays
		e.update(a, func() { a.Sync, a.Health, a.Message = "OutOfSync", "Degraded", unset })
		return nil
	}
	if release.Spec.Suspend {
		e.update(a, func() { a.Heals, a.Sync, a.Health, a.Revision = false, "Synced", "Suspended", tree.Commit })
		return nil
	}
	mode := release.Spec.DriftDetection.Mode
	a.looks = mode == "enabled" || mode == "warn"
	e.update(a, func() {
		a.Definition, a.Heals, a.Namespace = "Kustomization "+policy, mode == "enabled", addon.Namespace
	})
	if !has { // a deployed release stays
		e.update(a, func() {
			a.Sync, a.Health, a.Message = "OutOfSync", "Degraded", fmt.Sprintf("no '%s' chart with version matching '%s' found", addon.Chart, version)
		})
		return nil
	}
	values, err := json.Marshal(release.Spec.Values)
	if err != nil {
		return err
	}
	if !a.plain {
		objects = e.read.render(tree.FS, addon, values, cluster.Name, cluster.Environment, version)
	}
	return e.release(ctx, a, objects, func() { a.Version, a.Revision, a.Message = version, tree.Commit, "" })
}

// notSet is what Flux says of a Kustomization that reads a variable without a value, or "".
func notSet(of fluxset.Application) string {
	if len(of.Unset) == 0 {
		return ""
	}
	return fmt.Sprintf("post build failed: envsubst error: variable substitution failed: variable not set (strict mode): %q", of.Unset[0].Name)
}

func isRelease(o render.Document) bool { return kindOf(o.Node) == "HelmRelease" }

func kindOf(n *yaml.Node) string {
	var o struct{ Kind string }
	_ = n.Decode(&o) // kind is optional
	return o.Kind
}

// kustomizeSpec is the part of a Kustomization's spec that stories need.
type kustomizeSpec struct {
	DeletionPolicy string                  `yaml:"deletionPolicy"`
	DependsOn      []struct{ Name string } `yaml:"dependsOn"`
}

// specOf returns the spec of an addon's Kustomization for a cluster.
func specOf(fsys fs.FS, cluster, addon string) kustomizeSpec {
	file := lab.ClustersDir + "/" + cluster + "/flux.yaml"
	data, err := fs.ReadFile(fsys, file)
	if err != nil {
		return kustomizeSpec{}
	}
	docs, _ := strict.Parse(file, data)
	for _, doc := range docs {
		var k struct {
			Metadata struct{ Name string }
			Spec     kustomizeSpec
		}
		if doc.Decode(&k) == nil && k.Metadata.Name == addon {
			return k.Spec
		}
	}
	return kustomizeSpec{}
}

// dependent reports whether a Kustomization waits for another. Its objects stay.
func (e *Engine) dependent(fsys fs.FS, cluster, addon string) bool {
	needs := specOf(fsys, cluster, addon).DependsOn
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, n := range needs {
		if a := e.apps[lab.ApplicationName(cluster, n.Name)]; a == nil || !a.Converged() {
			return true
		}
	}
	return false
}

// release upgrades changed releases, and compares the cluster once per interval.
func (e *Engine) release(ctx context.Context, a *app, objects []object, compared func()) error {
	if e.clusters.IsPaused(a.Cluster) {
		e.update(a, func() { a.Sync, a.Health, a.Message = "Unknown", "Unknown", "cluster does not answer" })
		return nil
	}
	changed := a.deployed != digest(objects)
	if !changed && (!a.looks || time.Since(a.looked) < lookEvery) {
		health, err := e.health(ctx, a.Cluster, objects)
		if err != nil {
			return err
		}
		e.update(a, func() { compared(); a.Health = health; a.Sync = strings.Replace(a.Sync, "Unknown", "Synced", 1) })
		return nil
	}
	differs, err := e.differ(ctx, a.Cluster, objects)
	if err != nil {
		return err
	}
	a.looked = time.Now()
	if differs && !changed {
		if err := e.detected(ctx, a); err != nil {
			return err
		}
		if !a.Heals {
			e.update(a, func() { compared(); a.Sync, a.Health = "OutOfSync", "Healthy" })
			return nil
		}
	}
	if differs || changed {
		e.update(a, func() { a.Health = "Progressing" })
		if err := e.pass(ctx, compareTakes); err != nil {
			return err
		}
		err := e.apply(ctx, a.Cluster, objects)
		var failed failure
		if errors.As(err, &failed) {
			e.update(a, func() { compared(); a.Sync, a.Health, a.Message = "OutOfSync", "Degraded", failed.message })
			a.failed = failed.message
			return nil
		}
		if err != nil {
			return err
		}
		a.failed = ""
		if err := e.pass(ctx, rolloutTakes); err != nil {
			return err
		}
	}
	health, err := e.health(ctx, a.Cluster, objects)
	if err != nil {
		return err
	}
	e.update(a, func() {
		compared()
		a.Sync, a.Health, a.deployed, a.objects = "Synced", health, digest(objects), objects
	})
	return nil
}

// detected reports drift as an event.
func (e *Engine) detected(ctx context.Context, a *app) error {
	o := manifest(e.hub, "v1", "Event", flux.NamespaceOf(a.Cluster), a.Addon+".drift", nil, nil, map[string]any{
		"reason": "DriftDetected", "message": "Cluster state of release " + a.Addon + " has drifted from the desired state", "lastTimestamp": time.Now().Format(time.RFC3339Nano),
		"involvedObject": map[string]any{"kind": "HelmRelease", "namespace": flux.NamespaceOf(a.Cluster), "name": a.Addon},
	})
	return e.apply(ctx, e.hub, []object{o})
}

// manifests updates the objects on the hub.
func (e *Engine) manifests(ctx context.Context, a *app, policy, version string, has bool) error {
	list := e.onHub(a, policy, version, has)
	differs, err := e.differ(ctx, e.hub, list)
	if err != nil || !differs {
		return err
	}
	return e.apply(ctx, e.hub, list)
}

func (e *Engine) onHub(a *app, policy, version string, has bool) []object {
	namespace := flux.NamespaceOf(a.Cluster)
	ready := map[bool]string{true: "True", false: "False"}[has]
	applied := map[string]any{"type": "Ready", "status": map[bool]string{true: "True", false: "False"}[a.failed == ""], "message": a.failed}
	list := []object{
		manifest(e.hub, "kustomize.toolkit.fluxcd.io/v1", "Kustomization", namespace, a.Addon, nil, nil, map[string]any{
			"spec": map[string]any{"deletionPolicy": policy}, "status": map[string]any{"conditions": []any{applied}},
		}),
		manifest(e.hub, "helm.toolkit.fluxcd.io/v2", "HelmRelease", namespace, a.Addon, nil, nil, map[string]any{
			"spec":   map[string]any{"chart": map[string]any{"spec": map[string]any{"version": version}}},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": ready}}},
		}),
	}
	if a.plain {
		return list[:1]
	}
	return list
}

// drop removes an application without a folder, and its objects unless they are to stay.
func (e *Engine) drop(ctx context.Context, name string, a *app) error {
	if err := e.pass(ctx, compareTakes); err != nil {
		return err
	}
	hub := e.onHub(a, "", "", true)
	if a.orphan {
		hub = hub[:1]
	} else if err := e.prune(ctx, a.Cluster, a.objects); err != nil {
		return err
	}
	if err := e.prune(ctx, e.hub, hub); err != nil {
		return err
	}
	e.update(a, func() { a.Gone = true })
	e.mu.Lock()
	delete(e.apps, name)
	e.mu.Unlock()
	return nil
}
