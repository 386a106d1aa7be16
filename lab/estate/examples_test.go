package estate

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/chart"
	chartloader "helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"

	"homelab/lab/fluxset"
	"homelab/lab/render"
)

const examples = "../e2e/testdata/worked-examples"

// exampleApplications expands the worked examples as Flux does.
func exampleApplications(t *testing.T) map[string]fluxset.Application {
	t.Helper()
	e := load(t, examples)
	l := loader{files: files{fsys: e.FS}, estate: e}
	x := fluxset.Expand(l.fluxWorld("hub"), e.RootFile())
	if len(x.Problems) > 0 {
		t.Fatal(x.Problems)
	}
	apps := map[string]fluxset.Application{}
	for _, a := range x.Applications {
		if a.Cluster != "dev" || len(a.Unset) > 0 {
			t.Errorf("%s on %s: %v", a.Name, a.Cluster, a.Unset)
		}
		apps[a.Name] = a
	}
	return apps
}

func decoded(t *testing.T, o render.Document) map[string]any {
	t.Helper()
	var m map[string]any
	if err := o.Node.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

// releaseOf renders the chart of an application's HelmRelease with its layers.
func releaseOf(t *testing.T, a fluxset.Application, c *chart.Chart) map[string]map[string]any {
	t.Helper()
	configMaps, release := map[string]map[string]any{}, map[string]any{}
	for _, o := range a.Objects {
		m := decoded(t, o)
		if m["kind"] == "HelmRelease" {
			release = m
		} else {
			configMaps[at(m, "metadata", "name").(string)] = m
		}
	}
	values := map[string]any{}
	from, _ := at(release, "spec", "valuesFrom").([]any)
	for _, ref := range from {
		text, ok := at(configMaps[at(ref, "name").(string)], "data", at(ref, "valuesKey")).(string)
		if !ok {
			t.Fatalf("%s: no layer %v", a.Name, ref)
		}
		var layer map[string]any
		if err := yaml.Unmarshal([]byte(text), &layer); err != nil {
			t.Fatal(err)
		}
		values = chartutil.CoalesceTables(layer, values)
	}
	return template(t, c, values, chartutil.ReleaseOptions{Name: a.Name, Namespace: a.Releases[0].TargetNamespace, IsInstall: true})
}

func TestWorkedExamples(t *testing.T) {
	apps := exampleApplications(t)
	if len(apps) != 8 || len(apps["karpenter"].Releases) != 1 || len(apps["storage-class"].Objects) != 1 {
		t.Fatalf("%v", apps)
	}
	if on := apps["storage-class"].Objects[0]; at(decoded(t, on), "kind") != "StorageClass" {
		t.Errorf("%v", decoded(t, on))
	}
	for _, o := range apps["karpenter-nodes"].Objects {
		m := decoded(t, o)
		labels := at(m, "spec", "template", "metadata", "labels")
		if m["kind"] == "NodePool" && (at(labels, "example.com/region") != "eu-central-1" || len(at(labels, "example.com/account").(string)) != 12) {
			t.Errorf("%v", m)
		}
	}
	dir, err := chartloader.LoadDir(path.Join(examples, "addons/reloader/chart"))
	if err != nil {
		t.Fatal(err)
	}
	if d := template(t, dir, nil, chartutil.ReleaseOptions{Name: "reloader", Namespace: "reloader"}); len(d) != 4 {
		t.Errorf("the reloader's chart has %v", d)
	}
}

func TestWorkedExamplesRendered(t *testing.T) {
	apps := exampleApplications(t)
	const podinfo = "github.com/stefanprodan/podinfo@v1.8.1-0.20250910200901-e86405a8674e"
	for _, c := range []struct{ addon, module, chart, image, env, has string }{
		{"auth", podinfo, "charts/podinfo", "ghcr.io/stefanprodan/podinfo:6.9.2", "PODINFO_UI_MESSAGE", "https://auth.dev.example.com in eu-central-1 of "},
		{"auth", podinfo, "charts/podinfo", "ghcr.io/stefanprodan/podinfo:6.9.2", "PODINFO_UI_COLOR", "#2e7d32"},
		{"dashboard", podinfo, "charts/podinfo", "ghcr.io/stefanprodan/podinfo:6.9.2", "DASHBOARD_BANNER", "map[configMapKeyRef:map[key:text name:banner]]"},
		{"karpenter", "sigs.k8s.io/karpenter@v1.14.1", "kwok/charts", "docker.io/lab/karpenter-kwok:v1.14.1", "CLUSTER_NAME", "homelab-dev"},
		{
			"karpenter", "sigs.k8s.io/karpenter@v1.14.1", "kwok/charts", "docker.io/lab/karpenter-kwok:v1.14.1", "FEATURE_GATES",
			"StaticCapacity=false,SpotToSpotConsolidation=false,NodeRepair=false,CapacityBuffer=false",
		},
	} {
		t.Run(c.addon+" "+c.env, func(t *testing.T) {
			objects := releaseOf(t, apps[c.addon], moduleChart(t, c.module, c.chart))
			container := at(objects["Deployment/"+c.addon], "spec", "template", "spec", "containers", 0)
			if at(container, "image") != c.image {
				t.Errorf("runs %v", at(container, "image"))
			}
			env, _ := at(container, "env").([]any)
			i := slices.IndexFunc(env, func(e any) bool { return at(e, "name") == c.env })
			if i < 0 {
				t.Fatalf("no %s in %v", c.env, env)
			}
			value := fmt.Sprint(at(env[i], "value"))
			if from := at(env[i], "valueFrom"); from != nil {
				value = fmt.Sprint(from)
			}
			if !strings.HasPrefix(value, c.has) {
				t.Errorf("%s is %q", c.env, value)
			}
			if arn := at(objects["ServiceAccount/karpenter"], "metadata", "annotations", "eks.amazonaws.com/role-arn"); c.addon == "karpenter" && !strings.HasPrefix(fmt.Sprint(arn), "arn:aws:iam::") {
				t.Errorf("role %v", arn)
			}
		})
	}
}

// The reloader is disabled until the nodes have its image.
func TestWorkedExamplesWithReloader(t *testing.T) {
	files := filesOf(t, examples)
	replace(files, "clusters/dev/cluster.yaml", "reloader: false", "reloader: true")
	generated(t, files)
	e, err := Load(files, "", "homelab")
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Applications) != 9 {
		t.Errorf("%v", e.Applications)
	}
}
