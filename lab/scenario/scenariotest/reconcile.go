package scenariotest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/estate"
	"homelab/lab/fluxset"
	"homelab/lab/scenario"
	"homelab/lab/strict"
)

func (e *Engine) reconcile(ctx context.Context) error {
	if err := e.become(ctx); err != nil {
		return err
	}
	tree, err := e.forge.Tree(ctx, scenario.Branch)
	if err != nil {
		return err
	}
	e.mu.Lock()
	missed := e.missed
	e.mu.Unlock()
	if missed {
		tree = e.tree
	}
	reported := tree.Commit
	tree = e.followed(tree)
	if e.read == nil || e.tree.Commit != tree.Commit {
		var last *lab.Estate
		if e.read != nil {
			last = e.read.est
		}
		read, err := e.estate.read(e.forge.treeOf(tree.Commit), e.on, func() (*reading, error) { return readEstate(tree.FS, e.lab, e.on, last) })
		if err != nil {
			return err
		}
		e.tree, e.read = tree, read
	}
	follow := e.sets
	if e.on == lab.EngineFlux {
		follow = e.kustomizations
	}
	if err := follow(ctx, scenario.Tree{Commit: reported, FS: tree.FS}); err != nil {
		return err
	}
	e.mu.Lock()
	e.passes++
	e.settled = tree.Commit
	e.mu.Unlock()
	return nil
}

// readEstate reads an estate. Where lab would refuse it, the engine keeps the clusters and addons of the last one that lab took.
func readEstate(files fs.FS, labName string, on lab.EngineType, last *lab.Estate) (*reading, error) {
	est, err := estate.Load(files, "", labName, estate.WithEngine(on))
	var invalid *lab.Error
	if errors.As(err, &invalid) && last != nil {
		est, err = last, nil
	}
	if err != nil {
		return nil, fmt.Errorf("estate in the forge: %w", err)
	}
	r := &reading{est: est, addons: est.Addons, values: map[string]map[string]any{}, generates: map[string]*appset.Application{}, expands: map[string]fluxset.Expansion{}}
	if on == lab.EngineFlux {
		return r, nil
	}
	for _, addon := range est.Addons {
		set, wave, err := readSet(files, addon.File)
		if err != nil {
			return nil, err
		}
		r.sets, r.waves = append(r.sets, set), append(r.waves, wave)
	}
	return r, nil
}

// one reconciles one addon on one cluster.
func (e *Engine) one(ctx context.Context, tree scenario.Tree, t taken, r registered) error {
	addon, set, cluster, m := t.addon, t.set, r.cluster, r.marks
	name := lab.ApplicationName(r.name, addon.Name)
	if err := e.renamed(ctx, addon.Name, cluster, name); err != nil {
		return err
	}
	e.mu.Lock()
	a := e.apps[name]
	e.mu.Unlock()
	want, err := e.read.generated(set, r)
	if err != nil { // an ApplicationSet that fails changes nothing
		e.faults[addon.Name] = err
		return nil
	}
	if want == nil {
		if a == nil {
			return nil
		}
		return e.remove(ctx, name, a)
	}
	if a != nil && a.set != set.Name { // the other set goes, and its Applications with it
		if err := e.remove(ctx, name, a); err != nil {
			return err
		}
		a = nil
	}
	if a == nil {
		a = &app{set: set.Name, place: cluster, Application: scenario.Application{Application: lab.Application{Name: name, Addon: addon.Name, Cluster: r.name, Sync: "Unknown", Health: "Unknown"}}}
		e.mu.Lock()
		e.apps[name] = a
		e.mu.Unlock()
	}
	env := ""
	if v := m.Labels["environment"]; v != nil {
		env = *v
	}
	version := "0.1.0" // the estate's own chart
	for _, source := range want.Spec.All() {
		if source.Chart != "" {
			version = source.TargetRevision
		}
	}
	e.update(a, func() { a.Definition = strings.Join(want.Metadata.Finalizers, ",") })
	if err := e.publish(ctx, a); err != nil {
		return err
	}
	a.byName = want.Spec.Destination.Name != ""
	policy := want.Spec.SyncPolicy
	heals := policy != nil && policy.Automated.Heals()
	if addon.Chart != "" && !slices.Contains(e.charts[addon.Chart], version) {
		e.update(a, func() {
			a.Version, a.Revision, a.Heals, a.Namespace = version, tree.Commit, heals, addon.Namespace
			a.Sync, a.Message = "Unknown", fmt.Sprintf("chart %s %s not found", addon.Chart, version)
		})
		return nil
	}
	var values []byte
	for _, source := range want.Spec.All() {
		if source.Helm != nil && source.Helm.ValuesObject != nil {
			values = source.Helm.ValuesObject.Raw
		}
	}
	objects, err := e.folders(ctx, tree.FS, cluster, want)
	var failed failure
	if errors.As(err, &failed) {
		e.update(a, func() { a.Revision, a.Sync, a.Message = tree.Commit, "Unknown", failed.message })
		a.unset = failed.message
		return e.publish(ctx, a)
	}
	if err != nil {
		return err
	}
	a.unset = ""
	if len(objects) == 0 {
		objects = e.read.render(tree.FS, addon, values, cluster, env, version)
		if older, err := e.requested(ctx, a); err != nil || older != "" {
			return errors.Join(err, e.apply(ctx, cluster, e.read.render(tree.FS, addon, values, cluster, env, older)))
		}
	}
	a.manual = !want.Spec.Automated()
	return e.sync(ctx, a, objects, func() {
		a.Version, a.Revision, a.Heals, a.Namespace, a.Message = version, tree.Commit, heals, addon.Namespace, ""
	})
}

