//go:build e2e

package flux_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"

	"homelab/lab/engine"
	"homelab/lab/engine/enginetest"
	"homelab/lab/engine/flux"
	"homelab/lab/engine/helm"
	"homelab/lab/engine/kube"
	"homelab/lab/fluxset/fluxsettest"
)

var record = flag.Bool("record", false, "record what the controllers do instead of comparing it")

const corpus = "../../fluxset/testdata"

// Limits of one case: until everything is ready or known to fail, and how long a failure must stay the same.
const (
	patience = 2 * time.Minute
	settled  = 8 * time.Second
)

// fleeting matches what differs between runs.
var fleeting = regexp.MustCompile(`[0-9a-f]{40}|/tmp/kustomization-[0-9]+|/tmp/[-a-z]+[0-9]{5,}|[0-9]+(\.[0-9]+)?m?s\b`)

var (
	kustomizations = schema.GroupVersionResource{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Resource: "kustomizations"}
	releases       = schema.GroupVersionResource{Group: "helm.toolkit.fluxcd.io", Version: "v2", Resource: "helmreleases"}
	namespaces     = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	definitions    = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	secrets        = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
)

// recorder is a real Flux on a cluster whose API server writes what kustomize-controller applies to a log.
type recorder struct {
	*enginetest.World
	kube.Clients
	mapper *restmapper.DeferredDiscoveryRESTMapper
	audit  string
}

// TestCorpusOnFlux runs the corpus of lab/fluxset on the real controllers, and compares the results with the recording or, with -record, writes it.
func TestCorpusOnFlux(t *testing.T) {
	r := newRecorder(t)
	for _, c := range fluxsettest.Cases(t, corpus) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			want := c.Want(t)
			if want == nil && !*record {
				t.Fatal("not recorded")
			}
			got := r.play(t, c)
			if *record {
				c.Record(t, got)
				return
			}
			settleMessages(want.Kustomizations, got.Kustomizations)
			settleMessages(want.Releases, got.Releases)
			if diff := gocmp.Diff(string(want.Marshal(t)), string(got.Marshal(t))); diff != "" {
				t.Errorf("-recorded, +got:\n%s", diff)
			}
		})
	}
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	w := enginetest.NewWorld(t)
	r := &recorder{World: w, audit: enginetest.Env(t, "LAB_E2E_AUDIT")}
	e, values := installer(t, flux.Definition(""), engine.Hub{Lab: "engdev", Cluster: "hub", Config: w.Hub})
	for _, controller := range []string{"kustomizeController", "helmController"} { // Flux's own behaviour, only faster
		args := map[string]any{"additionalArgs": []any{"--requeue-dependency=2s", "--concurrent=20"}}
		values = helm.Merge(values, map[string]any{controller: map[string]any{"container": args}})
	}
	if _, err := e.Install(t.Context(), w.Chart(t, "flux2", "2.9.5"), values, func(string) {}); err != nil {
		t.Fatal(err)
	}
	var err error
	if r.Clients, err = kube.Connect(w.Hub); err != nil {
		t.Fatal(err)
	}
	r.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(r.Typed.Discovery()))
	return r
}

// settleMessages makes messages equal if both have one: which object fails first differs between runs.
func settleMessages(want, got map[string]fluxsettest.Result) {
	for of, r := range got {
		if is := want[of]; is.Message != "" && r.Message != "" {
			r.Message = is.Message
			got[of] = r
		}
	}
}

// play applies a case and returns what became of it.
func (r *recorder) play(t *testing.T, c fluxsettest.Case) fluxsettest.Want {
	t.Helper()
	r.clear(t, c)
	defer r.clear(t, c)
	log, err := os.Stat(r.audit)
	if err != nil {
		t.Fatal(err)
	}
	host := r.URL + "/git/" + filepath.Base(t.TempDir()) + "/"
	r.Publish(t, strings.TrimPrefix(host+c.Name, r.URL+"/git/"), c.Files())
	own := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": c.Name}}}
	objects, err := kube.Decode(bytes.ReplaceAll(c.Root(t), []byte(fluxsettest.Host), []byte(host)))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range append([]*unstructured.Unstructured{own}, objects...) {
		switch err := r.create(t.Context(), o); {
		case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
			return fluxsettest.Want{Refused: err.Error()}
		case err != nil:
			t.Fatal(err)
		}
	}
	var got fluxsettest.Want
	var last []byte
	since := time.Now()
	err = wait.PollUntilContextTimeout(t.Context(), 500*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		var open int
		if got, open, err = r.look(ctx, c, log.Size()); err != nil {
			return false, err
		}
		fetching, err := r.fetching(ctx, c)
		if err != nil {
			return false, err
		}
		if now := append(got.Marshal(t), byte(open)); !bytes.Equal(now, last) {
			last, since = now, time.Now()
		}
		least := settled
		if open == 0 {
			least = 2 * time.Second
		}
		return !fetching && !busy(got) && time.Since(since) > least, nil
	})
	if err != nil {
		t.Logf("after %v: %v, recorded as it is", patience, err)
	}
	return unhosted(t, got, host)
}

