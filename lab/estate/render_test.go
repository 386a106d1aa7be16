package estate

import (
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	chartloader "helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/yaml"

	"homelab/lab"
	"homelab/lab/appset"
	"homelab/lab/strict"
	"homelab/lab/upstream"
)

// These tests expand the default estate's ApplicationSets and render them with Helm, with layers in Argo CD's order,
// without a cluster. The end-to-end test uses the real engine.

func generate(t *testing.T, e *lab.Estate, file string) map[string]appset.Application {
	t.Helper()
	data, err := fs.ReadFile(e.FS, file)
	if err != nil {
		t.Fatal(err)
	}
	docs, problems := strict.Parse(file, data)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	set, problems := appset.Parse(file, docs[0])
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	x, err := set.Expand(World(e, e.Clusters))
	if err != nil || len(x.Invalid) > 0 {
		t.Fatal(err, x)
	}
	apps := map[string]appset.Application{}
	for _, app := range x.Applications {
		apps[app.Cluster] = app
	}
	return apps
}

func asMap(v any) map[string]any { m, _ := v.(map[string]any); return m }

// evaluate renders an application's chart with its layers: manifests by kind and name.
func evaluate(t *testing.T, e *lab.Estate, app appset.Application, c *chart.Chart) map[string]map[string]any {
	t.Helper()
	source := app.Spec.Sources[1]
	values := map[string]any{}
	for _, f := range source.Helm.ValueFiles {
		data, err := fs.ReadFile(e.FS, strings.TrimPrefix(f, "$values/"))
		if err != nil {
			if !source.Helm.IgnoreMissingValueFiles {
				t.Fatal(err)
			}
			continue
		}
		layer := map[string]any{}
		if err := yaml.Unmarshal(data, &layer); err != nil {
			t.Fatal(err)
		}
		values = chartutil.CoalesceTables(layer, values)
	}
	var object map[string]any
	if err := yaml.Unmarshal(source.Helm.ValuesObject.Raw, &object); err != nil {
		t.Fatal(err)
	}
	values = chartutil.CoalesceTables(object, values)
	return template(t, c, values, chartutil.ReleaseOptions{Name: source.Helm.ReleaseName, Namespace: app.Spec.Destination.Namespace, IsInstall: true})
}

// template renders a chart: manifests by kind and name.
func template(t *testing.T, c *chart.Chart, values map[string]any, release chartutil.ReleaseOptions) map[string]map[string]any {
	t.Helper()
	all, err := chartutil.ToRenderValues(c, values, release, chartutil.DefaultCapabilities)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(c, all)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for doc := range strings.SplitSeq(files[name], "\n---") {
			var object map[string]any
			if strings.HasSuffix(name, ".txt") || yaml.Unmarshal([]byte(doc), &object) != nil || object["kind"] == nil {
				continue
			}
			out[fmt.Sprintf("%s/%s", object["kind"], at(object, "metadata", "name"))] = object
		}
	}
	return out
}

func at(v any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			v = asMap(v)[step]
		case int:
			list, _ := v.([]any)
			if step >= len(list) {
				return nil
			}
			v = list[step]
		}
	}
	return v
}

