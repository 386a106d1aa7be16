package argocd

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/kube"
)

var errOverloaded = errors.New("etcdserver: request timed out")

const staleRepository = `
apiVersion: v1
kind: Secret
metadata:
  name: repo-old
  namespace: argocd
  labels: {argocd.argoproj.io/secret-type: repository, lab.homelab/name: homelab, lab.homelab/part: repository}
data: {url: aHR0cDovL29sZA==}
`

// A failure of any request fails the operation: nothing unknown is reported as done or absent.
func TestRequestErrors(t *testing.T) {
	extra := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "front", "namespace": Namespace, "labels": map[string]any{lab.LabelName: "homelab", lab.LabelPart: kube.ExtraPart}},
	}}
	root := engine.Root{Manifest: []byte(rootManifest), Extra: []*unstructured.Unstructured{extra}}
	repos := []engine.Repository{{Name: "estate", Type: "git", URL: "http://forge/estate.git"}}
	for name, c := range map[string]struct {
		manifests []string // the hub's
		do        func(t *testing.T, a *ArgoCD) error
	}{
		"install": {nil, func(t *testing.T, a *ArgoCD) error {
			_, err := a.Install(t.Context(), chart, nil, silent)
			return err
		}},
		"install without default project": {nil, func(t *testing.T, a *ArgoCD) error {
			a.release.(*fakeRelease).state.Revision = 1
			if err := a.hub.Dynamic.Resource(appProjects).Namespace(Namespace).Delete(t.Context(), defaultProject, metav1.DeleteOptions{}); err != nil {
				return err
			}
			_, err := a.Install(t.Context(), chart, nil, silent)
			return err
		}},
		"observe": {[]string{"{apiVersion: v1, kind: Namespace, metadata: {name: argocd}}", clusterSecret("prod", "homelab")}, func(t *testing.T, a *ArgoCD) error {
			a.release.(*fakeRelease).state.Revision = 1
			_, err := a.Observe(t.Context())
			return err
		}},
		"applications": {[]string{converged()}, func(t *testing.T, a *ArgoCD) error { _, err := a.Applications(t.Context()); return err }},
		"standing":     {[]string{converged()}, func(t *testing.T, a *ArgoCD) error { _, err := a.Snapshot(t.Context()); return err }},
		"refresh":      {[]string{converged()}, func(t *testing.T, a *ArgoCD) error { return a.Refresh(t.Context()) }},
		"root":         {nil, func(t *testing.T, a *ArgoCD) error { _, err := a.ApplyRoot(t.Context(), root); return err }},
		"renamed root": {[]string{strings.Replace(rootManifest, "name: addons, labels: {team: platform, lab.homelab/part: theirs}", "name: old, labels: {lab.homelab/name: homelab, lab.homelab/part: root}", 1)}, func(t *testing.T, a *ArgoCD) error { _, err := a.ApplyRoot(t.Context(), root); return err }},
		"drift":        {nil, func(t *testing.T, a *ArgoCD) error { _, err := a.Drift(t.Context(), root, repos); return err }},
		"repositories": {[]string{staleRepository}, func(t *testing.T, a *ArgoCD) error { _, err := a.ApplyRepositories(t.Context(), repos); return err }},
		"registration": {[]string{clusterSecret("prod", "homelab")}, func(t *testing.T, a *ArgoCD) error { _, err := a.Registration(t.Context(), "prod"); return err }},
		"mark": {[]string{clusterSecret("prod", "homelab")}, func(t *testing.T, a *ArgoCD) error {
			return a.Mark(t.Context(), "prod", engine.Marks{Labels: map[string]*string{"a": pointer("b")}})
		}},
		"register": {nil, func(t *testing.T, a *ArgoCD) error {
			_, err := a.Register(t.Context(), prod(nil), &rest.Config{})
			return err
		}},
		"register again": {[]string{clusterSecret("prod", "homelab")}, func(t *testing.T, a *ArgoCD) error {
			_, err := a.Register(t.Context(), prod(nil), &rest.Config{})
			return err
		}},
		"admits": {[]string{clusterSecret("prod", "homelab")}, func(t *testing.T, a *ArgoCD) error {
			_, err := a.CheckCredentials(t.Context(), "prod", &rest.Config{})
			return err
		}},
		"unregister": {[]string{clusterSecret("prod", "homelab")}, func(t *testing.T, a *ArgoCD) error {
			_, err := a.Unregister(t.Context(), engine.Departure{Cluster: "prod", Spoke: prodSpoke, LivesOn: true}, silent)
			return err
		}},
		"unregister unreachable": {[]string{clusterSecret("prod", "homelab"), leavingApplication}, func(t *testing.T, a *ArgoCD) error {
			_, err := a.Unregister(t.Context(), engine.Departure{Cluster: "prod"}, silent)
			return err
		}},
		"withdraw": {[]string{clusterSecret("edge", "homelab"), converged()}, func(t *testing.T, a *ArgoCD) error {
			_, err := a.Withdraw(t.Context(), map[string]*rest.Config{"prod": {}}, silent)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			play := func(t *testing.T, where, request string) (hub, spoke []string, err error) {
				synctest.Test(t, func(t *testing.T) {
					a, h, s := newFake(t, c.manifests...)
					s.create(t, issuedToken)
					s.create(t, spokeObjects)
					h.ClearActions()
					s.ClearActions()
					if where == "hub" {
						h.Refuse(request, errOverloaded)
					} else {
						s.Refuse(request, errOverloaded)
					}
					// Typed clients have their own reactors.
					for at, f := range map[string]*cluster{"hub": h, "spoke": s} {
						f.Typed.PrependReactor("*", "*", func(act clienttesting.Action) (bool, runtime.Object, error) {
							return at == where && act.GetVerb()+" "+act.GetResource().Resource == request, nil, errOverloaded
						})
						f.Typed.PrependReactor("create", "selfsubjectaccessreviews", func(act clienttesting.Action) (bool, runtime.Object, error) {
							if at == where && request == "create selfsubjectaccessreviews" {
								return true, nil, errOverloaded
							}
							return true, &authorizationv1.SelfSubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}, nil
						})
					}
					err = c.do(t, a)
					hub, spoke = requestKinds(h), requestKinds(s)
					time.Sleep(time.Minute) // ends the watches
				})
				return hub, spoke, err
			}
			hub, spoke, err := play(t, "", "")
			if err != nil || len(hub) == 0 {
				t.Fatalf("without errors: %v by %q", err, hub)
			}
			for where, list := range map[string][]string{"hub": hub, "spoke": spoke} {
				for _, request := range list {
					if _, _, err := play(t, where, request); err == nil {
						t.Errorf("%s fails in the %s: no error", request, where)
					}
				}
			}
		})
	}
}

// requestKinds returns the distinct requests made, without watches, which are restarted automatically.
func requestKinds(c *cluster) []string {
	var list []string
	for _, a := range slices.Concat(c.Actions(), c.Typed.Actions()) {
		if a.GetVerb() != "watch" {
			list = append(list, a.GetVerb()+" "+a.GetResource().Resource)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

const issuedToken = `
apiVersion: v1
kind: Secret
metadata: {name: argocd-manager-token, namespace: lab-system, labels: {lab.homelab/name: homelab}}
data: {token: dG9rZW4=, ca.crt: UEVN}
`

const leavingApplication = `
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: prod-podinfo, deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: [resources-finalizer.argocd.argoproj.io]}
spec: {destination: {name: prod}, source: {repoURL: x}}
`
