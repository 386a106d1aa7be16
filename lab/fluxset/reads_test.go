package fluxset

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"homelab/lab/needs"
	"homelab/lab/strict"
)

const foreignRoot = `apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: flux-system, namespace: flux-system}
spec: {interval: 1m, url: https://example.com/fleet, ref: {branch: main}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: flux-system, namespace: flux-system}
spec: {interval: 1m, prune: true, path: ./cluster, sourceRef: {kind: GitRepository, name: flux-system}}
`

func kustomizationOf(name, more string) string {
	return `apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: ` + name + `, namespace: flux-system}
spec: {interval: 1m, prune: true, path: ./` + name + `, sourceRef: {kind: GitRepository, name: flux-system}` + more + `}
---
`
}

const substitutes = ", postBuild: {substituteFrom: [{kind: ConfigMap, name: settings}, {kind: Secret, name: keys, optional: true}]}"

func expandForeign(files map[string]string) Expansion { return expandWith(foreignRoot, files) }

// What only a Kustomization itself applies is not there when it is read.
func TestReadsLate(t *testing.T) {
	const settings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: flux-system}\ndata: {domain: example.com}\n"
	files := map[string]string{"cluster/a.yaml": kustomizationOf("apps", ", postBuild: {substituteFrom: [{kind: ConfigMap, name: settings}]}"), "apps/a.yaml": settings}
	app := expandForeign(files).Applications[0]
	if want := "reads ConfigMap flux-system/settings, which is applied only after it"; app.LeftOut != want || !app.Stalled || app.Reads[0].Known || app.Reads[0].Late["domain"] != "example.com" {
		t.Errorf("%q, %t, %v; want %q", app.LeftOut, app.Stalled, app.Reads, want)
	}
	files["cluster/b.yaml"], files["settings/a.yaml"] = kustomizationOf("settings", ""), settings
	for _, app := range expandForeign(files).Applications {
		if app.LeftOut != "" || len(app.Reads) > 0 && !app.Reads[0].Known {
			t.Errorf("%s: %q, %v", app.Name, app.LeftOut, app.Reads)
		}
	}
}

// The ConfigMap that Kubernetes puts into every namespace is there, with data that only the cluster has.
func TestReadsOfKubernetes(t *testing.T) {
	app := expandForeign(map[string]string{
		"cluster/a.yaml": kustomizationOf("apps", ""),
		"apps/a.yaml": "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: web, namespace: web}\n" +
			"spec: {interval: 1m, chart: {spec: {chart: web, sourceRef: {kind: GitRepository, name: flux-system, namespace: flux-system}}}, valuesFrom: [{kind: ConfigMap, name: kube-root-ca.crt, valuesKey: ca.crt, targetPath: ca}]}\n",
		"web/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
	}).Applications[0]
	if len(app.Reads) != 1 || !app.Reads[0].Known || app.LeftOut != "" || app.Releases[0].Values != nil {
		t.Errorf("%+v, left out %q, values %v", app.Reads, app.LeftOut, app.Releases[0].Values)
	}
}

// Objects applied by later Kustomizations are known too.
func TestReads(t *testing.T) {
	files := map[string]string{
		"cluster/a.yaml": kustomizationOf("apps", substitutes),
		"apps/a.yaml": `apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: default}
data: {domain: "${domain}", zone: "${zone}"}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: web, namespace: web}
spec:
  chartRef: {kind: OCIRepository, name: web}
  valuesFrom: [{kind: ConfigMap, name: values}, {kind: Secret, name: db, valuesKey: password, targetPath: db.password}]
`,
	}
	describe := func(x Expansion) (lines []string) {
		for _, a := range x.Applications {
			for _, r := range a.Reads {
				line := fmt.Sprintf("%s reads %s known=%t optional=%t", a.Name, r.key(), r.Known, r.Optional)
				for _, k := range r.Keys {
					line += fmt.Sprintf(" %s text=%t", k.Name, k.Text)
				}
				lines = append(lines, line)
			}
			for _, u := range a.Unset {
				lines = append(lines, fmt.Sprintf("%s lacks %s at %s:%d", a.Name, u.Name, u.At.File, u.At.Line))
			}
		}
		return lines
	}
	values := []string{"apps reads ConfigMap web/values known=false optional=false values.yaml text=true", "apps reads Secret web/db known=false optional=false password text=false"}
	want := slices.Concat([]string{
		"apps reads ConfigMap flux-system/settings known=false optional=false", "apps reads Secret flux-system/keys known=false optional=true",
	}, values, []string{"apps lacks domain at ../fleet/apps/a.yaml:4", "apps lacks zone at ../fleet/apps/a.yaml:4"})
	if got := describe(expandForeign(files)); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}

	files["cluster/b.yaml"] = kustomizationOf("settings", "")
	files["settings/settings.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: flux-system}\ndata: {domain: example.com}\n---\n" +
		"apiVersion: v1\nkind: Secret\nmetadata: {name: keys, namespace: flux-system}\ndata: {zone: ZXU=}\n"
	want = slices.Concat([]string{
		"apps reads ConfigMap flux-system/settings known=true optional=false", "apps reads Secret flux-system/keys known=true optional=true",
	}, values)
	x := expandForeign(files)
	if got := describe(x); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for _, a := range x.Applications {
		for _, o := range a.Objects {
			if strict.Text(o.Node, "metadata", "name") == "a" && (strict.Text(o.Node, "data", "domain") != "example.com" || strict.Text(o.Node, "data", "zone") != "eu") {
				t.Errorf("%s: %s, %s", a.Name, strict.Text(o.Node, "data", "domain"), strict.Text(o.Node, "data", "zone"))
			}
		}
	}
}

