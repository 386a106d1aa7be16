package consequence

import (
	gojson "encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/json"

	"homelab/lab"
	"homelab/lab/argo"
	"homelab/lab/desired"
	"homelab/lab/flux"
	"homelab/lab/strict"
)

// verdict is what an engine does with objects that a unit no longer has.
type verdict struct {
	action Action // Delete, Orphan, Stay or Unknown
	reason string
}

func verdictOf(a Action, reason string) verdict { return verdict{a, reason} }

// rules are an engine's semantics.
type rules interface {
	// deletes is for the objects of a unit that goes.
	deletes(u *unit) verdict
	// prunes is for an object that goes, while its unit stays.
	prunes(before, after *unit) verdict
	// keeps returns why an object is exempt from that, or ""; goes is true if its unit goes.
	keeps(u *unit, o object, goes bool) string
	// forces returns why an object that changes is recreated, or ""; refused is true if it cannot be updated.
	forces(u *unit, o object, refused bool) string
	// ignores returns why a change of an object has no effect, or "".
	ignores(o object) string
	// replaced returns why all objects of a unit are deleted and created again, or "".
	replaced(before, after *unit) string
	// gently says how to move or rename a unit without deleting its objects.
	gently(u *unit) string
	// exempt says how an object is kept.
	exempt() string
	// refused says what to do about an object that cannot be applied.
	refused() string
	// runs reports whether a hook runs when objects of its unit change.
	runs(hook string) bool
	// stays reports whether a hook that has run is one of its unit's objects until it runs again.
	stays(hook object) bool
	// tracks reports whether the engine notices that an object is no longer desired.
	tracks(o object) bool
}

func rulesOf(engine lab.EngineType) rules {
	if engine == lab.EngineFlux {
		return fluxRules{}
	}
	return argoRules{}
}

// argoRules are those of Argo CD: https://argo-cd.readthedocs.io/en/stable/user-guide/sync-options/ and
// https://argo-cd.readthedocs.io/en/stable/operator-manual/applicationset/Application-Deletion/
type argoRules struct{}

func (argoRules) deletes(u *unit) verdict {
	if u.app.Kept != "" {
		return verdictOf(Stay, u.app.Kept)
	}
	finalizers, _ := get(u.manifest, "metadata", "finalizers").([]any)
	if u.manifest != nil && !slices.ContainsFunc(finalizers, func(f any) bool { s, _ := f.(string); return strings.HasPrefix(s, argo.Finalizer) }) {
		return verdictOf(Orphan, "its Application goes without the finalizer that deletes its resources")
	}
	return verdictOf(Delete, "its Application goes, with all its resources")
}

func (argoRules) prunes(before, after *unit) verdict {
	if a, b := destination(before), destination(after); a != b {
		return verdictOf(Orphan, "its Application now deploys to another cluster, and leaves it behind")
	}
	automated, on := get(after.manifest, "spec", "syncPolicy", "automated").(map[string]any)
	switch {
	case !on || automated["enabled"] == false:
		return verdictOf(Stay, "its Application is synced by hand, and shows it as to be pruned")
	case automated["prune"] != true:
		return verdictOf(Orphan, "its Application does not prune"+outOfSync(false))
	}
	return verdictOf(Delete, "it is no longer in Git, and its Application prunes")
}

// destination is the cluster of an Application.
func destination(u *unit) string {
	return text(u.manifest, "spec", "destination", "name") + "|" + text(u.manifest, "spec", "destination", "server")
}

func (argoRules) tracks(o object) bool {
	return text(o.content, "kind") != definition // GenerateManifests in argo-cd's reposerver gives it no tracking annotation
}

func (argoRules) stays(hook object) bool {
	policies := append(annotation(hook, argo.HookDeletePolicy), annotation(hook, "helm.sh/hook-delete-policy")...)
	return !slices.ContainsFunc(policies, func(p string) bool { return strings.EqualFold(strings.ReplaceAll(p, "-", ""), "HookSucceeded") })
}

