package survey

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"homelab/lab"
)

const track = "example.com/tracking"

func meta(name, uid, by string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: "web", Name: name, UID: types.UID(uid)}
	if by != "" {
		m.Annotations = map[string]string{track: by}
	}
	return m
}

func partial(name, uid, by string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: meta(name, uid, by)}
}

func podOf(namespace, name, uid string, restarts int32) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: meta(name, uid, "")}
	p.Namespace = namespace
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: restarts}}
	return p
}

func surveyOf(t *testing.T, only []string, apps []lab.Application, objects, pods []runtime.Object) Survey {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	typed := fake.NewClientset(pods...)
	typed.Resources = []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{
		{Name: "configmaps", Kind: "ConfigMap", Namespaced: true, Verbs: []string{"list"}},
		{Name: "bindings", Kind: "Binding", Namespaced: true, Verbs: []string{"create"}},
	}}}
	return Take(t.Context(), []Cluster{{Name: "dev", Typed: typed, Metadata: metadatafake.NewSimpleMetadataClient(scheme, objects...), Only: only, Engine: "argocd"}}, apps, Tracking{Own: []string{track}, Label: "app.kubernetes.io/instance", Namer: schema.GroupKind{Kind: "ConfigMap"}})
}

func TestCompare(t *testing.T) {
	app := func(name, sync string) lab.Application {
		return lab.Application{Name: name, Sync: sync, Health: "Healthy"}
	}
	owned := partial("owned", "o", "web:a")
	yes := true
	owned.OwnerReferences = []metav1.OwnerReference{{Controller: &yes, Kind: "Service"}}
	before := surveyOf(t, nil, []lab.Application{app("kept", "Synced"), app("late", "OutOfSync"), app("worse", "Synced"), app("gone", "Synced")},
		[]runtime.Object{partial("kept", "1", "web:kept"), partial("replaced", "2", "web:a"), partial("deleted", "3", "web:a"), partial("orphaned", "4", "web:a"), partial("moved", "5", "web:a"), partial("other", "6", ""), owned},
		[]runtime.Object{podOf("web", "kept", "p1", 1), podOf("web", "restarted", "p2", 0), podOf("web", "replaced", "p3", 0), podOf("argocd", "server", "p4", 0)})
	after := surveyOf(t, nil, []lab.Application{app("kept", "Synced"), app("late", "OutOfSync"), app("worse", "OutOfSync"), app("new", "Synced")},
		[]runtime.Object{partial("kept", "1", "web:kept"), partial("replaced", "22", "web:a"), partial("orphaned", "4", ""), partial("moved", "5", "web:b")},
		[]runtime.Object{podOf("web", "kept", "p1", 1), podOf("web", "restarted", "p2", 2), podOf("web", "replaced-2", "p5", 0)})
	want := Report{
		OutOfSync: []string{"worse: OutOfSync, Healthy"}, Gone: []string{"gone"}, New: []string{"new"},
		Replaced: []string{"dev: ConfigMap web/replaced"}, Deleted: []string{"dev: ConfigMap web/deleted"}, Orphaned: []string{"dev: ConfigMap web/orphaned"},
		Retracked: []string{"dev: ConfigMap web/moved, example.com/tracking=web:a to example.com/tracking=web:b"},
		Restarted: []string{"dev: web/replaced was replaced", "dev: web/restarted restarted 2 times"}, Objects: 5, Pods: 3,
	}
	if diff := cmp.Diff(want, Compare(before, after)); diff != "" {
		t.Error(diff)
	}
	if got := Compare(before, before); got.Changes() {
		t.Errorf("%+v", got)
	}
}

// A label of charts tracks where it names an application.
func TestShared(t *testing.T) {
	labelled := func(name, uid, own, instance string) runtime.Object {
		o := partial(name, uid, own)
		o.Labels = map[string]string{"app.kubernetes.io/instance": instance}
		return o
	}
	web, yes := partial("web", "4", ""), true
	web.OwnerReferences = []metav1.OwnerReference{{Controller: &yes, Kind: "ApplicationSet"}} // which says nothing of its name
	before := surveyOf(t, nil, nil, []runtime.Object{web, labelled("a", "1", "", "web"), labelled("b", "2", "", "a-release"), labelled("c", "3", "", "web")}, nil)
	after := surveyOf(t, nil, nil, []runtime.Object{web, labelled("a", "1", "web:a", "web"), labelled("b", "2", "", "a-release"), labelled("c", "3", "", "other")}, nil)
	r := Compare(before, after)
	want := Report{Objects: 2, Orphaned: []string{"dev: ConfigMap web/c"}, Retracked: []string{"dev: ConfigMap web/a, app.kubernetes.io/instance=web to app.kubernetes.io/instance=web example.com/tracking=web:a"}}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
}

// In a cluster that is not the lab's, only the namespaces of its applications are looked at.
func TestOnly(t *testing.T) {
	theirs := partial("theirs", "1", "web:theirs")
	theirs.Namespace = "theirs"
	s := surveyOf(t, []string{"web"}, nil, []runtime.Object{theirs, partial("ours", "2", "web:a")}, []runtime.Object{podOf("theirs", "a", "p1", 0), podOf("web", "b", "p2", 0)})
	if r := Compare(s, Survey{}); r.Objects != 1 || r.Pods != 1 || r.Deleted[0] != "dev: ConfigMap web/ours" {
		t.Errorf("%+v", r)
	}
}

// What does not answer is unknown, before or after, and nothing is said of its objects.
func TestUnknown(t *testing.T) {
	before := surveyOf(t, nil, nil, []runtime.Object{partial("web", "1", "web:a")}, []runtime.Object{podOf("web", "a", "p1", 0)})
	silent := fake.NewClientset()
	silent.Resources = []*metav1.APIResourceList{{GroupVersion: "v1"}}
	silent.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("no answer") })
	after := Take(t.Context(), []Cluster{{Name: "dev", Typed: silent}}, nil, Tracking{})
	want := Report{Unknown: []string{"dev: pods: no answer"}}
	if diff := cmp.Diff(want, Compare(before, after)); diff != "" || !want.Changes() {
		t.Error(diff)
	}
}

// Argo CD ignores what another one that shares the cluster tracks.
func TestMark(t *testing.T) {
	o := partial("settings", "1", "web:settings")
	keys := Tracking{Own: []string{track}, Mark: "example.com/id=ours"}
	if got := keys.of(o); got != "" {
		t.Errorf("without the mark: %q", got)
	}
	o.Annotations["example.com/id"] = "theirs"
	if got := keys.of(o); got != "" {
		t.Errorf("of another: %q", got)
	}
	o.Annotations["example.com/id"] = "ours"
	if got, want := keys.of(o), track+"=web:settings"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
