//go:build e2e

package argocd_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"homelab/lab/appset/appsettest"
	"homelab/lab/engine/enginetest"
)

var (
	record = flag.Bool("record", false, "record the controller's results instead of comparing them")
	every  = flag.Int("every", 1, "play every nth case")
)

// fleeting matches what differs between runs: commits and temporary folders.
var fleeting = regexp.MustCompile(`[0-9a-f]{40}|/tmp/_argocd-repo/[-0-9a-f]+`)

const corpus = "../../appset/testdata"

// patience bounds the wait for one case.
const patience = 10 * time.Second

func argo(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: resource}
}

// controller is a real ApplicationSet controller, without an Application controller.
type controller struct {
	*enginetest.World
	kube    *kubernetes.Clientset
	dynamic *dynamic.DynamicClient
}

// TestCorpusOnArgoCD runs the corpus of lab/appset on the real controller and compares the results with the recording.
func TestCorpusOnArgoCD(t *testing.T) {
	w := enginetest.NewWorld(t)
	e, chart, values := newEngine(t, w)
	if _, err := e.Install(t.Context(), chart, values, func(string) {}); err != nil {
		t.Fatal(err)
	}
	c := controller{World: w}
	cfg := rest.CopyConfig(w.Hub)
	cfg.QPS = -1 // hundreds of cases, each with a dozen objects
	var err error
	if c.kube, err = kubernetes.NewForConfig(cfg); err == nil {
		c.dynamic, err = dynamic.NewForConfig(cfg)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.quiet(t)
	version := enginetest.Env(t, "LAB_E2E_VERSION")
	cases := appsettest.Cases(t, corpus)
	var recorded []string
	for i, k := range cases {
		if i%*every != 0 {
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			want, err := k.Recorded(t, corpus, version)
			if !*record && err != nil {
				t.Skip(err)
			}
			got := c.play(t, k)
			if want != nil {
				if !*record {
					got.Message = want.Message // prints maps in random order
				}
				if k.Varies(t, version) {
					got = want.Settled(got)
				}
			}
			if *record {
				k.Record(t, corpus, version, got)
				recorded = append(recorded, k.Name)
				return
			}
			if diff := cmp.Diff(marshalled(t, *want), marshalled(t, got)); diff != "" {
				t.Errorf("-recorded, +got:\n%s", diff)
			}
		})
	}
	if *record {
		appsettest.Finish(t, corpus, version, cases, recorded)
	}
}

func marshalled(t *testing.T, w appsettest.Want) string {
	t.Helper()
	data, err := w.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// quiet stops the Application controller, which would sync the corpus, and removes existing registrations.
func (c *controller) quiet(t *testing.T) {
	t.Helper()
	sets, err := c.kube.AppsV1().StatefulSets("argocd").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sets.Items {
		if _, err := c.kube.AppsV1().StatefulSets("argocd").Patch(t.Context(), s.Name, types.MergePatchType, []byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.kube.CoreV1().Secrets("argocd").DeleteCollection(t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: "argocd.argoproj.io/secret-type in (cluster)"}); err != nil {
		t.Fatal(err)
	}
	c.clear(t)
}

// clear removes all ApplicationSets and Applications with their finalizers.
func (c *controller) clear(t *testing.T) {
	t.Helper()
	for _, resource := range []string{"applicationsets", "applications"} {
		at := c.dynamic.Resource(argo(resource)).Namespace("argocd")
		err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
			list, err := at.List(ctx, metav1.ListOptions{})
			if err != nil || len(list.Items) == 0 {
				return err == nil, err
			}
			for _, o := range list.Items {
				if len(o.GetFinalizers()) > 0 {
					_, err = at.Patch(ctx, o.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
				}
				if err == nil && o.GetDeletionTimestamp() == nil {
					err = at.Delete(ctx, o.GetName(), metav1.DeleteOptions{})
				}
				if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
					return false, err
				}
			}
			return false, nil
		})
		if err != nil {
			t.Fatalf("%s left over: %v", resource, err)
		}
	}
}