func (a argoRules) keeps(u *unit, o object, goes bool) string {
	if !a.tracks(o) {
		return "definitions are not tracked, and stay"
	}
	option := "Prune=false"
	if goes {
		option = "Delete=false"
	}
	switch {
	case goes && slices.Contains(annotation(o, "helm.sh/resource-policy"), "keep"):
		return "its annotation helm.sh/resource-policy says keep"
	case slices.Contains(annotation(o, argo.SyncOptions), option):
		return "its annotation says " + option + outOfSync(goes)
	case slices.Contains(options(u), option):
		return "its Application says " + option + outOfSync(goes)
	}
	return ""
}

// outOfSync is what an object that is not pruned does to its Application.
func outOfSync(goes bool) string {
	if goes {
		return ""
	}
	return ", and stays out of sync, so that lab up does not converge"
}

// options returns the sync options of an Application.
func options(u *unit) []string {
	all, _ := get(u.manifest, "spec", "syncPolicy", "syncOptions").([]any)
	var list []string
	for _, option := range all {
		if s, ok := option.(string); ok {
			list = append(list, s)
		}
	}
	return list
}

func (argoRules) forces(u *unit, o object, refused bool) string {
	own, all := annotation(o, argo.SyncOptions), options(u)
	has := func(option string) bool { return slices.Contains(own, option) || slices.Contains(all, option) }
	switch {
	case !slices.Contains(own, "Force=true"):
		return ""
	case has("Replace=true"):
		return "Force=true and Replace=true recreate it at each change"
	case refused && !has("ServerSideApply=true"):
		return "Force=true recreates it"
	}
	return ""
}

func (argoRules) ignores(object) string { return "" }

func (argoRules) replaced(*unit, *unit) string { return "" }

func (argoRules) gently(u *unit) string {
	return "first have Application " + u.app.Name + " go without its resources: preserveResourcesOnDeletion in its ApplicationSet, or no finalizer"
}

func (argoRules) exempt() string {
	return "annotate it with " + argo.SyncOptions + ": Prune=false,Delete=false first"
}

func (argoRules) refused() string {
	return "undo the change; or give it another name; or annotate it with " + argo.SyncOptions + ": Force=true,Replace=true, which recreates it"
}

func (argoRules) runs(hook string) bool {
	return slices.ContainsFunc(strings.Split(hook, ","), func(phase string) bool {
		return slices.Contains([]string{"PreSync", "Sync", "PostSync", "pre-install", "pre-upgrade", "post-install", "post-upgrade"}, strings.TrimSpace(phase))
	})
}

// fluxRules are those of kustomize-controller and helm-controller: https://fluxcd.io/flux/components/kustomize/kustomizations/ and
// https://fluxcd.io/flux/components/helm/helmreleases/
type fluxRules struct{}

func (fluxRules) deletes(u *unit) verdict {
	if u.release != "" {
		if get(u.manifest, "spec", "suspend") == true {
			return verdictOf(Orphan, "its HelmRelease is suspended, and goes without uninstalling")
		}
		return verdictOf(Delete, "its HelmRelease goes, which uninstalls it")
	}
	spec, _ := get(u.manifest, "spec").(map[string]any)
	switch policy := spec["deletionPolicy"]; {
	case spec["suspend"] == true:
		return verdictOf(Orphan, "its Kustomization is suspended, and goes without pruning")
	case policy == "Orphan":
		return verdictOf(Orphan, "its Kustomization goes, with deletionPolicy Orphan")
	case policy == "Delete", policy == "WaitForTermination", spec["prune"] == true:
		return verdictOf(Delete, "its Kustomization goes, which deletes what it applied")
	}
	return verdictOf(Orphan, "its Kustomization goes, and does not prune")
}

