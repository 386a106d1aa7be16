package scenariotest

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"

	yamlv3 "go.yaml.in/yaml/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/flux"
	"homelab/lab/render"
	"homelab/lab/scenario"
	"homelab/lab/strict"
)

// object is a manifest and its target.
type object struct {
	subject scenario.Subject
	content map[string]any
}

func manifest(cluster, apiVersion, kind, namespace, name string, labels, annotations, rest map[string]any) object {
	meta := map[string]any{"name": name, "namespace": namespace}
	if len(labels) > 0 {
		meta["labels"] = labels
	}
	if len(annotations) > 0 {
		meta["annotations"] = annotations
	}
	content := map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": meta}
	for k, v := range rest {
		content[k] = v
	}
	return object{scenario.Subject{Cluster: cluster, APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name}, content}
}

// render approximates the charts of the default estate's addons, as far as stories need their objects. inline are the manifest's own values.
func (r *reading) render(fsys fs.FS, addon lab.Addon, inline []byte, cluster, env, version string) []object {
	chart := map[string]any{"helm.sh/chart": addon.Name + "-" + version, "app.kubernetes.io/version": version}
	switch addon.Name {
	case "podinfo":
		values := r.layered(fsys, addon.Name, env, cluster)
		ui, _ := values["ui"].(map[string]any)
		return []object{manifest(cluster, "apps/v1", "Deployment", "podinfo", "podinfo", chart, nil, map[string]any{"spec": map[string]any{
			"replicas": int64(number(values["replicaCount"])),
			"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{
				"name": "podinfo", "image": "ghcr.io/stefanprodan/podinfo:" + version,
				"env": []any{map[string]any{"name": "PODINFO_UI_COLOR", "value": fmt.Sprint(ui["color"])}},
			}}}},
		}})}
	case "identity":
		var values struct {
			AWS      struct{ RoleARN string }
			Metadata map[string]string
		}
		_ = json.Unmarshal(inline, &values) // already validated
		annotations := map[string]any{"eks.amazonaws.com/role-arn": values.AWS.RoleARN}
		data := map[string]any{}
		for k, v := range values.Metadata {
			if v != "" {
				data[k] = v
			}
		}
		return []object{
			manifest(cluster, "v1", "ServiceAccount", "identity", "identity", nil, annotations, nil),
			manifest(cluster, "v1", "ConfigMap", "identity", "cloud", nil, nil, map[string]any{"data": data}),
		}
	}
	return []object{manifest(cluster, "apps/v1", "Deployment", addon.Namespace, addon.Name, chart, nil, map[string]any{"spec": map[string]any{"replicas": int64(1)}})}
}

// folders returns the objects of sources that are folders without a chart, at their revisions.
func (e *Engine) folders(ctx context.Context, fsys fs.FS, cluster string, app *appset.Application) ([]object, error) {
	var list []object
	for _, source := range app.Spec.All() {
		from := fsys
		other, why, err := e.other(ctx, source.RepoURL)
		switch {
		case err != nil:
			return nil, err
		case why != "":
			return nil, failure{why}
		case other.FS != nil:
			from = other.FS
		}
		if r := source.TargetRevision; source.Path != "" && r != "" && r != scenario.Branch && r != "HEAD" {
			tree, err := e.forge.Tree(ctx, r)
			if err != nil {
				return nil, failure{"unable to resolve '" + r + "' to a commit SHA"}
			}
			from = tree.FS
		}
		if _, err := fs.Stat(from, source.Path+"/Chart.yaml"); source.Path == "" || err == nil {
			continue
		}
		docs, err := render.Render(render.Source{FS: from, Source: source, Application: app.Metadata.Name, Namespace: app.Spec.Destination.Namespace})
		if err != nil {
			return nil, failure{err.Error()}
		}
		for _, doc := range docs {
			o, err := written(cluster, doc.Node)
			if err != nil {
				return nil, err
			}
			list = append(list, o)
		}
	}
	return list, nil
}

