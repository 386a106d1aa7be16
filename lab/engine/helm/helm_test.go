package helm

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/kube"
	kubefake "helm.sh/helm/v3/pkg/kube/fake"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"homelab/lab"
)

// fakeKube is Helm's cluster. It records calls, and can fail or run a function during one.
type fakeKube struct {
	kubefake.PrintingKubeClient
	calls  []string
	fail   error
	during func()
}

func (k *fakeKube) act(call string) error {
	k.calls = append(k.calls, call)
	if k.during != nil {
		k.during()
	}
	return k.fail
}

func (k *fakeKube) Create(r kube.ResourceList) (*kube.Result, error) {
	return &kube.Result{Created: r}, k.act("create")
}

func (k *fakeKube) Update(_, target kube.ResourceList, _ bool) (*kube.Result, error) {
	return &kube.Result{Updated: target}, k.act("update")
}

func (k *fakeKube) Delete(r kube.ResourceList) (*kube.Result, []error) {
	k.calls = append(k.calls, "delete")
	return &kube.Result{Deleted: r}, nil
}

type fixture struct {
	*Client
	kube *fakeKube
	gone string // a deleted object of the release, such as "web"
	crds *dynamicfake.FakeDynamicClient
	want Release
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	k := &fakeKube{PrintingKubeClient: kubefake.PrintingKubeClient{Out: io.Discard, LogOutput: io.Discard}}
	gvr := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	crds := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{gvr: "CustomResourceDefinitionList"})
	crds.PrependReactor("patch", "customresourcedefinitions", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, nil })
	mem := driver.NewMemory()
	mem.SetNamespace("argocd")
	c := &Client{crds: crds, newest: newestIn(mem), cfg: &action.Configuration{
		Releases: storage.Init(mem), KubeClient: k, Capabilities: chartutil.DefaultCapabilities, Log: func(string, ...any) {},
		HookOutputFunc: func(_, _, _ string) io.Writer { return io.Discard },
	}}
	f := &fixture{Client: c, kube: k, crds: crds, want: Release{
		Name: "argocd", Namespace: "argocd", Values: map[string]any{"replicas": 1},
		Chart: lab.Chart{Name: "small", Version: "1.0.0", Digest: "sha256:one", Archive: pack(t)},
	}}
	c.list = func(_ context.Context, kind schema.GroupVersionKind) (map[types.NamespacedName]bool, error) {
		rel, err := c.cfg.Releases.Last("argocd")
		if err != nil {
			return nil, err
		}
		have := map[types.NamespacedName]bool{}
		for _, o := range objects(rel.Manifest) {
			if o.kind == kind && o.name.Name != f.gone {
				have[types.NamespacedName{Namespace: "argocd", Name: o.name.Name}] = true
			}
		}
		if kind.Kind == "CustomResourceDefinition" && f.gone != "crds" {
			for _, crd := range rel.Chart.CRDObjects() {
				for _, o := range objects(string(crd.File.Data)) {
					have[o.name] = true
				}
			}
		}
		return have, nil
	}
	return f
}

func newestIn(mem *driver.Memory) func(context.Context, string) (int, error) {
	return func(_ context.Context, name string) (int, error) {
		all, err := mem.Query(map[string]string{"name": name, "owner": "helm"})
		if errors.Is(err, driver.ErrReleaseNotFound) {
			return 0, nil
		}
		last := 0
		for _, r := range all {
			last = max(last, r.Version)
		}
		return last, err
	}
}