// busy reports whether a Kustomization or a HelmRelease is being reconciled.
func busy(w fluxsettest.Want) bool {
	for _, of := range []map[string]fluxsettest.Result{w.Kustomizations, w.Releases} {
		for _, r := range of {
			if slices.Contains([]string{"Unknown", "Progressing", "HealthCheckCanceled"}, r.Reason) {
				return true
			}
		}
	}
	return false
}

// fetching reports whether source-controller has not read a source of a case yet, or not failed to.
func (r *recorder) fetching(ctx context.Context, c fluxsettest.Case) (bool, error) {
	for _, resource := range []string{"gitrepositories", "helmrepositories", "helmcharts"} {
		list, err := r.Dynamic.Resource(schema.GroupVersionResource{Group: "source.toolkit.fluxcd.io", Version: "v1", Resource: resource}).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, o := range list.Items {
			kind, _, _ := unstructured.NestedString(o.Object, "spec", "type")
			if c.Owns(o.GetNamespace()) && kind != "oci" && readiness(o).Reason == "Unknown" {
				return true, nil
			}
		}
	}
	return false, nil
}

func unhosted(t *testing.T, w fluxsettest.Want, host string) fluxsettest.Want {
	t.Helper()
	var out fluxsettest.Want
	if err := json.Unmarshal(bytes.ReplaceAll(encoded(t, w), []byte(host), []byte(fluxsettest.Host)), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (r *recorder) create(ctx context.Context, o *unstructured.Unstructured) error {
	gvk := o.GroupVersionKind()
	m, err := r.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return err
	}
	_, err = r.Dynamic.Resource(m.Resource).Namespace(o.GetNamespace()).Create(ctx, o, metav1.CreateOptions{FieldValidation: "Strict"})
	return err
}

// look returns what has become of a case, and how many of its Kustomizations and HelmReleases are not ready.
func (r *recorder) look(ctx context.Context, c fluxsettest.Case, since int64) (fluxsettest.Want, int, error) {
	w := fluxsettest.Want{Kustomizations: map[string]fluxsettest.Result{}, Releases: map[string]fluxsettest.Result{}}
	applied, err := r.applied(c, since)
	if err != nil {
		return w, 0, err
	}
	open := 0
	for resource, into := range map[schema.GroupVersionResource]map[string]fluxsettest.Result{kustomizations: w.Kustomizations, releases: w.Releases} {
		list, err := r.Dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return w, 0, err
		}
		for _, o := range list.Items {
			if !c.Owns(o.GetNamespace()) {
				continue
			}
			key := o.GetNamespace() + "/" + o.GetName()
			result := readiness(o)
			if result.Reason != "" {
				open++
			}
			if resource == kustomizations {
				result.Objects = applied[key]
			} else if err := r.release(ctx, o, &result); err != nil {
				return w, 0, err
			}
			into[key] = result
		}
	}
	return w, open, nil
}

// clear removes everything of a case: what its Kustomizations applied, its releases and its namespaces.
func (r *recorder) clear(t *testing.T, c fluxsettest.Case) {
	t.Helper()
	for _, resource := range []schema.GroupVersionResource{kustomizations, releases, namespaces} {
		err := wait.PollUntilContextTimeout(context.WithoutCancel(t.Context()), 500*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
			list, err := r.Dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, err
			}
			left := 0
			for _, o := range list.Items {
				if !c.Owns(o.GetNamespace()) && !(resource == namespaces && c.Owns(o.GetName())) {
					continue
				}
				left++
				if o.GetDeletionTimestamp() == nil {
					err = r.Dynamic.Resource(resource).Namespace(o.GetNamespace()).Delete(ctx, o.GetName(), metav1.DeleteOptions{})
				}
				if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
					return false, err
				}
			}
			return left == 0, nil
		})
		if err != nil {
			t.Errorf("%s left over: %v", resource.Resource, err)
		}
	}
}