func TestVariablesAt(t *testing.T) {
	x := expandForeign(map[string]string{
		"cluster/a.yaml": kustomizationOf("apps", ", postBuild: {substitute: {zone: eu}, substituteFrom: [{kind: ConfigMap, name: settings}]}"),
		"apps/a.yaml":    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\n",
		"cluster/b.yaml": kustomizationOf("settings", ""),
		"settings/settings.yaml": `apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: flux-system}
data:
  domain: example.com
`,
	})
	i := slices.IndexFunc(x.Applications, func(a Application) bool { return a.Name == "apps" })
	at := x.Applications[i].VariablesAt
	if got := at["domain"].String() + " " + at["zone"].String(); got != "../fleet/settings/settings.yaml:5 ../fleet/cluster/a.yaml:4" {
		t.Error(got)
	}
}

func TestLeftOut(t *testing.T) {
	empty := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: default}\n"
	pinned := "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {name: pinned, namespace: flux-system}\nspec: {interval: 1m, url: https://example.com/fleet, ref: {tag: v1}}\n---\n" +
		"apiVersion: source.toolkit.fluxcd.io/v1\nkind: OCIRepository\nmetadata: {name: far, namespace: flux-system}\nspec: {interval: 1m, url: oci://example.com/x}\n---\n"
	x := expandForeign(map[string]string{
		"cluster/a.yaml": pinned + kustomizationOf("fine", "") + kustomizationOf("suspended", ", suspend: true") + kustomizationOf("vault", "") + kustomizationOf("images", "") +
			kustomizationOf("late", ", dependsOn: [{name: later}]") + kustomizationOf("later", ", dependsOn: [{name: vault}], wait: true") + kustomizationOf("over", ", suspend: true") +
			"apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: pinned, namespace: flux-system}\nspec: {interval: 1m, prune: true, path: ./fine, sourceRef: {kind: GitRepository, name: pinned}}\n---\n" +
			"apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: far, namespace: flux-system}\nspec: {interval: 1m, prune: true, path: ./fine, sourceRef: {kind: OCIRepository, name: far}}\n",
		"fine/a.yaml": empty, "suspended/a.yaml": empty, "late/a.yaml": empty, "later/a.yaml": empty, "under/a.yaml": empty,
		"over/a.yaml":   kustomizationOf("under", ""),
		"vault/a.yaml":  "apiVersion: v1\nkind: Secret\nmetadata: {name: vault, namespace: default}\nsops: {age: []}\n",
		"images/a.yaml": "apiVersion: image.toolkit.fluxcd.io/v1beta2\nkind: ImagePolicy\nmetadata: {name: web, namespace: default}\n",
	})
	if len(x.Problems) > 0 {
		t.Fatal(x.Problems)
	}
	want := map[string]string{
		"fine": "", "far": "", "suspended": "suspended: spec.suspend", "over": "suspended: spec.suspend", "under": "part of over, which is left out",
		"vault": "Secret vault is encrypted, and its key is missing", "images": "ImagePolicy web needs a component of Flux that is not installed: spec.engine.componentsExtra of the hub",
		"later": "depends on vault, which is left out", "late": "depends on later, which is left out", "pinned": "GitRepository flux-system/pinned: no v1",
	}
	if len(x.Applications) != len(want) {
		t.Errorf("%d applications", len(x.Applications))
	}
	for _, a := range x.Applications {
		if a.LeftOut != want[a.Name] || a.Cluster != "prod" || (a.Elsewhere != "") != (a.Name == "far") || a.Waits != (a.Name == "later") {
			t.Errorf("%s: %q, %+v", a.Name, a.LeftOut, a)
		}
	}
}

