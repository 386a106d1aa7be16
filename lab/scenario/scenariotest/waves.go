package scenariotest

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/fieldpath"
	"homelab/lab/scenario"
)

// Settings that make Argo CD's waves wait for the Applications of ApplicationSets.
const (
	setHealthKey   = "resource.customizations.health.argoproj.io_ApplicationSet"
	progressiveEnv = "ARGOCD_APPLICATIONSET_CONTROLLER_ENABLE_PROGRESSIVE_SYNCS"
)

// settings returns Argo CD's objects that stories change, without waves, and the clusters' registrations.
func (e *Engine) settings() []object {
	list := []object{
		manifest(e.hub, "v1", "ConfigMap", "argocd", "argocd-cm", nil, nil, map[string]any{"data": map[string]any{"admin.enabled": "true"}}),
		manifest(e.hub, "apps/v1", "Deployment", "argocd", "argocd-applicationset-controller", nil, nil, map[string]any{"spec": map[string]any{
			"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{
				"name": "applicationset-controller",
				"env": []any{map[string]any{"name": progressiveEnv, "valueFrom": map[string]any{
					"configMapKeyRef": map[string]any{"name": "argocd-cmd-params-cm", "key": "applicationsetcontroller.enable.progressive.syncs", "optional": true},
				}}},
			}}}},
		}}),
	}
	for _, cluster := range slices.Sorted(maps.Keys(e.registrations)) {
		name := base64.StdEncoding.EncodeToString([]byte(cluster))
		list = append(list, manifest(e.hub, "v1", "Secret", "argocd", "cluster-"+cluster, nil, nil, map[string]any{"data": map[string]any{"name": name}}))
	}
	return list
}

// registered is a cluster as Argo CD knows it.
type registered struct {
	cluster, name string // name is the cluster's own, until somebody gives the registration another
	marks         scenario.Marks
}

// registered returns the registrations.
func (e *Engine) registered(live []*unstructured.Unstructured) ([]registered, error) {
	var list []registered
	for _, o := range live {
		cluster, ok := strings.CutPrefix(o.GetName(), "cluster-")
		if !ok {
			continue
		}
		encoded, _, _ := unstructured.NestedString(o.Object, "data", "name")
		name, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, err
		}
		m, err := e.registration(cluster)
		if err != nil {
			return nil, err
		}
		list = append(list, registered{cluster, string(name), m})
	}
	return list, nil
}

// set returns the settings as they are now.
func (e *Engine) set(ctx context.Context) ([]*unstructured.Unstructured, error) {
	client, err := e.clusters.within(e.hub)
	if err != nil {
		return nil, err
	}
	var live []*unstructured.Unstructured
	for _, o := range e.settings() {
		r, err := client.Resource(o.subject)
		if err != nil {
			return nil, err
		}
		got, err := r.Get(ctx, o.subject.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		live = append(live, got)
	}
	return live, nil
}

// waits reports whether a wave waits until the Applications of the previous one are healthy.
func waits(live []*unstructured.Unstructured) (bool, error) {
	health, _, _ := unstructured.NestedString(live[0].Object, "data", setHealthKey)
	at, err := fieldpath.Parse("spec.template.spec.containers[0].env[name=" + progressiveEnv + "].value")
	if err != nil {
		return false, err
	}
	progressive, _ := at.Get(live[1].Object)
	return health != "" && progressive == "true", nil
}

// taken is a synced ApplicationSet.
type taken struct {
	addon lab.Addon
	set   *appset.Set
	wave  int
}

// sets reconciles the ApplicationSets, wave by wave.
func (e *Engine) sets(ctx context.Context, tree scenario.Tree) error {
	live, err := e.set(ctx)
	if err != nil {
		return err
	}
	waits, err := waits(live)
	if err != nil {
		return err
	}
	clusters, err := e.registered(live)
	if err != nil {
		return err
	}
	var list []taken
	for i, addon := range e.read.addons {
		list = append(list, taken{addon, e.read.sets[i], e.read.waves[i]})
	}
	slices.SortStableFunc(list, func(a, b taken) int { return cmp.Compare(a.wave, b.wave) })
	there, before := map[string]taken{}, e.faults
	e.faults = map[string]error{}
	for _, t := range list {
		if waits && !e.healthyBefore(t.wave, there) {
			was, known := e.taken[t.addon.Name]
			if !known {
				continue
			}
			t = was
		}
		there[t.addon.Name] = t
		for _, cluster := range clusters {
			if err := e.one(ctx, tree, t, cluster); err != nil {
				return err
			}
		}
	}
	e.taken = there
	return errors.Join(e.reportFaults(ctx, before), e.orphaned(ctx, there))
}

// reportFaults publishes the ApplicationSets that fail, and removes the others. A real one publishes all.
func (e *Engine) reportFaults(ctx context.Context, before map[string]error) error {
	set := func(name, message string) []object {
		condition := map[string]any{"type": "ErrorOccurred", "status": "True", "message": message}
		return []object{manifest(e.hub, "argoproj.io/v1alpha1", "ApplicationSet", "argocd", name, nil, nil, map[string]any{"status": map[string]any{"conditions": []any{condition}}})}
	}
	for name := range before {
		if e.faults[name] == nil {
			if err := e.prune(ctx, e.hub, set(name, "")); err != nil {
				return err
			}
		}
	}
	for name, err := range e.faults {
		o := set(name, err.Error())
		if differs, err := e.differ(ctx, e.hub, o); err != nil || !differs {
			continue
		}
		if err := e.apply(ctx, e.hub, o); err != nil {
			return err
		}
	}
	return nil
}

// healthyBefore reports whether the Applications of all earlier waves are in sync and healthy.
func (e *Engine) healthyBefore(wave int, sets map[string]taken) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, a := range e.apps {
		if t, ok := sets[a.Addon]; ok && t.wave < wave && !a.Converged() {
			return false
		}
	}
	return true
}

// orphaned removes the Applications of deleted ApplicationSets.
func (e *Engine) orphaned(ctx context.Context, sets map[string]taken) error {
	e.mu.Lock()
	apps := maps.Clone(e.apps)
	e.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(apps)) {
		if _, ok := sets[apps[name].Addon]; ok {
			continue
		}
		if err := e.remove(ctx, name, apps[name]); err != nil {
			return err
		}
	}
	return nil
}

// waveOf returns the sync wave of an object, 0 if invalid.
func waveOf(annotations map[string]string) int {
	n, _ := strconv.Atoi(annotations["argocd.argoproj.io/sync-wave"])
	return n
}