func (fluxRules) prunes(_, after *unit) verdict {
	switch {
	case get(after.manifest, "spec", "suspend") == true:
		return verdictOf(Stay, after.String()+" is suspended")
	case after.release != "":
		return verdictOf(Delete, "the release no longer has it, and its upgrade deletes it")
	case get(after.manifest, "spec", "prune") == true:
		return verdictOf(Delete, "it is no longer in Git, and its Kustomization prunes")
	}
	return verdictOf(Orphan, "its Kustomization does not prune")
}

func (fluxRules) tracks(object) bool { return true }

func (fluxRules) stays(object) bool { return false } // Helm forgets its hooks

func (fluxRules) keeps(u *unit, o object, _ bool) string {
	if u.release != "" {
		if slices.Contains(annotation(o, "helm.sh/resource-policy"), "keep") {
			return "its annotation helm.sh/resource-policy says keep"
		}
		if text(o.content, "kind") == definition && strings.Contains("/"+o.File, "/crds/") {
			return "Helm never deletes what is in crds/"
		}
		return ""
	}
	return marked(o, flux.Prune, "disabled", reconcile, "disabled", ssa, "Ignore")
}

const (
	reconcile = "kustomize.toolkit.fluxcd.io/reconcile"
	ssa       = "kustomize.toolkit.fluxcd.io/ssa"
	force     = "kustomize.toolkit.fluxcd.io/force"
)

// marked returns which of these labels or annotations an object has, given as keys and values, or "".
func marked(o object, pairs ...string) string {
	metadata, _ := o.content["metadata"].(map[string]any)
	for pair := range slices.Chunk(pairs, 2) {
		for _, at := range []string{"annotations", "labels"} {
			values, _ := metadata[at].(map[string]any)
			if value, _ := values[pair[0]].(string); strings.EqualFold(value, pair[1]) {
				return "it has " + pair[0] + ": " + pair[1]
			}
		}
	}
	return ""
}

func (fluxRules) forces(u *unit, o object, refused bool) string {
	switch {
	case u.release != "" || !refused:
		return ""
	case get(u.manifest, "spec", "force") == true:
		return "its Kustomization recreates it (force)"
	}
	return marked(o, force, "enabled")
}

func (fluxRules) ignores(o object) string {
	return marked(o, reconcile, "disabled", ssa, "Ignore", ssa, "IfNotPresent")
}

// replaced is for a release with another name or place, which helm-controller uninstalls and installs again.
func (fluxRules) replaced(before, after *unit) string {
	if before.release == "" {
		return ""
	}
	for _, field := range []string{"releaseName", "targetNamespace", "storageNamespace"} {
		if was, is := get(before.manifest, "spec", field), get(after.manifest, "spec", field); !reflect.DeepEqual(was, is) {
			return fmt.Sprintf("spec.%s of its HelmRelease changes: uninstalled, and installed again", field)
		}
	}
	return ""
}

func (fluxRules) gently(u *unit) string {
	if u.release != "" {
		return "keep HelmRelease " + u.release + ", and its release's name and namespace"
	}
	return "first set prune: false in Kustomization " + text(u.manifest, "metadata", "name") + ", and remove it once the other has applied its objects"
}

func (fluxRules) exempt() string { return "annotate it with " + flux.Prune + ": disabled first" }

func (fluxRules) refused() string {
	return "undo the change; or give it another name; or annotate it with " + force + ": enabled, which recreates it"
}

func (fluxRules) runs(hook string) bool {
	return strings.Contains(hook, "upgrade")
}

// decoded returns a manifest as JSON decodes it.
func decoded(manifest any) map[string]any {
	if manifest == nil {
		return nil
	}
	data, err := gojson.Marshal(manifest)
	var m map[string]any
	if err != nil || json.UnmarshalCaseSensitivePreserveInts(data, &m) != nil {
		return nil
	}
	return m
}

func content(o desired.Object) (map[string]any, error) {
	v, err := strict.Value(o.Node)
	m, _ := v.(map[string]any)
	return m, err
}
