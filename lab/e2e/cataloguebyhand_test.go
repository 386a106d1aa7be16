//go:build e2e && catalogue

package e2e

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab"
	"homelab/lab/supply/source"
	"homelab/lab/ui"
)

var (
	catalogueEngine = flag.String("catalogue.engine", string(lab.EngineArgoCD), "engine of the catalogue's lab")
	catalogueAddons = flag.String("catalogue.addons", "", "addons of the catalogue, separated by commas; all if empty")
	catalogueAtOnce = flag.Bool("catalogue.at-once", false, "leave the addons on, and print the memory of all of them together")
)

// TestWholeCatalogue enables the addons of the catalogue one after another, checks that each does its job, disables it, and prints what each took: the table of docs/catalogue.md
// and the lines of lab/supply/figures.yaml. It is run by hand, as it builds all of them: go test -tags e2e,catalogue -run TestWholeCatalogue ./lab/e2e -catalogue.engine flux.
func TestWholeCatalogue(t *testing.T) {
	l := newLab(t, "e2e-catalogue", "hub", "dev")
	if *catalogueEngine != string(lab.EngineArgoCD) {
		l.runs(*catalogueEngine)
	}
	l.must("up", "--fix")
	before := l.inventory(t)
	var table, figures strings.Builder
	fmt.Fprintln(&table, "| program | version | engine | image MB | memory MB | seconds | smoke check |\n|---|---|---|---|---|---|---|")
	var all int64
	var on []entry
	for _, e := range catalogue {
		if *catalogueAddons != "" && !slices.Contains(strings.Split(*catalogueAddons, ","), e.name) {
			continue
		}
		if !t.Run(e.name, func(t *testing.T) {
			was := l.t
			l.t = t
			defer func() { l.t = was }()
			brought := l.brings(e.name)
			var took time.Duration
			var did string
			if !t.Run("enabled", func(t *testing.T) { // which deletes at its end what it applied
				l.t = t
				took, did = l.enabled(t, e)
			}) {
				return
			}
			l.t = t
			var size, memory int64
			version := "-"
			for i, image := range l.images(e.name) {
				used := l.uses(t, image.ref)
				size, memory = size+image.size, memory+used
				line := fmt.Sprintf("  %s: {size: %d, memory: %d", image.name, megabytes(image.size), megabytes(used))
				if i == 0 {
					version = image.version
					line += fmt.Sprintf(", seconds: %.0f", took.Seconds())
				}
				fmt.Fprintln(&figures, line+"}")
			}
			all += memory
			fmt.Fprintf(&table, "| %s | %s | %s | %d | %d | %.0f%s | %s |\n", e.name, version, l.engine(), megabytes(size), megabytes(memory), took.Seconds(), brought, did)
			if !*catalogueAtOnce {
				l.disabled(t, before, e)
				before = l.inventory(t) // with what stays by design
			}
		}) {
			t.Errorf("%s failed", e.name)
		}
		on = append(on, e)
	}
	t.Logf("%d addons use %d MB:\n%s\n%s", len(on), megabytes(all), table.String(), figures.String())
	if *catalogueAtOnce {
		l.disabled(t, before, on...)
	}
	l.must("down", "--lose-commits")
}

func megabytes(bytes int64) int64 { return (bytes + 500_000) / 1_000_000 }

type addonImage struct {
	name, ref, version string
	size               int64
}

// brings says if the next `lab up` builds images of an addon first.
func (l *testLab) brings(addon string) string {
	for _, a := range decode[ui.AddonResult](l, "addon", "ls").Addons {
		if a.Name == addon && len(a.Missing) > 0 {
			return " (built)"
		}
	}
	return ""
}

// images returns the images of an addon that are at hand, its own first.
func (l *testLab) images(addon string) []addonImage {
	l.t.Helper()
	recipes, err := source.Builtin()
	if err != nil {
		l.t.Fatal(err)
	}
	var list []addonImage
	for _, a := range decode[ui.AddonResult](l, "addon", "ls").Addons {
		if a.Name != addon {
			continue
		}
		for _, i := range decode[ui.BundleResult](l, "bundle", "ls").Items {
			if slices.Contains(a.Images, i.Ref) {
				c, _ := recipes.Get(i.Name)
				list = append(list, addonImage{i.Name, i.Ref, c.Version, i.Bytes})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b addonImage) int {
		return strings.Compare(fmt.Sprint(a.name != addon), fmt.Sprint(b.name != addon))
	})
	return list
}

// uses returns the memory of the containers of dev that run an image.
func (l *testLab) uses(t *testing.T, image string) int64 {
	t.Helper()
	metrics := schema.GroupVersionResource{Group: "metrics.k8s.io", Version: "v1beta1", Resource: "pods"}
	var sum int64
	eventually(t, 2*time.Minute, func() error { // metrics of new pods are delayed
		sum = 0
		pods, err := l.kube("dev").CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, pod := range pods.Items {
			if pod.Status.Phase != "Running" || pod.Namespace == "smoke" {
				continue
			}
			for _, c := range pod.Spec.Containers {
				if c.Image != image {
					continue
				}
				m, err := l.dynamic("dev").Resource(metrics).Namespace(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				containers, _, _ := unstructured.NestedSlice(m.Object, "containers")
				for _, used := range containers {
					if used.(map[string]any)["name"] == c.Name {
						text, _, _ := unstructured.NestedString(used.(map[string]any), "usage", "memory")
						q := resource.MustParse(text)
						sum += q.Value()
					}
				}
			}
		}
		return nil
	})
	return sum
}
