//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"homelab/lab/flux"
	"homelab/lab/ui"
)

// figures are durations in seconds by name, in order of appearance.
type figures struct {
	names []string
	of    map[string][]float64
}

func (f *figures) add(name string, seconds float64) {
	if _, ok := f.of[name]; !ok {
		f.names = append(f.names, name)
	}
	f.of[name] = append(f.of[name], seconds)
}

// TestFigures measures both engines, LAB_E2E_FIGURES rounds each: lab up by stage, a commit until it is ready in the spoke, drift until it is healed, and the hub's
// memory. It has no limits; task bench-engines runs it.
func TestFigures(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv("LAB_E2E_FIGURES"))
	if err != nil {
		t.Skip("LAB_E2E_FIGURES is not set")
	}
	engines := []string{"argocd", "flux"}
	all := map[string]*figures{}
	for _, engine := range engines {
		all[engine] = &figures{of: map[string][]float64{}}
	}
	l := newLab(t, "e2e-figures")
	for _, engine := range engines {
		f := all[engine]
		for i := range rounds {
			up := decode[ui.UpResult](l, "up", "--fix", "--engine", engine)
			f.add("up", up.Seconds)
			for _, s := range up.Steps {
				if s.Cluster == "" || s.Cluster == "hub" {
					f.add("up: "+strings.TrimSpace(s.Name+" "+s.Cluster), s.Seconds)
				}
			}
			if i < rounds-1 {
				l.must("down")
			}
		}
		l.converged(4, 10)
		l.memory(f, engine)
		l.commits(f, rounds)
		l.drifts(f, rounds)
		l.must("down")
	}
	var b strings.Builder
	for _, name := range all[engines[0]].names {
		fmt.Fprintf(&b, "%-28s", name)
		for _, engine := range engines {
			list := slices.Sorted(slices.Values(all[engine].of[name]))
			if len(list) == 0 {
				fmt.Fprintf(&b, "  %-6s          -               ", engine)
				continue
			}
			fmt.Fprintf(&b, "  %-6s median %7.1f worst %7.1f", engine, list[len(list)/2], list[len(list)-1])
		}
		b.WriteByte('\n')
	}
	t.Logf("%d rounds, seconds and MiB:\n%s", rounds, b.String())
}

// memory records the memory of the hub's node and the engine's pods, in MiB.
func (l *testLab) memory(f *figures, engine string) {
	namespace := map[string]string{"argocd": "argocd", "flux": flux.Namespace}[engine]
	pods := schema.GroupVersionResource{Group: "metrics.k8s.io", Version: "v1beta1", Resource: "pods"}
	var list *unstructured.UnstructuredList
	eventually(l.t, 3*time.Minute, func() error { // metrics of new pods are delayed
		running, err := l.kube("hub").CoreV1().Pods(namespace).List(l.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		if list, err = l.dynamic("hub").Resource(pods).Namespace(namespace).List(l.t.Context(), metav1.ListOptions{}); err == nil && len(list.Items) < len(running.Items) {
			err = fmt.Errorf("metrics of %d of %d pods", len(list.Items), len(running.Items))
		}
		return err
	})
	var sum int64
	for _, pod := range list.Items {
		containers, _, _ := unstructured.NestedSlice(pod.Object, "containers")
		for _, c := range containers {
			text, _, _ := unstructured.NestedString(c.(map[string]any), "usage", "memory")
			q := resource.MustParse(text)
			sum += q.Value()
		}
	}
	f.add("memory of the engine's pods", float64(sum)/(1<<20))
	used, _, _ := strings.Cut(docker(l.t, "stats", "--no-stream", "--format", "{{.MemUsage}}", l.node("hub")), " ")
	q, err := resource.ParseQuantity(strings.TrimSuffix(used, "B"))
	if err != nil {
		l.t.Fatal(err)
	}
	f.add("memory of the hub's node", float64(q.Value())/(1<<20))
}

// commits pushes to the forge like a colleague, and measures until prod's podinfo has rolled out.
func (l *testLab) commits(f *figures, rounds int) {
	dir := filepath.Join(l.t.TempDir(), "clone")
	git := func(args ...string) {
		l.t.Helper()
		cmd := exec.CommandContext(l.t.Context(), "git", args...)
		if _, err := os.Stat(dir); err == nil {
			cmd.Dir = dir
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			l.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	git("clone", "--quiet", strings.TrimSpace(l.must("git", "url", "--credentials").stdout), dir)
	file := filepath.Join(dir, "environments", "prod", "addons", "podinfo", "values.yaml")
	data, err := os.ReadFile(file)
	if err != nil {
		l.t.Fatal(err)
	}
	for i := range rounds {
		color := fmt.Sprintf("#%06x", 0x100000+i)
		if err := os.WriteFile(file, []byte(strings.Replace(string(data), "#b3261e", color, 1)), 0o600); err != nil {
			l.t.Fatal(err)
		}
		git("-c", "user.name=colleague", "-c", "user.email=colleague@example.com", "commit", "--quiet", "--all", "--message", "colour "+color)
		began := time.Now()
		git("push", "--quiet")
		l.podinfo(func(d *appsv1.Deployment) error {
			for _, e := range d.Spec.Template.Spec.Containers[0].Env {
				if e.Value == color && d.Status.ObservedGeneration == d.Generation && d.Status.UpdatedReplicas == *d.Spec.Replicas && d.Status.AvailableReplicas == *d.Spec.Replicas && d.Status.Replicas == *d.Spec.Replicas {
					return nil
				}
			}
			return fmt.Errorf("not at %s yet: %+v", color, d.Status)
		})
		f.add("commit to ready", time.Since(began).Seconds())
	}
}

// drifts scales prod's podinfo manually, and measures until the engine has scaled it back.
func (l *testLab) drifts(f *figures, rounds int) {
	deployments := l.kube("prod").AppsV1().Deployments("podinfo")
	for range rounds {
		began := time.Now()
		if _, err := deployments.Patch(l.t.Context(), "podinfo", types.MergePatchType, []byte(`{"spec":{"replicas":5}}`), metav1.PatchOptions{}); err != nil {
			l.t.Fatal(err)
		}
		l.podinfo(func(d *appsv1.Deployment) error {
			if *d.Spec.Replicas != 5 && d.Status.Replicas == *d.Spec.Replicas && d.Status.AvailableReplicas == *d.Spec.Replicas {
				return nil
			}
			return fmt.Errorf("%d replicas", *d.Spec.Replicas)
		})
		f.add("drift to healed", time.Since(began).Seconds())
	}
}

// podinfo waits until prod's podinfo is as wanted.
func (l *testLab) podinfo(wanted func(*appsv1.Deployment) error) {
	l.t.Helper()
	deployments := l.kube("prod").AppsV1().Deployments("podinfo")
	polled(l.t, 100*time.Millisecond, 10*time.Minute, func() error {
		d, err := deployments.Get(l.t.Context(), "podinfo", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return wanted(d)
	})
}
