package argocd

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"homelab/lab"
	"homelab/lab/engine/helm"
	"homelab/lab/engine/kube"
	"homelab/lab/engine/workload"
)

// redisSecret is the Secret with Redis' password; the name is hard-coded in Argo CD's components.
const redisSecret = "argocd-redis"

// Install installs or upgrades Argo CD and waits until it is available. It reports whether anything changed: a release with the same inputs and all its
// workloads is left alone. An interrupted release is resumed; nothing is ever uninstalled.
func (a *ArgoCD) Install(ctx context.Context, chart lab.Chart, values map[string]any, p lab.Progress) (bool, error) {
	if err := a.ensureNamespace(ctx, a.hub.Dynamic, a.namespace, p); err != nil {
		return false, err
	}
	password, err := a.ensureRedisPassword(ctx)
	if err != nil {
		return false, err
	}
	res, err := a.release.Ensure(ctx, helm.Release{
		Name: releaseName, Namespace: a.namespace, Chart: chart, Values: values,
		Labels: map[string]string{lab.LabelName: a.lab},
	}, func(d string) { p(strings.Replace(d, chart.Name+" "+chart.Version, "argo cd", 1)) })
	if err != nil {
		return false, fmt.Errorf("argo cd: %w", err)
	}
	if res.Revision > 1 || !res.Changed { // a previous version was running
		project, err := a.ensureDefaultProject(ctx)
		if err != nil {
			return res.Changed, err
		}
		res.Changed = res.Changed || project
		if password || slices.ContainsFunc(res.Replaced, readAtStart) {
			p("argo cd: restarting to reload its settings")
			if err := a.restart(ctx, res.Workloads); err != nil {
				return res.Changed, err
			}
			res.Changed = true
		}
	}
	return res.Changed, workload.AwaitEngine(ctx, a.hub.Typed, workload.Engine{
		Name: "argo cd " + strings.TrimPrefix(res.State.App, "v"), Namespace: a.namespace, Workloads: res.State.Workloads, Affix: "argocd-", Within: readyWithin,
	}, p)
}

// defaultProject is the AppProject that Argo CD creates at its first start, used by Applications that name none.
const defaultProject = "default"

// ensureDefaultProject recreates a deleted default project as Argo CD does, and reports whether it did: no Application syncs without it.
func (a *ArgoCD) ensureDefaultProject(ctx context.Context) (made bool, err error) {
	has, err := a.has(ctx, appProjects, defaultProject)
	if has || err != nil {
		return false, err
	}
	all := []any{map[string]any{"group": "*", "kind": "*"}}
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
		"metadata": map[string]any{"name": defaultProject, "namespace": a.namespace},
		"spec": map[string]any{
			"sourceRepos": []any{"*"}, "destinations": []any{map[string]any{"server": "*", "namespace": "*"}}, "clusterResourceWhitelist": all,
		},
	}}
	_, err = a.hub.Dynamic.Resource(appProjects).Namespace(a.namespace).Create(ctx, o, metav1.CreateOptions{FieldManager: nudgeManager})
	if apierrors.IsAlreadyExists(err) {
		return false, nil
	}
	return err == nil, kube.Wrap("appproject "+defaultProject, err)
}

// has reports whether an object exists in Argo CD's namespace.
func (a *ArgoCD) has(ctx context.Context, resource schema.GroupVersionResource, name string) (bool, error) {
	_, err := a.hub.Dynamic.Resource(resource).Namespace(a.namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, kube.Wrap(resource.Resource+" "+name, err)
}

// readAtStart reports whether programs read the object only at startup.
func readAtStart(object string) bool {
	return strings.HasPrefix(object, "secret ") || strings.HasPrefix(object, "configmap ")
}

// restart replaces the pods of workloads, like kubectl rollout restart.
func (a *ArgoCD) restart(ctx context.Context, workloads []string) error {
	patch := fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":%q}}}}}`, time.Now().UTC().Format(time.RFC3339))
	for _, w := range workloads {
		kind, name, _ := strings.Cut(w, "/")
		var err error
		switch kind {
		case "Deployment":
			_, err = a.hub.Typed.AppsV1().Deployments(a.namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		case "StatefulSet":
			_, err = a.hub.Typed.AppsV1().StatefulSets(a.namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		}
		if err != nil {
			return fmt.Errorf("restart %s: %w", name, err)
		}
	}
	return nil
}

// ensureRedisPassword creates the Secret with Redis' password if missing, and reports whether it did. Argo CD's own way is a Job before the install; an
// existing Secret is never changed, since every component has read it.
func (a *ArgoCD) ensureRedisPassword(ctx context.Context) (made bool, err error) {
	has, err := a.has(ctx, secrets, redisSecret)
	if has || err != nil {
		return false, err
	}
	meta := map[string]any{"name": redisSecret, "namespace": a.namespace, "labels": a.labels("engine")}
	_, err = a.hub.Dynamic.Resource(secrets).Namespace(a.namespace).Create(ctx, kube.Secret(meta, map[string]string{"auth": rand.Text()}), metav1.CreateOptions{FieldManager: kube.FieldManager})
	if apierrors.IsAlreadyExists(err) {
		return false, nil
	}
	return err == nil, kube.Wrap("secret "+redisSecret, err)
}
