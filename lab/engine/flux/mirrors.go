package flux

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/flux/reconciliation"
	"homelab/lab/engine/kube"
)

const mirrorsPart = "mirrors"

// access are the fields of a GitRepository that are about upstream's server: how to log in, whose commits to trust, what else to fetch. A mirror has none of it,
// but a Secret of its own.
var access = []string{"provider", "serviceAccountName", "proxySecretRef", "verify", "recurseSubmodules"}

// mirrorsName returns the name of the cluster-scoped policy and its binding, and of the Secrets with the mirrors' login.
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
	withLogin := ` + [JSONPatch{op: "add", path: "/spec/secretRef", value: {"name": ` + kube.Quoted(f.mirrorsName()) + `}}]`
	policy := kube.Mutation{
		Name: f.mirrorsName(), Lab: f.lab, Part: mirrorsPart, Resource: gitRepositories, Condition: f.redirected(),
		Variables: [][2]string{
			{"mirrors", "{" + strings.Join(entries, ", ") + "}"},
			{"path", `has(object.spec.url) && isURL(object.spec.url) ? ` + key + ` : ""`},
			{"trimmed", `variables.path.endsWith("/") ? variables.path.substring(0, variables.path.size() - 1) : variables.path`},
			{"key", `variables.trimmed.endsWith(".git") ? variables.trimmed.substring(0, variables.trimmed.size() - 4) : variables.trimmed`},
		},
		Patch: `variables.key in variables.mirrors
? [JSONPatch{op: "replace", path: "/spec/url", value: variables.mirrors[variables.key]}]` + withLogin + withoutAccess + `
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

// clearMirrors deletes lab's policy and the Secrets, and reports whether the policy existed.
func (f *Flux) clearMirrors(ctx context.Context) (bool, error) {
	logins, err := f.logins(ctx)
	if err != nil {
		return false, err
	}
	for _, namespace := range logins {
		if err := f.delete(ctx, kube.Secrets, namespace, f.mirrorsName()); err != nil {
			return false, err
		}
	}
	return kube.ClearMutation(ctx, f.hub, f.mirrorsName(), f.lab)
}

// logins returns the namespaces that have the mirrors' login.
func (f *Flux) logins(ctx context.Context) ([]string, error) {
	list, err := f.hub.Dynamic.Resource(kube.Secrets).List(ctx, metav1.ListOptions{LabelSelector: lab.LabelName + "=" + f.lab + "," + lab.LabelPart + "=" + mirrorsPart})
	if err != nil {
		return nil, kube.Wrap("secrets", err)
	}
	var namespaces []string
	for _, o := range list.Items {
		namespaces = append(namespaces, o.GetNamespace())
	}
	return namespaces, nil
}

// ensureLogins copies the login of the estate's repository, with which all repositories of the lab are read, into namespaces and to where it already is: a
// GitRepository names a Secret of its own namespace.
func (f *Flux) ensureLogins(ctx context.Context, namespaces ...string) error {
	existing, err := f.logins(ctx)
	if err != nil {
		return err
	}
	if namespaces = append(namespaces, existing...); len(namespaces) == 0 {
		return nil
	}
	estate, err := f.hub.Dynamic.Resource(kube.Secrets).Namespace(f.namespace).Get(ctx, estateSecret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) { // ApplyRepositories comes first, and again
		return nil
	}
	if err != nil {
		return kube.Wrap("secret "+estateSecret, err)
	}
	slices.Sort(namespaces)
	for _, namespace := range slices.Compact(namespaces) {
		meta := map[string]any{"name": f.mirrorsName(), "namespace": namespace, "labels": f.labels(mirrorsPart)}
		login := map[string]string{"username": kube.SecretField(estate, "username"), "password": kube.SecretField(estate, "password")}
		if _, _, err := kube.Apply(ctx, f.hub.Dynamic, kube.Secrets, kube.Secret(meta, login)); err != nil {
			return err
		}
	}
	return nil
}

// follow copies the login to the GitRepositories that appeared since the last look.
func (f *Flux) follow(ctx context.Context, v reconciliation.View, known map[string]bool) error {
	key := func(namespace string) string { return f.cluster + "/" + namespace }
	fresh := slices.DeleteFunc(v.LogInWith(f.mirrorsName()), func(namespace string) bool { return known[key(namespace)] })
	if len(fresh) == 0 {
		return nil
	}
	if err := f.ensureLogins(ctx, fresh...); err != nil {
		return err // retried at the next look
	}
	for _, namespace := range fresh {
		known[key(namespace)] = true
	}
	return nil
}