// written converts a document to an object.
func written(cluster string, doc *yamlv3.Node) (object, error) {
	data, err := strict.JSON(doc)
	if err != nil {
		return object{}, err
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(data); err != nil {
		return object{}, err
	}
	return object{scenario.Subject{Cluster: cluster, APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()}, u.Object}, nil
}

func number(v any) float64 {
	if f, ok := v.(float64); ok {
		return f
	}
	return 1
}

// layered returns the merged values of an addon; the last layer wins.
func (r *reading) layered(fsys fs.FS, addon, env, cluster string) map[string]any {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := addon + " " + env + " " + cluster
	if values, known := r.values[key]; known {
		return values
	}
	values := map[string]any{}
	r.values[key] = values
	for _, dir := range []string{"environments/default", "environments/" + env, "clusters/" + cluster} {
		data, err := fs.ReadFile(fsys, dir+"/addons/"+addon+"/values.yaml")
		if err != nil {
			continue
		}
		var layer map[string]any
		if yaml.Unmarshal(data, &layer) == nil {
			overlay(values, layer)
		}
	}
	return values
}

func digest(objects []object) string {
	var contents []map[string]any
	for _, o := range objects {
		contents = append(contents, o.content)
	}
	b, err := json.Marshal(contents)
	if err != nil {
		panic(err) // cannot fail: maps of strings and numbers
	}
	return string(b)
}

// differ reports whether live objects differ from the wanted ones.
func (e *Engine) differ(ctx context.Context, cluster string, objects []object) (bool, error) {
	client, err := e.clusters.within(cluster)
	if err != nil {
		return false, err
	}
	for _, o := range objects {
		r, err := client.Resource(o.subject)
		if err != nil {
			return false, err
		}
		live, err := r.Get(ctx, o.subject.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		if !covers(live.Object, o.content) || o.subject.Kind == "ConfigMap" && !covers(o.content["data"], live.Object["data"]) {
			return true, nil
		}
	}
	return false, nil
}

// covers reports whether live contains want.
func covers(live, want any) bool {
	switch w := want.(type) {
	case map[string]any:
		l, ok := live.(map[string]any)
		for k, v := range w {
			ok = ok && covers(l[k], v)
		}
		return ok
	case []any:
		l, ok := live.([]any)
		ok = ok && len(l) == len(w)
		for i := range w {
			ok = ok && covers(l[i], w[i])
		}
		return ok
	}
	return live == want
}

func (e *Engine) apply(ctx context.Context, cluster string, objects []object) error {
	client, err := e.clusters.within(cluster)
	if err != nil {
		return err
	}
	if o, missing := e.clusters.undefined(cluster, objects); missing {
		return map[lab.EngineType]failure{lab.EngineArgoCD: missingKind(o), lab.EngineFlux: noMatches(o)}[e.on]
	}
	for _, o := range staged(objects) {
		r, err := client.Resource(o.subject)
		if err != nil {
			return err
		}
		u := &unstructured.Unstructured{Object: o.content}
		if err := e.clusters.admit(cluster, e.user(), "UPDATE", resourceOf(client, o.subject), u); err != nil {
			return failure{err.Error()}
		}
		if _, err := r.Apply(ctx, o.subject.Name, u.DeepCopy(), metav1.ApplyOptions{FieldManager: "engine", Force: true}); err != nil {
			return err
		}
	}
	return nil
}

// user is the engine's account on a spoke.
func (e *Engine) user() string {
	return serviceAccount + map[lab.EngineType]string{lab.EngineArgoCD: "argocd-manager", lab.EngineFlux: "flux-manager"}[e.on]
}

func resourceOf(client scenario.Client, s scenario.Subject) schema.GroupVersionResource {
	kind := schema.FromAPIVersionAndKind(s.APIVersion, s.Kind)
	mapping, err := client.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
	must(err)
	return mapping.Resource
}

// health returns the health of an application with these objects.
func (e *Engine) health(ctx context.Context, cluster string, objects []object) (string, error) {
	client, err := e.clusters.within(cluster)
	if err != nil {
		return "", err
	}
	for _, o := range objects {
		r, err := client.Resource(o.subject)
		if err != nil {
			return "", err
		}
		live, err := r.Get(ctx, o.subject.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && !isReady(live.Object) {
			return "Progressing", nil
		}
		if err != nil {
			return "", err
		}
	}
	return "Healthy", nil
}

func (e *Engine) prune(ctx context.Context, cluster string, objects []object) error {
	client, err := e.clusters.within(cluster)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if keep, _, _ := unstructured.NestedString(o.content, "metadata", "annotations", flux.Prune); keep == "disabled" && e.on == lab.EngineFlux {
			continue
		}
		r, err := client.Resource(o.subject)
		if err != nil {
			return err
		}
		if err := r.Delete(ctx, o.subject.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
