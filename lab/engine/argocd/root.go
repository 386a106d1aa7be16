package argocd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab"
	"homelab/lab/argo"
	"homelab/lab/engine"
	"homelab/lab/engine/kube"
)

// rootKinds are the kinds allowed in a root manifest.
var rootKinds = []struct {
	kind     string
	resource schema.GroupVersionResource
}{
	{"Application", applications},
	{"ApplicationSet", applicationSets},
	{"AppProject", appProjects},
}

// ApplyRoot applies the roots and reports whether anything changed. Former roots that the manifest no longer contains are deleted without their synced objects,
// which the new roots adopt or prune.
func (a *ArgoCD) ApplyRoot(ctx context.Context, root engine.Root) (bool, error) {
	objects, err := kube.Decode(root.Manifest)
	if err != nil {
		return false, fmt.Errorf("root application: %w", err)
	}
	kept := map[string]bool{}
	applied, err := a.extras().Apply(ctx, root.Extra)
	if err != nil {
		return applied, err
	}
	guarded, err := a.applyReplaces(ctx, root)
	if applied = applied || guarded; err != nil {
		return applied, err
	}
	point(objects, root)
	for _, o := range objects {
		resource, err := rootResource(o)
		if err != nil {
			return applied, err
		}
		o.SetNamespace(a.namespace)
		labels := map[string]string{}
		maps.Copy(labels, o.GetLabels())
		labels[lab.LabelName], labels[lab.LabelPart] = a.lab, "root" // identify it, overriding the manifest
		o.SetLabels(labels)
		if root.RepoURL != "" && resource != appProjects {
			annotations := map[string]string{}
			maps.Copy(annotations, o.GetAnnotations())
			annotations[lab.AnnotationEstate] = root.RepoURL + " " + root.Revision
			o.SetAnnotations(annotations)
		}
		before, after, err := kube.Apply(ctx, a.hub.Dynamic, resource, o)
		if err != nil {
			return applied, err
		}
		applied = applied || kube.Changed(before, after)
		kept[resource.Resource+"/"+o.GetName()] = true
	}
	dropped, err := a.dropRoots(ctx, kept)
	return applied || dropped, err
}

// Drift describes missing objects of the root and missing or modified repositories. Modified objects of the root are Git's concern, as the roots may manage
// themselves.
func (a *ArgoCD) Drift(ctx context.Context, root engine.Root, repos []engine.Repository) ([]string, error) {
	var lines []string
	for _, r := range ofTypes(repos) {
		have, same, err := kube.Compare(ctx, a.hub.Dynamic, secrets, a.repositorySecret(r))
		switch {
		case err != nil:
			return nil, fmt.Errorf("repository %s: %w", r.Name, err)
		case have == nil:
			lines = append(lines, fmt.Sprintf("repository %s is gone", r.Name))
		case !same:
			lines = append(lines, fmt.Sprintf("repository %s was changed", r.Name))
		}
	}
	extra, err := a.extras().Drift(ctx, root.Extra)
	if err != nil {
		return nil, err
	}
	lines = append(lines, extra...)
	unguarded, err := a.missingReplaces(ctx, root)
	if err != nil {
		return nil, err
	}
	lines = append(lines, unguarded...)
	objects, err := kube.Decode(root.Manifest)
	if err != nil {
		return nil, fmt.Errorf("root application: %w", err)
	}
	for _, o := range objects {
		resource, err := rootResource(o)
		if err != nil {
			return nil, err
		}
		o.SetNamespace(a.namespace)
		have, _, err := kube.Compare(ctx, a.hub.Dynamic, resource, o)
		if err != nil {
			return nil, err
		}
		if have == nil {
			lines = append(lines, fmt.Sprintf("%s %s is gone", strings.ToLower(o.GetKind()), o.GetName()))
		}
	}
	return lines, nil
}

func (a *ArgoCD) extras() kube.Extras {
	return kube.Extras{Hub: a.hub.Dynamic, Namespace: a.namespace, Lab: a.lab}
}

// dropRoots deletes former roots not in kept, and reports whether there were any.
func (a *ArgoCD) dropRoots(ctx context.Context, kept map[string]bool) (bool, error) {
	dropped := false
	for _, k := range rootKinds {
		objects := a.hub.Dynamic.Resource(k.resource).Namespace(a.namespace)
		list, err := objects.List(ctx, metav1.ListOptions{LabelSelector: lab.LabelName + "=" + a.lab + "," + lab.LabelPart + "=root"})
		if err != nil {
			return dropped, fmt.Errorf("%s: %w", k.resource.Resource, err)
		}
		for _, o := range list.Items {
			if kept[k.resource.Resource+"/"+o.GetName()] {
				continue
			}
			// With its finalizer, Argo CD would delete everything the Application has synced.
			if err := a.dropFinalizers(ctx, k.resource, o.GetName()); err != nil {
				return dropped, err
			}
			if err := objects.Delete(ctx, o.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return dropped, fmt.Errorf("%s %s: %w", k.kind, o.GetName(), err)
			}
			dropped = true
		}
	}
	return dropped, nil
}