// moduleChart loads a chart from a Go module.
func moduleChart(t *testing.T, module, dir string) *chart.Chart {
	t.Helper()
	c, err := chartloader.LoadDir(filepath.Join(upstream.Dir(t, module), filepath.FromSlash(dir)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestApplications(t *testing.T) {
	e := load(t, "../..")
	for addon, want := range map[string]map[string]string{ // cluster -> target revision of the second source
		"podinfo":        {"dev": "6.9.2", "staging": "6.7.0", "prod": "6.7.0"},
		"metrics-server": {"hub": "3.13.1", "dev": "3.13.1", "staging": "3.13.1", "prod": "3.13.1"},
		"identity":       {"dev": "main", "staging": "main", "prod": "main"},
	} {
		apps := generate(t, e, "addons/"+addon+"/applicationset.yaml")
		if got, want := slices.Sorted(maps.Keys(apps)), slices.Sorted(maps.Keys(want)); !slices.Equal(got, want) {
			t.Errorf("%s: clusters %v, want %v", addon, got, want)
		}
		for cluster, app := range apps {
			if got := app.Spec.Sources[1].TargetRevision; got != want[cluster] {
				t.Errorf("%s-%s: revision %q, want %q", cluster, addon, got, want[cluster])
			}
			if app.Metadata.Name != cluster+"-"+addon || app.Metadata.Labels["addon"] != addon || app.Metadata.Labels["cluster"] != cluster {
				t.Errorf("%s-%s: %+v", cluster, addon, app.Metadata)
			}
			if app.Spec.Destination.Name != cluster || len(app.Metadata.Finalizers) == 0 || !app.Spec.SyncPolicy.Automated.Prunes() ||
				!app.Spec.SyncPolicy.Automated.Heals() {
				t.Errorf("%s-%s is not removed, pruned and healed: %+v", cluster, addon, app)
			}
			if src := app.Spec.Sources[1]; src.Path != "" {
				if _, err := fs.Stat(e.FS, src.Path+"/Chart.yaml"); err != nil {
					t.Error(err)
				}
			} else if src.RepoURL != "http://lab-homelab-forge:3000/api/packages/lab/helm" {
				t.Errorf("%s-%s: charts from %s", cluster, addon, src.RepoURL)
			}
		}
	}
}

func TestPodinfoRendered(t *testing.T) {
	e := load(t, "../..")
	charts := map[string]*chart.Chart{}
	for version, module := range map[string]string{
		"6.9.2": "github.com/stefanprodan/podinfo@v1.8.1-0.20250910200901-e86405a8674e",
		"6.7.0": "github.com/stefanprodan/podinfo@v1.8.1-0.20240623182813-0b1481aa8ed0",
	} {
		charts[version] = moduleChart(t, module, "charts/podinfo")
	}
	for cluster, app := range generate(t, e, "addons/podinfo/applicationset.yaml") {
		deployment := evaluate(t, e, app, charts[app.Spec.Sources[1].TargetRevision])["Deployment/podinfo"]
		want := map[string]struct {
			replicas              float64
			image, message, color string
		}{
			"dev":     {1, "ghcr.io/stefanprodan/podinfo:6.9.2", "dev: dev on aws", "#2e7d32"},
			"staging": {1, "ghcr.io/stefanprodan/podinfo:6.7.0", "staging: staging on aws", "#b26a00"},
			"prod":    {2, "ghcr.io/stefanprodan/podinfo:6.7.0", "prod: prod on aws", "#b3261e"},
		}[cluster]
		container := at(deployment, "spec", "template", "spec", "containers", 0)
		for what, pair := range map[string][2]any{
			"replicas": {at(deployment, "spec", "replicas"), want.replicas},
			"image":    {at(container, "image"), want.image},
			"message":  {at(container, "env", 0, "value"), want.message},
			"color":    {at(container, "env", 1, "value"), want.color},
			"memory":   {at(container, "resources", "limits", "memory"), "64Mi"},
		} {
			if pair[0] != pair[1] {
				t.Errorf("%s: %s is %v, want %v", cluster, what, pair[0], pair[1])
			}
		}
	}
}

func TestMetricsServerRendered(t *testing.T) {
	e := load(t, "../..")
	c := moduleChart(t, "sigs.k8s.io/metrics-server@v0.9.0", "charts/metrics-server")
	for cluster, app := range generate(t, e, "addons/metrics-server/applicationset.yaml") {
		if app.Spec.Sources[1].TargetRevision != c.Metadata.Version {
			t.Errorf("%s: pinned %s, the module has %s", cluster, app.Spec.Sources[1].TargetRevision, c.Metadata.Version)
		}
		objects := evaluate(t, e, app, c)
		deployment := objects["Deployment/metrics-server"]
		container := at(deployment, "spec", "template", "spec", "containers", 0)
		args, _ := at(container, "args").([]any)
		if !slices.Contains(args, any("--kubelet-insecure-tls")) || at(container, "image") != "registry.k8s.io/metrics-server/metrics-server:v0.9.0" {
			t.Errorf("%s: args %v, image %v", cluster, args, at(container, "image"))
		}
		if got := at(deployment, "metadata", "labels", "cluster"); got != cluster {
			t.Errorf("%s: the bridge's label is %v", cluster, got)
		}
		if objects["APIService/v1beta1.metrics.k8s.io"] == nil {
			t.Errorf("%s: no APIService", cluster)
		}
	}
}

func TestIdentityRendered(t *testing.T) {
	e := load(t, "../..")
	c, err := chartloader.LoadDir("../../addons/identity/chart")
	if err != nil {
		t.Fatal(err)
	}
	identity := func() (map[string]any, map[string]any) {
		objects := evaluate(t, e, generate(t, e, "addons/identity/applicationset.yaml")["prod"], c)
		return objects["ServiceAccount/identity"], objects["ConfigMap/cloud"]
	}
	account, shown := identity()
	if got := at(account, "metadata", "annotations", "eks.amazonaws.com/role-arn"); got != "arn:aws:iam::210987654321:role/homelab-prod-identity-eu-west-1" {
		t.Errorf("role %v", got)
	}
	if at(shown, "data", "account") != "210987654321" || at(shown, "data", "region") != "eu-west-1" || at(shown, "data", "cluster") != "prod" {
		t.Errorf("shown %v", shown["data"])
	}

	prod := slices.IndexFunc(e.Clusters, func(c lab.Cluster) bool { return c.Name == "prod" })
	e.Clusters[prod].Cloud = lab.Cloud{Provider: "aws", Region: "eu-central-1"} // a changed region shows in the role
	if account, _ = identity(); at(account, "metadata", "annotations", "eks.amazonaws.com/role-arn") != "arn:aws:iam::210987654321:role/homelab-prod-identity-eu-central-1" {
		t.Errorf("after the region's edit: %v", account["metadata"])
	}
	e.Clusters[prod].Cloud = lab.Cloud{Provider: "azure"}
	if account, shown = identity(); len(fmt.Sprint(at(account, "metadata", "annotations", "azure.workload.identity/client-id"))) != 36 ||
		at(account, "metadata", "labels", "azure.workload.identity/use") != "true" {
		t.Errorf("azure: %v", account["metadata"])
	}
	if at(shown, "data", "network") == nil {
		t.Errorf("azure: shown %v", shown["data"])
	}
	e.Clusters[prod].Cloud = lab.Cloud{Provider: "gcp", ProjectID: "retail-prod"}
	if account, _ = identity(); at(account, "metadata", "annotations", "iam.gke.io/gcp-service-account") != "identity-prod@retail-prod.iam.gserviceaccount.com" {
		t.Errorf("gcp: %v", account["metadata"])
	}
	e.Clusters[prod].Cloud = lab.Cloud{Provider: "none"}
	if account, _ = identity(); at(account, "metadata", "annotations") != nil {
		t.Errorf("none: %v", account["metadata"])
	}
}