// pack packs testdata/small into a .tgz.
func pack(t *testing.T) string {
	t.Helper()
	c, err := loader.LoadDir("testdata/small")
	if err != nil {
		t.Fatal(err)
	}
	file, err := chartutil.Save(c, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func (f *fixture) ensure(t *testing.T) Result {
	t.Helper()
	res, err := f.Ensure(t.Context(), f.want, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestEnsureInstall(t *testing.T) {
	f := newFixture(t)
	f.want.Labels = map[string]string{lab.LabelName: "homelab"}
	if s, err := f.Observe(t.Context(), "argocd"); err != nil || s.Revision != 0 || s.Deployed() {
		t.Fatalf("before anything: %+v, %v", s, err)
	}
	res := f.ensure(t)
	if !res.Changed || res.Revision != 1 || !res.Deployed() || res.App != "v9.9" || res.Chart != "1.0.0" {
		t.Fatalf("install: %+v", res)
	}
	if got := slices.Sorted(slices.Values(res.Workloads)); !slices.Equal(got, []string{"Deployment/web", "StatefulSet/store"}) {
		t.Errorf("workloads %v", got)
	}
	last, _ := f.cfg.Releases.Last("argocd")
	if last.Labels[lab.LabelName] != "homelab" || last.Labels[lab.LabelInputs] == "" {
		t.Errorf("labels %v", last.Labels)
	}

	// Without a change nothing is loaded or rendered: the archive may be gone.
	if err := os.Remove(f.want.Chart.Archive); err != nil {
		t.Fatal(err)
	}
	calls := len(f.kube.calls)
	again := f.ensure(t)
	if again.Changed || again.Revision != 1 || again.Reason != "" {
		t.Errorf("second call: %+v", again)
	}
	if len(f.kube.calls) != calls {
		t.Errorf("calls without a change: %v", f.kube.calls[calls:])
	}
}

func TestEnsureUpgrade(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Release)
		gone   string
		reason string
	}{
		"values":  {func(r *Release) { r.Values = map[string]any{"replicas": 2} }, "", "chart or values changed"},
		"digest":  {func(r *Release) { r.Chart.Digest = "sha256:two" }, "", "chart or values changed"},
		"version": {func(r *Release) { r.Chart.Version = "1.1.0" }, "", "chart 1.0.0 -> 1.1.0"},
		"gone":    {func(*Release) {}, "web", "deployment web is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.ensure(t)
			tc.change(&f.want)
			f.gone = tc.gone
			if s, err := f.Observe(t.Context(), "argocd"); err != nil || len(s.Missing) > 0 != (tc.gone != "") {
				t.Errorf("observed %+v, %v", s, err)
			}
			var progress []string
			res, err := f.Ensure(t.Context(), f.want, func(s string) { progress = append(progress, s) })
			if err != nil {
				t.Fatal(err)
			}
			if !res.Changed || res.Revision != 2 || res.Reason != tc.reason || !res.Deployed() {
				t.Errorf("%+v", res)
			}
			if !slices.ContainsFunc(progress, func(s string) bool { return strings.Contains(s, tc.reason) }) {
				t.Errorf("progress without the reason: %v", progress)
			}
			f.gone = ""
			if again, err := f.Ensure(t.Context(), f.want, func(string) {}); err != nil || again.Changed {
				t.Errorf("changed twice: %+v, %v", again, err)
			}
		})
	}
}

// A killed run leaves any of these. The release is resumed, and nothing is deleted.
func TestEnsureRecovers(t *testing.T) {
	for _, status := range []release.Status{
		release.StatusPendingInstall, release.StatusPendingUpgrade, release.StatusPendingRollback,
		release.StatusFailed, release.StatusUninstalling, release.StatusUninstalled, release.StatusUnknown,
	} {
		for _, first := range []bool{true, false} {
			name := string(status) + " after a good revision"
			if first {
				name = string(status) + " as the first revision"
			}
			t.Run(name, func(t *testing.T) {
				f := newFixture(t)
				f.ensure(t)
				if !first {
					f.want.Values = map[string]any{"replicas": 2}
					f.ensure(t)
				}
				last, err := f.cfg.Releases.Last("argocd")
				if err != nil {
					t.Fatal(err)
				}
				broken := *last
				info := *last.Info
				broken.Info = &info
				broken.SetStatus(status, "killed")
				if err := f.cfg.Releases.Update(&broken); err != nil {
					t.Fatal(err)
				}
				f.kube.calls = nil
				res := f.ensure(t)
				if !res.Changed || !res.Deployed() || res.Revision != last.Version+1 {
					t.Errorf("%+v", res)
				}
				if want := "the last revision is " + string(status); res.Reason != want {
					t.Errorf("reason %q, want %q", res.Reason, want)
				}
				if slices.Contains(f.kube.calls, "delete") {
					t.Errorf("objects deleted: %v", f.kube.calls)
				}
				if f.ensure(t).Changed {
					t.Error("still pending")
				}
			})
		}
	}
}

func TestEnsureAfterFailure(t *testing.T) {
	f := newFixture(t)
	f.kube.fail = errors.New("the API server went away")
	if _, err := f.Ensure(t.Context(), f.want, func(string) {}); err == nil || !strings.Contains(err.Error(), "went away") {
		t.Fatalf("a failed install: %v", err)
	}
	if s, _ := f.Observe(t.Context(), "argocd"); s.Deployed() || s.Revision != 1 {
		t.Fatalf("after the failure: %+v", s)
	}
	f.kube.fail = nil
	if res := f.ensure(t); !res.Deployed() || res.Revision != 2 {
		t.Errorf("%+v", res)
	}
}

// Helm continues in the background when its context ends, and would write after lab reported that it stopped.
func TestEnsureCancelled(t *testing.T) { synctest.Test(t, ensureCancelled) }

func ensureCancelled(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.kube.during = func() { cancel(); synctest.Wait() } // a call that ended early would have returned
	res, err := f.Ensure(ctx, f.want, func(string) {})
	if err != nil || !res.Deployed() {
		t.Errorf("%+v, %v", res, err)
	}
	f.kube.during = nil
	f.want.Values = map[string]any{"replicas": 3}
	if _, err := f.Ensure(ctx, f.want, func(string) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("call after the end: %v", err)
	}
	if s, _ := f.Observe(t.Context(), "argocd"); s.Revision != 1 {
		t.Errorf("revision %d", s.Revision)
	}
}

func TestEnsureCRDs(t *testing.T) {
	f := newFixture(t)
	f.ensure(t)
	f.ensure(t)
	if n := len(f.crds.Actions()); n != 2 {
		t.Errorf("%d definitions applied for one install of two", n)
	}
	f.want.Values = map[string]any{"replicas": 2}
	f.ensure(t)
	if n := len(f.crds.Actions()); n != 4 {
		t.Errorf("%d definitions applied after an upgrade, Helm itself never upgrades them", n)
	}
}

func TestEnsureHistory(t *testing.T) {
	f := newFixture(t)
	for i := range 6 {
		f.want.Values = map[string]any{"replicas": i}
		f.ensure(t)
	}
	all, err := f.cfg.Releases.History("argocd")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != history {
		t.Errorf("%d revisions kept", len(all))
	}
	if s, _ := f.Observe(t.Context(), "argocd"); s.Revision != 6 {
		t.Errorf("last is %d", s.Revision)
	}
}

// The caller reuses its values.
func TestEnsureKeepsValues(t *testing.T) {
	f := newFixture(t)
	f.want.Values = map[string]any{"replicas": 1, "global": map[string]any{"a": map[string]any{"b": 1}}}
	before, _ := Inputs(f.want.Chart, f.want.Values)
	f.ensure(t)
	if after, _ := Inputs(f.want.Chart, f.want.Values); after != before {
		t.Errorf("values became %v", f.want.Values)
	}
	copied := clone(f.want.Values)
	copied["global"].(map[string]any)["a"].(map[string]any)["b"] = 2
	if f.want.Values["global"].(map[string]any)["a"].(map[string]any)["b"] != 1 {
		t.Error("a copy shares maps with its original")
	}
}

func TestInputs(t *testing.T) {
	chart := lab.Chart{Name: "a", Version: "1", Digest: "sha256:x", Archive: "/somewhere"}
	values := map[string]any{"b": 1, "a": map[string]any{"y": true, "x": "1"}}
	base, err := Inputs(chart, values)
	if err != nil || len(base) > 63 {
		t.Fatalf("%q, %v", base, err)
	}
	moved := chart
	moved.Archive = "/elsewhere"
	if got, _ := Inputs(moved, maps.Clone(values)); got != base {
		t.Error("digest depends on the archive's path")
	}
	if got, _ := Inputs(chart, map[string]any{"b": 1, "a": map[string]any{"y": true, "x": "2"}}); got == base {
		t.Error("digest ignores nested values")
	}
	empty, _ := Inputs(chart, map[string]any{})
	if none, _ := Inputs(chart, nil); none != empty {
		t.Error("no values and empty values differ")
	}
	if _, err := Inputs(chart, map[string]any{"f": func() {}}); err == nil {
		t.Error("unencodable value was accepted")
	}
}

func TestEnsureUnreadableChart(t *testing.T) {
	f := newFixture(t)
	f.want.Chart.Archive = filepath.Join(t.TempDir(), "none.tgz")
	if _, err := f.Ensure(t.Context(), f.want, func(string) {}); err == nil || !strings.Contains(err.Error(), "chart small 1.0.0") {
		t.Errorf("%v", err)
	}
}

func TestEnsureHooks(t *testing.T) {
	for _, without := range []bool{false, true} {
		f := newFixture(t)
		f.want.NoHooks = without
		f.ensure(t)
		f.want.Values = map[string]any{"replicas": 2}
		f.ensure(t)
		hooks := 0
		for _, call := range f.kube.calls {
			if call == "create" {
				hooks++
			}
		}
		if want := map[bool]int{false: 2, true: 0}[without]; hooks != want {
			t.Errorf("without hooks %t: %q, want %d hooks", without, f.kube.calls, want)
		}
	}
}