func rootResource(o *unstructured.Unstructured) (schema.GroupVersionResource, error) {
	for _, k := range rootKinds {
		if o.GetKind() == k.kind && o.GroupVersionKind().Group == k.resource.Group {
			return k.resource, nil
		}
	}
	return schema.GroupVersionResource{}, &lab.Error{
		Exit: lab.ExitInvalid, Code: "invalid_estate",
		Message: fmt.Sprintf("the root application's file contains a %s %q", o.GetKind(), o.GetName()),
		Cure:    "it may contain Applications, ApplicationSets and AppProjects; move others to a folder that one of them syncs",
	}
}

const repositories = "repository"

// ApplyRepositories replaces the repositories that lab manages in Argo CD, and describes the changes.
func (a *ArgoCD) ApplyRepositories(ctx context.Context, repos []engine.Repository) ([]string, error) {
	if err := a.ensureNamespace(ctx, a.hub.Dynamic, a.namespace, silent); err != nil {
		return nil, err
	}
	var lines []string
	wanted := map[string]bool{}
	for _, r := range ofTypes(repos) {
		o := a.repositorySecret(r)
		wanted[o.GetName()] = true
		before, after, err := kube.Apply(ctx, a.hub.Dynamic, secrets, o)
		if err != nil {
			return lines, fmt.Errorf("repository %s: %w", r.Name, err)
		}
		switch {
		case before == nil:
			lines = append(lines, fmt.Sprintf("repository %s: %s", r.Name, r.URL))
		case kube.SecretField(before, "url") != r.URL:
			lines = append(lines, fmt.Sprintf("repository %s: %s -> %s", r.Name, kube.SecretField(before, "url"), r.URL))
		case kube.Changed(before, after):
			lines = append(lines, fmt.Sprintf("repository %s: credentials renewed", r.Name))
		}
	}
	list, err := a.hub.Dynamic.Resource(secrets).Namespace(a.namespace).List(ctx, metav1.ListOptions{
		LabelSelector: argo.SecretType + " in (repository,repo-creds)," + lab.LabelName + "=" + a.lab + "," + lab.LabelPart + "=" + repositories,
	})
	if err != nil {
		return lines, fmt.Errorf("repositories: %w", err)
	}
	for _, o := range list.Items {
		if wanted[o.GetName()] {
			continue
		}
		if err := a.hub.Dynamic.Resource(secrets).Namespace(a.namespace).Delete(ctx, o.GetName(), metav1.DeleteOptions{}); err != nil {
			return lines, fmt.Errorf("repository %s: %w", o.GetName(), err)
		}
		lines = append(lines, fmt.Sprintf("repository %s: removed", strings.TrimPrefix(o.GetName(), "repo-")))
	}
	slices.Sort(lines)
	return lines, nil
}

// ofTypes replaces a registry by the two ways in which Applications name it: as a repository of charts, "registry:5000/charts", and as one of any artifacts,
// "oci://registry:5000/manifests".
func ofTypes(repos []engine.Repository) []engine.Repository {
	var list []engine.Repository
	for _, r := range repos {
		if r.All {
			charts := r
			charts.Name, charts.Type = r.Name+"-charts", "helm"
			r.URL = "oci://" + r.URL
			list = append(list, charts)
		}
		list = append(list, r)
	}
	return list
}

func (a *ArgoCD) repositorySecret(r engine.Repository) *unstructured.Unstructured {
	labels := a.labels(repositories)
	labels[argo.SecretType] = "repository"
	data := map[string]string{"type": r.Type, "name": r.Name, "url": r.URL}
	if r.Username != "" {
		data["username"], data["password"] = r.Username, r.Password
	}
	if r.SSHKey != "" {
		data["sshPrivateKey"] = r.SSHKey
	}
	if r.Proxy != "" {
		data["proxy"] = r.Proxy
	}
	if r.Insecure {
		data["insecure"] = "true"
	}
	if r.All {
		labels[argo.SecretType] = "repo-creds"
		data["insecureOCIForceHttp"] = "true"
		if r.Type == "helm" {
			data["enableOCI"] = "true"
		}
	}
	return kube.Secret(map[string]any{"name": "repo-" + r.Name, "namespace": a.namespace, "labels": labels}, data)
}