// A later Kustomization may apply a source. In a mounted repository, a missing source is left out.
func TestSources(t *testing.T) {
	files := map[string]string{
		"cluster/a.yaml": kustomizationOf("apps", "") + "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: other, namespace: flux-system}\n" +
			"spec: {interval: 1m, prune: true, path: ./plain, sourceRef: {kind: GitRepository, name: other}}\n",
		"plain/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: default}\n",
		"apps/a.yaml": "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: web, namespace: web}\n" +
			"spec: {interval: 1m, chart: {spec: {chart: web, sourceRef: {kind: HelmRepository, name: charts}}}}\n",
	}
	x := expandForeign(files)
	if len(x.Problems) > 0 || len(x.Applications) != 2 || x.Applications[0].Releases[0].URL != "" || x.Applications[1].LeftOut != "source GitRepository flux-system/other does not exist" {
		t.Errorf("%+v", x)
	}
	files["cluster/b.yaml"] = kustomizationOf("sources", "")
	files["sources/a.yaml"] = "apiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata: {name: charts, namespace: web}\nspec: {url: https://charts.example.com}\n---\n" +
		"apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {name: other, namespace: flux-system}\nspec: {interval: 1m, url: https://example.com/fleet, ref: {branch: main}}\n"
	x = expandForeign(files)
	if len(x.Applications) != 3 || x.Applications[0].Releases[0].URL != "https://charts.example.com" || x.Applications[1].LeftOut != "" {
		t.Errorf("%+v", x.Applications)
	}
	files["apps/kustomization.yaml"] = "resources: [nowhere.yaml]\n"
	x = expandForeign(files)
	if len(x.Problems) > 0 || !strings.HasPrefix(x.Applications[0].LeftOut, "cannot be built: ") {
		t.Errorf("%v, %+v", x.Problems, x.Applications)
	}
	files["cluster/kustomization.yaml"] = "resources: [nowhere.yaml]\n"
	if x = expandForeign(files); len(x.Problems) != 1 {
		t.Errorf("broken root: %v", x.Problems)
	}
}

func TestImages(t *testing.T) {
	x := expandForeign(map[string]string{
		"cluster/a.yaml": kustomizationOf("apps", ""),
		"apps/a.yaml": `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec: {template: {spec: {initContainers: [{name: a, image: example.com/init:1}], containers: [{name: b, image: example.com/web:1}, {name: c, image: example.com/init:1}]}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, namespace: default}
spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: a, image: example.com/job:1}]}}}}}
---
apiVersion: v1
kind: Pod
metadata: {name: one, namespace: default}
spec: {containers: [{name: a, image: example.com/pod:1}, {name: none}]}
`,
	})
	if len(x.Applications) != 1 {
		t.Fatal(x)
	}
	got := needs.Images(x.Applications[0].Objects)
	slices.Sort(got)
	if want := []string{"example.com/init:1", "example.com/job:1", "example.com/pod:1", "example.com/web:1"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// ServiceAccounts that Flux impersonates are known if they are applied at any point, exist anyway, or belong to a remote cluster.
func TestReadsAccounts(t *testing.T) {
	files := map[string]string{
		"cluster/a.yaml": kustomizationOf("lost", ", serviceAccountName: lost") + kustomizationOf("own", ", serviceAccountName: own") + kustomizationOf("bound", ", serviceAccountName: bound") +
			kustomizationOf("none", "") + kustomizationOf("builtin", ", serviceAccountName: default") + kustomizationOf("flux", ", serviceAccountName: kustomize-controller") +
			kustomizationOf("release", "") + kustomizationOf("group", "") + kustomizationOf("user", "") + kustomizationOf("far", ", serviceAccountName: lost, kubeConfig: {secretRef: {name: far}}"),
		"release/a.yaml": "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: web, namespace: web}\nspec:\n  serviceAccountName: kustomize-controller\n",
		"none/a.yaml": "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: own, namespace: flux-system}\n---\n" +
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: b, namespace: web}\nsubjects: [{kind: ServiceAccount, name: bound, namespace: flux-system}, {kind: User, name: lost, namespace: flux-system}]\n---\n" +
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: g, namespace: web}\nsubjects: [{kind: Group, name: \"system:serviceaccounts:grouped\"}, {kind: User, name: \"system:serviceaccount:named:deployer\"}]\n",
		"group/a.yaml": "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: web, namespace: grouped}\nspec:\n  serviceAccountName: deployer\n",
		"user/a.yaml":  "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: web, namespace: named}\nspec:\n  serviceAccountName: deployer\n",
	}
	for _, name := range []string{"lost", "own", "bound", "builtin", "flux", "far"} {
		files[name+"/a.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n"
	}
	got := map[string]string{}
	for _, a := range expandForeign(files).Applications {
		for _, r := range a.Reads {
			got[a.Name] = fmt.Sprintf("%s %s/%s known %t bound %t line %d", r.Kind, r.Namespace, r.Name, r.Known, r.Bound, r.At.Line)
		}
	}
	want := map[string]string{
		"lost":    "ServiceAccount flux-system/lost known false bound false line 4",
		"own":     "ServiceAccount flux-system/own known true bound false line 9",
		"bound":   "ServiceAccount flux-system/bound known false bound true line 14",
		"builtin": "ServiceAccount flux-system/default known true bound false line 24",
		"release": "ServiceAccount web/kustomize-controller known false bound false line 5",
		"group":   "ServiceAccount grouped/deployer known false bound true line 5",
		"user":    "ServiceAccount named/deployer known false bound true line 5",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

// A root with a remote base cannot be read.
func TestRemoteRoot(t *testing.T) {
	x := expandForeign(map[string]string{"cluster/kustomization.yaml": "resources: [https://example.com/install.yaml]\n"})
	want := "../fleet/cluster/kustomization.yaml:1:13: includes https://example.com/install.yaml: lab reads no remote bases: put it into the repository, or leave it out if it is Flux's own, which lab installs"
	if got := strings.TrimSpace(x.Problems.Error()); got != want {
		t.Errorf("%q", got)
	}
}
