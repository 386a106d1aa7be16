package flux

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/flux/reconciliation"
	"homelab/lab/engine/kube"
)

const (
	repositoriesPart = "repository"
	estateSecret     = "estate" // login of the estate's repository
	chartsInterval   = "10m0s"  // of index downloads; a push to the forge requests one immediately
)

// rootKinds are the kinds allowed in a root manifest: those that `flux bootstrap` writes to gotk-sync.yaml.
var rootKinds = map[string]schema.GroupVersionResource{
	sourcev1.GitRepositoryKind: gitRepositories,
	"Kustomization":            kustomizations,
}

// urlAnnotation is the address of a repository, which a Git repository's Secret lacks otherwise.
const urlAnnotation = "lab.homelab/url"

// ApplyRepositories applies the credentials of the lab's repositories and the chart sources, and describes the changes.
func (f *Flux) ApplyRepositories(ctx context.Context, repos []engine.Repository) ([]string, error) {
	var lines []string
	kept := map[string]bool{}
	for _, r := range repos {
		changed, was := false, ""
		for _, o := range f.repository(r) {
			kept[o.resource.Resource+"/"+r.Name] = true
			before, after, err := kube.Apply(ctx, f.hub.Dynamic, o.resource, o.want)
			if err != nil {
				return lines, fmt.Errorf("repository %s: %w", r.Name, err)
			}
			if before != nil {
				was = before.GetAnnotations()[urlAnnotation]
			}
			changed = changed || kube.Changed(before, after)
		}
		switch {
		case !changed:
		case was == "":
			lines = append(lines, fmt.Sprintf("repository %s: %s", r.Name, r.URL))
		case was != r.URL:
			lines = append(lines, fmt.Sprintf("repository %s: %s -> %s", r.Name, was, r.URL))
		default:
			lines = append(lines, fmt.Sprintf("repository %s: credentials renewed", r.Name))
		}
	}
	dropped, err := f.drop(ctx, repositoriesPart, []schema.GroupVersionResource{helmRepositories, kube.Secrets}, kept)
	for _, name := range dropped {
		lines = append(lines, fmt.Sprintf("repository %s: removed", name))
	}
	slices.Sort(lines)
	return lines, cmp.Or(err, f.ensureLogins(ctx))
}

type part struct {
	resource schema.GroupVersionResource
	want     *unstructured.Unstructured
}

// repository returns the objects of a repository: a Secret, and for charts their source.
func (f *Flux) repository(r engine.Repository) []part {
	meta := func() map[string]any {
		return map[string]any{
			"name": r.Name, "namespace": f.namespace, "labels": f.labels(repositoriesPart), "annotations": map[string]any{urlAnnotation: r.URL},
		}
	}
	var parts []part
	if r.All { // OCIRepositories and HelmRepositories of type oci name it in their secretRef
		login := map[string]any{"username": r.Username, "password": r.Password, "auth": base64.StdEncoding.EncodeToString([]byte(r.Username + ":" + r.Password))}
		config, _ := json.Marshal(map[string]any{"auths": map[string]any{r.URL: login}}) // of strings alone
		secret := kube.Secret(meta(), map[string]string{corev1.DockerConfigJsonKey: string(config)})
		secret.Object["type"] = string(corev1.SecretTypeDockerConfigJson)
		return []part{{kube.Secrets, secret}}
	}
	if credentials := (map[string]string{"username": r.Username, "password": r.Password}); r.Username != "" {
		parts = append(parts, part{kube.Secrets, kube.Secret(meta(), credentials)})
	} else if r.Type != "helm" { // the root's source names it
		parts = append(parts, part{kube.Secrets, kube.Secret(meta(), nil)})
	}
	if r.Type == "helm" {
		spec := map[string]any{"url": r.URL, "interval": chartsInterval}
		if r.Username != "" {
			spec["secretRef"] = map[string]any{"name": r.Name}
		}
		parts = append(parts, part{helmRepositories, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": sourcev1.GroupVersion.String(), "kind": sourcev1.HelmRepositoryKind, "metadata": meta(), "spec": spec,
		}}})
	}
	return parts
}

