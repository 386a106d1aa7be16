package flux

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/flux/reconciliation"
	"homelab/lab/engine/kube"
)

const mirrorsPart = "mirrors"

// access are the fields of a GitRepository that are about upstream's server: how to log in, whose commits to trust, what else to fetch. A mirror has none of it.
var access = []string{"secretRef", "provider", "serviceAccountName", "proxySecretRef", "verify", "recurseSubmodules"}

// mirrorsName returns the name of the cluster-scoped policy and its binding.
func (f *Flux) mirrorsName() string { return "lab-" + f.lab + "-mirrors" }

// mirrors returns the policy that redirects sources to the forge's mirrors, if there are any: GitRepositories of a foreign repository have upstream's addresses, at
// any depth. Where such policies are not served, only the root's own sources are redirected.
func (f *Flux) mirrors(root engine.Root) []part {
	if len(root.Mirrors) == 0 {
		return nil
	}
	byKey := map[string]string{}
	for address, mirror := range root.Mirrors {
		key := lab.RepositoryKey(address)
		byKey[key], byKey[strings.ToLower((&url.URL{Path: key}).EscapedPath())] = mirror, mirror
	}
	var entries []string
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		entries = append(entries, kube.Quoted(key)+": "+kube.Quoted(byKey[key]))
	}
	// lab.RepositoryKey in CEL.
	const key = `(url(object.spec.url).getHostname() + url(object.spec.url).getEscapedPath()).lowerAscii()`
	withoutAccess := ""
	for _, field := range access {
		withoutAccess += ` + (has(object.spec.` + field + `) ? [JSONPatch{op: "remove", path: "/spec/` + field + `"}] : [])`
	}
	policy := kube.Mutation{
		Name: f.mirrorsName(), Lab: f.lab, Part: mirrorsPart, Resource: gitRepositories, Condition: f.redirected(),
		Variables: [][2]string{
			{"mirrors", "{" + strings.Join(entries, ", ") + "}"},
			{"path", `has(object.spec.url) && isURL(object.spec.url) ? ` + key + ` : ""`},
			{"trimmed", `variables.path.endsWith("/") ? variables.path.substring(0, variables.path.size() - 1) : variables.path`},
			{"key", `variables.trimmed.endsWith(".git") ? variables.trimmed.substring(0, variables.trimmed.size() - 4) : variables.trimmed`},
		},
		Patch: `variables.key in variables.mirrors
? [JSONPatch{op: "replace", path: "/spec/url", value: variables.mirrors[variables.key]}]` + withoutAccess + `
: []`,
	}
	var parts []part
	for _, o := range policy.Objects() {
		parts = append(parts, part{kube.MutationResource(o), o})
	}
	return parts
}

// redirected returns the condition for a GitRepository, in CEL: in a cluster of its own, lab redirects each; in an attached one, those that Flux applied, which can
// only be the lab's, as only a cluster without a Flux gets one.
func (f *Flux) redirected() string {
	const any = "has(object.spec.url)"
	if !f.attached {
		return any
	}
	label := func(key string) string { return kube.Quoted(key) + " in object.metadata.labels" }
	return any + " && has(object.metadata.labels) && (" + label(reconciliation.FromNamespace) + " || " + label(reconciliation.FromReleaseNamespace) + " || " + label(lab.LabelName) + ")"
}

// clearMirrors deletes lab's policy and reports whether it existed.
func (f *Flux) clearMirrors(ctx context.Context) (bool, error) {
	return kube.ClearMutation(ctx, f.hub, f.mirrorsName(), f.lab)
}