// requested returns the revision of a sync that a person has requested in an Application, or "".
func (e *Engine) requested(ctx context.Context, a *app) (string, error) {
	client, err := e.clusters.within(e.hub)
	if err != nil {
		return "", err
	}
	r, err := client.Resource(e.manifest(a, nil).subject)
	if err != nil {
		return "", err
	}
	live, err := r.Get(ctx, a.Name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	revisions, _, _ := unstructured.NestedStringSlice(live.Object, "operation", "sync", "revisions")
	if len(revisions) == 0 {
		return "", nil
	}
	unstructured.RemoveNestedField(live.Object, "operation")
	_, err = r.Update(ctx, live, metav1.UpdateOptions{})
	e.poke()
	return revisions[len(revisions)-1], err
}

// sync compares and, if enabled, applies.
func (e *Engine) sync(ctx context.Context, a *app, objects []object, compared func()) error {
	if e.clusters.IsPaused(a.place) {
		e.update(a, func() { compared(); a.Sync, a.Message = "Unknown", "cluster does not answer" })
		return nil
	}
	differs, err := e.differ(ctx, a.place, objects)
	if err != nil {
		return err
	}
	if !differs {
		health, err := e.health(ctx, a.place, objects)
		if err != nil {
			return err
		}
		e.update(a, func() {
			compared()
			a.Sync, a.Health, a.deployed, a.objects = "Synced", health, digest(objects), objects
		})
		return nil
	}
	if err := e.pass(ctx, compareTakes); err != nil {
		return err
	}
	e.update(a, func() {
		compared()
		a.Sync = "OutOfSync"
		if a.Health == "Unknown" {
			a.Health = "Missing"
		}
	})
	// Like Argo CD's autoSync: without selfHeal, only new commits are synced, drift included.
	if a.manual || a.deployed == digest(objects) && a.synced == a.Revision && !a.Heals {
		return nil
	}
	if err := e.pass(ctx, compareTakes); err != nil {
		return err
	}
	err = e.apply(ctx, a.place, objects)
	var failed failure
	if errors.As(err, &failed) {
		e.update(a, func() { a.Message = failed.message })
		a.failed = failed.message
		return e.publish(ctx, a)
	}
	if err != nil {
		return err
	}
	e.update(a, func() {
		a.Sync, a.Health, a.deployed, a.objects, a.synced = "Synced", "Progressing", digest(objects), objects, a.Revision
	})
	if err := e.pass(ctx, rolloutTakes); err != nil {
		return err
	}
	health, err := e.health(ctx, a.place, objects)
	if err != nil {
		return err
	}
	e.update(a, func() { a.Health = health })
	return nil
}

func (e *Engine) remove(ctx context.Context, name string, a *app) error {
	if err := e.pass(ctx, compareTakes); err != nil {
		return err
	}
	if a.Definition != "" { // without a finalizer, resources are kept
		if err := e.prune(ctx, a.place, a.objects); err != nil {
			return err
		}
	}
	if err := e.prune(ctx, e.hub, []object{e.manifest(a, nil)}); err != nil {
		return err
	}
	e.update(a, func() { a.Gone = true })
	e.mu.Lock()
	delete(e.apps, name)
	e.mu.Unlock()
	return nil
}

// renamed removes the Application that an addon had under another name of the cluster's registration. If its destination is that name, Argo CD lets go of its
// objects: the destination does not exist any more.
func (e *Engine) renamed(ctx context.Context, addon, cluster, name string) error {
	e.mu.Lock()
	apps := maps.Clone(e.apps)
	e.mu.Unlock()
	for other, a := range apps {
		if a.Addon != addon || a.place != cluster || other == name {
			continue
		}
		if a.byName {
			e.update(a, func() { a.Definition = "" })
		}
		if err := e.remove(ctx, other, a); err != nil {
			return err
		}
	}
	return nil
}

// publish updates the Application object on the hub.
func (e *Engine) publish(ctx context.Context, a *app) error {
	o := []object{e.manifest(a, strings.Split(a.Definition, ","))}
	differs, err := e.differ(ctx, e.hub, o)
	if err != nil || !differs {
		return err
	}
	return e.apply(ctx, e.hub, o)
}

func (e *Engine) manifest(a *app, list []string) object {
	finalizers := []any{}
	for _, f := range list {
		if f != "" {
			finalizers = append(finalizers, f)
		}
	}
	o := manifest(e.hub, "argoproj.io/v1alpha1", "Application", "argocd", a.Name, nil, nil, nil)
	if a.failed != "" { // about the kind that is missing
		resources := []any{map[string]any{"kind": "Shelf", "message": a.failed}}
		o.content["status"] = map[string]any{"operationState": map[string]any{"syncResult": map[string]any{"resources": resources}}}
	}
	if a.unset != "" {
		o.content["status"] = map[string]any{"conditions": []any{map[string]any{"type": "ComparisonError", "message": a.unset}}}
	}
	o.content["metadata"].(map[string]any)["finalizers"] = finalizers
	return o
}

// readSet reads an ApplicationSet and its sync wave.
func readSet(fsys fs.FS, file string) (*appset.Set, int, error) {
	data, err := fs.ReadFile(fsys, file)
	if err != nil {
		return nil, 0, err
	}
	doc, problems := strict.ParseOne(file, data)
	if err := problems.Err(); err != nil {
		return nil, 0, err
	}
	var o struct {
		Metadata struct{ Annotations map[string]string }
	}
	if err := doc.Decode(&o); err != nil {
		return nil, 0, err
	}
	set, problems := appset.Parse(file, doc)
	return set, waveOf(o.Metadata.Annotations), problems.Err()
}

// generated returns the Application that a set generates for a cluster, or nil.
func (r *reading) generated(set *appset.Set, of registered) (*appset.Application, error) {
	r.mu.Lock() // parallel labs share it
	defer r.mu.Unlock()
	key := fmt.Sprint(set.Name, " ", of.cluster, " ", of.name, given(of.marks.Labels), given(of.marks.Annotations))
	app, known := r.generates[key]
	if !known {
		var err error
		if app, err = generate(set, of); err != nil {
			return nil, err
		}
		r.generates[key] = app
	}
	return app, nil
}

func generate(set *appset.Set, of registered) (*appset.Application, error) {
	cluster := appset.Cluster{Name: of.name, Server: "https://" + of.cluster, Labels: given(of.marks.Labels), Annotations: given(of.marks.Annotations)}
	cluster.Labels["argocd.argoproj.io/secret-type"] = "cluster"
	x, err := set.Expand(appset.World{Namespace: "argocd", Clusters: []appset.Cluster{cluster}})
	if err != nil {
		return nil, err
	}
	for i, app := range x.Applications {
		if app.Cluster == of.name {
			return &x.Applications[i], nil
		}
	}
	return nil, nil
}

func given(marks map[string]*string) map[string]string {
	out := map[string]string{}
	for k, v := range marks {
		if v != nil {
			out[k] = *v
		}
	}
	return out
}

var errNotYet = errors.New("the lab has not converged")