// drop deletes lab's objects of a part except the kept ones ("secrets/estate"), and returns their names.
func (f *Flux) drop(ctx context.Context, of string, resources []schema.GroupVersionResource, kept map[string]bool) ([]string, error) {
	var names []string
	for _, r := range resources {
		objects := f.hub.Dynamic.Resource(r).Namespace(f.namespace)
		list, err := objects.List(ctx, metav1.ListOptions{LabelSelector: lab.LabelName + "=" + f.lab + "," + lab.LabelPart + "=" + of})
		if apierrors.IsNotFound(err) {
			continue // kind not installed
		}
		if err != nil {
			return names, fmt.Errorf("%s: %w", r.Resource, err)
		}
		for _, o := range list.Items {
			name := o.GetName()
			if kept[r.Resource+"/"+name] {
				continue
			}
			if r == kustomizations { // applied objects stay, for the next root to keep or prune
				orphan := []byte(`{"spec":{"deletionPolicy":"Orphan"}}`)
				if _, err := objects.Patch(ctx, name, types.MergePatchType, orphan, metav1.PatchOptions{FieldManager: kube.FieldManager}); err != nil && !apierrors.IsNotFound(err) {
					return names, kube.Wrap(r.Resource+" "+name, err)
				}
			}
			if err := objects.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return names, kube.Wrap(r.Resource+" "+name, err)
			}
			if also := slices.ContainsFunc(resources, func(r schema.GroupVersionResource) bool { return kept[r.Resource+"/"+name] }); !also && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// ApplyRoot applies the root objects and reports whether anything changed. Former roots are removed; their objects stay.
func (f *Flux) ApplyRoot(ctx context.Context, root engine.Root) (bool, error) {
	parts, err := f.given(root)
	if err != nil {
		return false, err
	}
	kept := map[string]bool{}
	made, err := f.ensureClusterNamespaces(ctx, root.Clusters)
	if err != nil {
		return made, err
	}
	cleared, err := f.removeClusterNamespaces(ctx, root.Clusters)
	if made = made || cleared; err != nil {
		return made, err
	}
	applied, err := f.extras().Apply(ctx, root.Extra)
	if applied = applied || made; err != nil {
		return applied, err
	}
	if len(root.Mirrors) > 0 {
		if err := f.ensureLogins(ctx, f.namespace); err != nil {
			return applied, err
		}
	}
	for _, p := range parts {
		before, after, err := kube.Apply(ctx, f.hub.Dynamic, p.resource, p.want)
		if err != nil {
			return applied, err
		}
		applied = applied || kube.Changed(before, after)
		kept[p.resource.Resource+"/"+p.want.GetName()] = true
	}
	if len(root.Mirrors) == 0 {
		cleared, err := f.clearMirrors(ctx)
		if applied = applied || cleared; err != nil {
			return applied, err
		}
	}
	dropped, err := f.drop(ctx, reconciliation.RootPart, []schema.GroupVersionResource{kustomizations, gitRepositories}, kept)
	return applied || len(dropped) > 0, err
}

// given returns all objects of a root, the redirection of sources first.
func (f *Flux) given(root engine.Root) ([]part, error) {
	parts, err := f.root(root)
	if err != nil || len(root.Mirrors) == 0 {
		return parts, err
	}
	served, err := kube.Mutates(f.hub)
	if !served {
		return parts, err
	}
	return append(f.mirrors(root), parts...), nil
}

func (f *Flux) extras() kube.Extras {
	return kube.Extras{Hub: f.hub.Dynamic, Namespace: f.namespace, Lab: f.lab}
}

// root parses a root's objects, redirects them to the lab's forge, and adds the Receiver of its webhooks.
func (f *Flux) root(root engine.Root) ([]part, error) {
	objects, err := kube.Decode(root.Manifest)
	if err != nil {
		return nil, fmt.Errorf("root: %w", err)
	}
	mirrors, estate := map[string]string{}, ""
	for address, mirror := range root.Mirrors {
		mirrors[lab.RepositoryKey(address)] = mirror
	}
	var parts []part
	for _, o := range objects {
		resource, err := rootResource(o)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{resource, o})
		o.SetNamespace(f.namespace)
		labels := map[string]string{}
		maps.Copy(labels, o.GetLabels())
		labels[lab.LabelName], labels[lab.LabelPart] = f.lab, reconciliation.RootPart
		o.SetLabels(labels)
		f.keep(o)
		spec, _ := o.Object["spec"].(map[string]any)
		if spec == nil {
			return nil, fmt.Errorf("root: %s %s has no spec", strings.ToLower(o.GetKind()), o.GetName())
		}
		if o.GetKind() == "Kustomization" {
			spec["suspend"] = false // Withdraw suspends it
			continue
		}
		url, _ := spec["url"].(string)
		key := lab.RepositoryKey(url)
		if mirror, mirrored := mirrors[key]; mirrored {
			spec["url"] = mirror
			for _, field := range access {
				delete(spec, field)
			}
			spec["secretRef"] = map[string]any{"name": f.mirrorsName()}
			continue
		}
		if estate == "" {
			estate = key
		}
		if key == estate && root.RepoURL != "" {
			spec["url"], spec["secretRef"] = root.RepoURL, map[string]any{"name": estateSecret}
			if root.Revision != "" {
				spec["ref"] = reference(root.Revision)
			}
		}
	}
	return append(parts, f.receiver()), nil
}

// commitID matches a revision that is not a branch.
var commitID = regexp.MustCompile(`^[0-9a-f]{40}$`)

func reference(revision string) map[string]any {
	if commitID.MatchString(revision) {
		return map[string]any{"commit": revision}
	}
	return map[string]any{"branch": revision}
}

func rootResource(o *unstructured.Unstructured) (schema.GroupVersionResource, error) {
	if r, known := rootKinds[o.GetKind()]; known && o.GroupVersionKind().Group == r.Group {
		return r, nil
	}
	return schema.GroupVersionResource{}, &lab.Error{
		Exit: lab.ExitInvalid, Code: "invalid_estate",
		Message: fmt.Sprintf("the root's file contains a %s %q", o.GetKind(), o.GetName()),
		Cure:    "it may contain GitRepositories and Kustomizations; move others to a folder that one of them applies",
	}
}

// Drift describes missing objects of the root and missing or modified repositories. Modified objects of the root are Git's concern, which may contain them.
func (f *Flux) Drift(ctx context.Context, root engine.Root, repos []engine.Repository) ([]string, error) {
	var lines []string
	for _, r := range repos {
		gone, other := false, false
		for _, p := range f.repository(r) {
			have, same, err := kube.Compare(ctx, f.hub.Dynamic, p.resource, p.want)
			if err != nil {
				return nil, fmt.Errorf("repository %s: %w", r.Name, err)
			}
			gone, other = gone || have == nil, other || !same
		}
		switch {
		case gone:
			lines = append(lines, fmt.Sprintf("repository %s is gone", r.Name))
		case other:
			lines = append(lines, fmt.Sprintf("repository %s was changed", r.Name))
		}
	}
	extra, err := f.extras().Drift(ctx, root.Extra)
	if err != nil {
		return nil, err
	}
	lines = append(lines, extra...)
	parts, err := f.given(root)
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		have, _, err := kube.Compare(ctx, f.hub.Dynamic, p.resource, p.want)
		if err != nil {
			return nil, err
		}
		if have == nil {
			lines = append(lines, fmt.Sprintf("%s %s is gone", strings.ToLower(p.want.GetKind()), p.want.GetName()))
		}
	}
	return lines, nil
}
