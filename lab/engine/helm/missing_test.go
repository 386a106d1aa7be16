package helm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	metadatafake "k8s.io/client-go/metadata/fake"
)

func TestObjects(t *testing.T) {
	manifest := `# Source: small/templates/a.yaml
apiVersion: v1
kind: Secret
metadata:
  labels:
    name: not-this
  name: one # the first
  namespace: "elsewhere"
data:
  name: nor-this
---
kind: ClusterRole
metadata: {name: two}
apiVersion: rbac.authorization.k8s.io/v1
---
# nothing but a comment
---
{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "three"}}
---
apiVersion: v1
kind: ConfigMap
metadata:
    name: 'four'
data:
  a: |
    apiVersion: v1
    kind: Secret
---
apiVersion: batch/v1
kind: Job
metadata:
  generateName: five-
---
not: [yaml
`
	var got []string
	for _, o := range objects(manifest) {
		got = append(got, o.kind.GroupVersion().String()+" "+o.String()+" "+o.name.Namespace)
	}
	want := []string{"v1 secret one elsewhere", "rbac.authorization.k8s.io/v1 clusterrole two ", "apps/v1 deployment three ", "v1 configmap four "}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func FuzzObjects(f *testing.F) {
	f.Add("apiVersion: v1\nkind: Secret\nmetadata:\n  name: a\n---\nkind: B")
	f.Fuzz(func(t *testing.T, manifest string) {
		for _, o := range objects(manifest) {
			if o.kind.Kind == "" || o.name.Name == "" {
				t.Errorf("%+v of %q", o, manifest)
			}
		}
	})
}

// A kind without a definition has no objects, and terminating objects do not count.
func TestListOf(t *testing.T) {
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	of := func(namespace, name string, leaving bool) runtime.Object {
		o := &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"}, ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		}
		if leaving {
			o.DeletionTimestamp, o.Finalizers = &metav1.Time{}, []string{"x"}
		}
		return o
	}
	client := metadatafake.NewSimpleMetadataClient(scheme, of("argocd", "stays", false), of("argocd", "leaves", true))
	have, err := listOf(client)(t.Context(), schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"})
	if err != nil || !have[types.NamespacedName{Namespace: "argocd", Name: "stays"}] || have[types.NamespacedName{Namespace: "argocd", Name: "leaves"}] {
		t.Errorf("%v, %v", have, err)
	}
}
