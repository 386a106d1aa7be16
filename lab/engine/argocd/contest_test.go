package argocd

import (
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"homelab/lab/engine/kube/kubetest"
)

// An Application of another Argo CD contests the lab's of the same name if it deploys to the cluster that it is in, and if Argo CD cannot tell the installations apart.
func TestContests(t *testing.T) {
	const (
		settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-cm, namespace: argocd}\n"
		app      = "---\napiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: edge-cache, namespace: argocd}\nspec: {destination: {"
	)
	for name, tt := range map[string]struct {
		objects string
		want    []string
	}{
		"no other":                  {settings, nil},
		"by server":                 {settings + app + "server: 'https://kubernetes.default.svc'}}\n", []string{"argocd/edge-cache"}},
		"by name":                   {settings + app + "name: in-cluster}}\n", []string{"argocd/edge-cache"}},
		"by its outer address":      {settings + app + "server: 'https://edge:6443'}}\n", []string{"argocd/edge-cache"}},
		"of another cluster":        {settings + app + "server: 'https://other:6443'}}\n", nil},
		"with an installation's id": {settings + "data: {installationID: hers}\n" + app + "name: in-cluster}}\n", nil},
		"outside of its namespace":  {app + "name: in-cluster}}\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := kubetest.Owned(t, nil)
			c.Create(t, "", tt.objects)
			got, err := contests(t.Context(), c.Clients(), "https://edge:6443", []string{"edge-identity", "edge-cache"})
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("%q, %v, want %q", got, err, tt.want)
			}
		})
	}
	none := kubetest.Owned(t, nil)
	none.PrependReactor("list", "applications", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(applications.GroupResource(), "")
	})
	if got, err := contests(t.Context(), none.Clients(), "https://edge:6443", []string{"edge-cache"}); err != nil || got != nil {
		t.Errorf("without an Argo CD: %q, %v", got, err)
	}
}
