package argocd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"homelab/lab"
	"homelab/lab/engine"
)

// rootKinds are the kinds that a root manifest may hold.
var rootKinds = []struct {
	kind     string
	resource schema.GroupVersionResource
}{
	{"Application", applications},
	{"ApplicationSet", applicationSets},
	{"AppProject", appProjects},
}

// ApplyRoot gives the root application to Argo CD and says whether that changed anything.
func (a *ArgoCD) ApplyRoot(ctx context.Context, root engine.Root) (bool, error) {
	objects, err := decode(root.Manifest)
	if err != nil {
		return false, err
	}
	applied := false
	for _, o := range objects {
		if err := point(o, root); err != nil {
			return applied, fmt.Errorf("root application %s: %w", o.GetName(), err)
		}
		resource, err := rootResource(o)
		if err != nil {
			return applied, err
		}
		o.SetNamespace(Namespace)
		labels := map[string]string{lab.LabelName: a.lab, lab.LabelPart: "root"}
		maps.Copy(labels, o.GetLabels())
		o.SetLabels(labels)
		before, after, err := apply(ctx, a.hub.dynamic, resource, o)
		if err != nil {
			return applied, err
		}
		applied = applied || changed(before, after)
	}
	return applied, nil
}

// point makes an Application read from the repository that root names.
func point(o *unstructured.Unstructured, root engine.Root) error {
	if o.GetKind() != "Application" {
		return nil
	}
	for field, value := range map[string]string{"repoURL": root.RepoURL, "targetRevision": root.Revision} {
		if value == "" {
			continue
		}
		if err := unstructured.SetNestedField(o.Object, value, "spec", "source", field); err != nil {
			return err
		}
	}
	return nil
}

func rootResource(o *unstructured.Unstructured) (schema.GroupVersionResource, error) {
	for _, k := range rootKinds {
		if o.GetKind() == k.kind && o.GroupVersionKind().Group == k.resource.Group {
			return k.resource, nil
		}
	}
	return schema.GroupVersionResource{}, &lab.Error{
		Exit: lab.ExitInvalid, Code: "invalid_estate",
		Message: fmt.Sprintf("the root application's file holds a %s %q", o.GetKind(), o.GetName()),
		Cure:    "it may hold Applications, ApplicationSets and AppProjects; put the rest into a folder that one of them syncs",
	}
}

// decode reads one or more YAML documents.
func decode(manifest []byte) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	d := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := d.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("root application: %w", err)
		}
		if len(o.Object) > 0 {
			out = append(out, o)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("root application: the manifest is empty")
	}
	return out, nil
}

const repositories = "repository"

// ApplyRepositories makes Argo CD know exactly these repositories among those that lab manages, and returns in words what changed.
func (a *ArgoCD) ApplyRepositories(ctx context.Context, repos []engine.Repository) ([]string, error) {
	if err := a.ensureNamespace(ctx, a.hub.dynamic, Namespace); err != nil {
		return nil, err
	}
	var lines []string
	wanted := map[string]bool{}
	for _, r := range repos {
		o := a.repositorySecret(r)
		wanted[o.GetName()] = true
		before, after, err := apply(ctx, a.hub.dynamic, secrets, o)
		if err != nil {
			return lines, fmt.Errorf("repository %s: %w", r.Name, err)
		}
		switch {
		case before == nil:
			lines = append(lines, fmt.Sprintf("repository %s: %s", r.Name, r.URL))
		case secretField(before, "url") != r.URL:
			lines = append(lines, fmt.Sprintf("repository %s: %s -> %s", r.Name, secretField(before, "url"), r.URL))
		case changed(before, after):
			lines = append(lines, fmt.Sprintf("repository %s: credentials renewed", r.Name))
		}
	}
	list, err := a.hub.dynamic.Resource(secrets).Namespace(Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: secretType + "=repository," + lab.LabelName + "=" + a.lab + "," + lab.LabelPart + "=" + repositories,
	})
	if err != nil {
		return lines, fmt.Errorf("repositories: %w", err)
	}
	for _, o := range list.Items {
		if wanted[o.GetName()] {
			continue
		}
		if err := a.hub.dynamic.Resource(secrets).Namespace(Namespace).Delete(ctx, o.GetName(), metav1.DeleteOptions{}); err != nil {
			return lines, fmt.Errorf("repository %s: %w", o.GetName(), err)
		}
		lines = append(lines, fmt.Sprintf("repository %s: removed", strings.TrimPrefix(o.GetName(), "repo-")))
	}
	slices.Sort(lines)
	return lines, nil
}

func (a *ArgoCD) repositorySecret(r engine.Repository) *unstructured.Unstructured {
	labels := a.labels(repositories)
	labels[secretType] = "repository"
	data := map[string]string{"type": r.Type, "name": r.Name, "url": r.URL}
	if r.Username != "" {
		data["username"], data["password"] = r.Username, r.Password
	}
	return secret(map[string]any{"name": "repo-" + r.Name, "namespace": Namespace, "labels": labels}, data)
}