// play applies a case and returns the result.
func (c *controller) play(t *testing.T, k appsettest.Case) appsettest.Want {
	t.Helper()
	host := c.serve(t, k)
	c.register(t, k, host)
	defer c.clear(t)
	var object map[string]any
	if err := yaml.Unmarshal(bytes.ReplaceAll(k.Set, []byte(appsettest.Host), []byte(host)), &object); err != nil {
		t.Fatal(err)
	}
	sets := c.dynamic.Resource(argo("applicationsets")).Namespace("argocd")
	if _, err := sets.Create(t.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{}); err != nil {
		if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
			return appsettest.Want{Refused: err.Error()}
		}
		t.Fatal(err)
	}
	var got appsettest.Want
	decided := func(ctx context.Context) (done bool, err error) {
		set, err := sets.Get(ctx, k.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		conditions, _, err := unstructured.NestedSlice(set.Object, "status", "conditions")
		got = appsettest.Want{Reason: appsettest.Undecided, Message: fmt.Sprint("conditions: ", conditions)}
		for _, condition := range conditions {
			condition := condition.(map[string]any)
			switch {
			case condition["status"] != "True":
			case condition["type"] == "ErrorOccurred":
				got.Reason, got.Message = fmt.Sprint(condition["reason"]), fmt.Sprint(condition["message"])
				return true, err
			case condition["type"] == "ResourcesUpToDate":
				got, done = appsettest.Want{}, true
			}
		}
		return done, err
	}
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, patience, true, decided)
	if err != nil && (!errors.Is(err, context.DeadlineExceeded) || t.Context().Err() != nil) {
		t.Fatal(err)
	}
	applications := c.settled(t)
	if err == nil { // by now the controller has seen all registrations
		if _, err := decided(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	got.Message = fleeting.ReplaceAllString(strings.ReplaceAll(got.Message, host, appsettest.Host), "...")
	for _, app := range applications {
		got.Applications = append(got.Applications, unhosted(t, app, host))
	}
	return got
}

// settled returns the Applications once they stop changing: the controller's caches may lag behind the registrations.
func (c *controller) settled(t *testing.T) []map[string]any {
	t.Helper()
	var last []map[string]any
	same := 0
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		list, err := c.dynamic.Resource(argo("applications")).Namespace("argocd").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		var now []map[string]any
		for _, app := range list.Items {
			stored, err := appsettest.Stored(app.Object)
			if err != nil {
				return false, err
			}
			now = append(now, stored)
		}
		if same++; !reflect.DeepEqual(now, last) {
			last, same = now, 0
		}
		return same == 5, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return last
}

// unhosted restores the corpus's repository address.
func unhosted(t *testing.T, object map[string]any, host string) map[string]any {
	t.Helper()
	data, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := yaml.Unmarshal(bytes.ReplaceAll(data, []byte(host), []byte(appsettest.Host)), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// serve creates the case's repositories and returns their address.
func (c *controller) serve(t *testing.T, k appsettest.Case) string {
	t.Helper()
	for url, dir := range k.Repositories {
		c.Publish(t, filepath.Join(k.Name, strings.TrimPrefix(url, appsettest.Host)), dir)
	}
	return c.URL + "/git/" + k.Name + "/"
}

// register replaces registrations and projects by those of the case.
func (c *controller) register(t *testing.T, k appsettest.Case, host string) {
	t.Helper()
	secrets := c.kube.CoreV1().Secrets("argocd")
	if err := secrets.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "argocd.argoproj.io/secret-type in (cluster)"}); err != nil {
		t.Fatal(err)
	}
	for _, cluster := range k.Clusters {
		annotations := map[string]string{}
		for key, value := range cluster.Annotations {
			annotations[key] = strings.ReplaceAll(value, appsettest.Host, host)
		}
		s := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: cluster.Secret, Labels: cluster.Labels, Annotations: annotations},
			StringData: map[string]string{"name": cluster.Name, "server": cluster.Server, "config": `{"bearerToken":"none"}`},
		}
		if cluster.Project != "" {
			s.StringData["project"] = cluster.Project
		}
		if _, err := secrets.Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	projects := c.dynamic.Resource(argo("appprojects")).Namespace("argocd")
	for _, name := range k.Projects {
		p := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"sourceRepos": []any{"*"}, "destinations": []any{map[string]any{"server": "*", "namespace": "*"}}},
		}}
		if _, err := projects.Create(t.Context(), p, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := projects.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		})
	}
}
