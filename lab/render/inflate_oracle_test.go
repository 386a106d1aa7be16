package render

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/cli"
	clivalues "helm.sh/helm/v3/pkg/cli/values"
	"helm.sh/helm/v3/pkg/getter"
	"helm.sh/helm/v3/pkg/release"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	sigsyaml "sigs.k8s.io/yaml"
)

// asHelm makes this program the helm that kustomize runs.
const asHelm = "LAB_TEST_AS_HELM"

func TestMain(m *testing.M) {
	if os.Getenv(asHelm) == "" || len(os.Args) < 2 || strings.HasPrefix(os.Args[1], "-") {
		os.Exit(m.Run())
	}
	if os.Args[1] == "version" {
		fmt.Println("v3.22.0")
		os.Exit(0)
	}
	if err := helmTemplate(os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// helmTemplate is `helm template` by Helm's own libraries, with the flags that kustomize uses.
func helmTemplate(args []string) error {
	i := action.NewInstall(&action.Configuration{Capabilities: chartutil.DefaultCapabilities, Log: func(string, ...any) {}})
	i.DryRun, i.ClientOnly, i.Replace, i.ReleaseName, i.Namespace = true, true, true, "release-name", "default"
	var rest []string
	var o clivalues.Options
	skipTests := false
	for n := 0; n < len(args); n++ {
		next := func() string { n++; return args[n] }
		switch args[n] {
		case "--namespace":
			i.Namespace = next()
		case "--name-template":
			i.NameTemplate = next()
		case "--generate-name":
			i.GenerateName = true
		case "-f":
			o.ValueFiles = append(o.ValueFiles, next())
		case "--api-versions":
			i.APIVersions = append(i.APIVersions, next())
		case "--kube-version":
			v, err := chartutil.ParseKubeVersion(next())
			if err != nil {
				return err
			}
			i.KubeVersion = v
		case "--include-crds":
			i.IncludeCRDs = true
		case "--skip-tests":
			skipTests = true
		case "--no-hooks":
			i.DisableHooks = true
		case "--debug", "--devel":
		default:
			rest = append(rest, args[n])
		}
	}
	name, at, err := i.NameAndChart(rest)
	if err != nil {
		return err
	}
	i.ReleaseName = name
	vals, err := o.MergeValues(getter.All(cli.New()))
	if err != nil {
		return err
	}
	c, err := loader.Load(at)
	if err != nil {
		return err
	}
	if err := action.CheckDependencies(c, c.Metadata.Dependencies); err != nil {
		return err
	}
	rel, err := i.Run(c, vals)
	if err != nil {
		return err
	}
	fmt.Println(strings.TrimSpace(rel.Manifest))
	if !i.DisableHooks {
		for _, h := range rel.Hooks {
			if skipTests && slices.Contains(h.Events, release.HookTest) {
				continue
			}
			fmt.Printf("---\n# Source: %s\n%s\n", h.Path, h.Manifest)
		}
	}
	return nil
}

// TestInflatedAsByKustomize compares with kustomize's own generator, and Helm's own libraries.
func TestInflatedAsByKustomize(t *testing.T) {
	t.Setenv(asHelm, "true")
	helm, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	base := map[string]string{
		"web/v.yaml": "size: 7\ndeep: {b: null, c: [1, 2]}\n", "web/cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\n",
	}
	cases := map[string]map[string]string{}
	for i, c := range []string{
		"", "releaseName: a, namespace: b", "skipHooks: true", "skipTests: true", "includeCRDs: true", "valuesInline: {size: 2, deep: {a: 3, c: 4}}", "valuesMerge: merge, valuesInline: {size: 2, more: 1, deep: {z: 1}}",
		"valuesMerge: replace, valuesInline: {more: 1, deep: {a: null}}", "valuesInline: {deep: null, size: null}", "valuesMerge: merge, valuesInline: {deep: null, l: [1]}", "valuesFile: v.yaml", "valuesFile: v.yaml, valuesInline: {deep: {c: [3]}}",
		"valuesInline: {size: 2, from: inline}, additionalValuesFiles: [v.yaml]", "kubeVersion: 1.30.0, apiVersions: [example.com/v1]", `nameTemplate: '{{ "LAMP" | lower }}-x'`, "releaseName: a, nameTemplate: b",
		"valuesMerge: mix, valuesInline: {a: 1}", "valuesFile: ../v.yaml", "valuesFile: none.yaml", "releaseName: Bad_Name", "additionalValuesFiles: [none.yaml]", "version: 9.9.9", "repo: 'https://charts.example.invalid'", "valuesFile: v.yaml, additionalValuesFiles: [v.yaml]",
		"debug: true", "devel: true",
	} {
		for j, ns := range []string{"", "namespace: shop\n", "namePrefix: x-\nnameSuffix: -y\n", "resources: [cm.yaml]\nconfigMapGenerator: [{name: g, literals: [a=b]}]\nimages: [{name: nginx, newTag: v9}]\ncommonLabels: {a: b}\n"} {
			if j > 0 && i > 2 {
				continue
			}
			cases[fmt.Sprintf("%d %d %s", i, j, c)] = vendoredLamp("web/charts/lamp", map[string]string{"web/kustomization.yaml": ns + "helmCharts: [{name: lamp, " + c + "}]\n"})
		}
	}
	cases["overlay ns"] = vendoredLamp("base/charts/lamp", map[string]string{"web/kustomization.yaml": "namespace: n1\nresources: [../base]\n", "base/kustomization.yaml": "helmCharts: [{name: lamp}]\n"})
	cases["overlay own ns"] = vendoredLamp("base/charts/lamp", map[string]string{"web/kustomization.yaml": "namespace: n1\nresources: [../base]\n", "base/kustomization.yaml": "namespace: n2\nhelmCharts: [{name: lamp}]\n"})
	cases["component"] = vendoredLamp("base/charts/lamp", map[string]string{"web/kustomization.yaml": "namespace: n1\ncomponents: [../base]\n", "base/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nhelmCharts: [{name: lamp}]\n"})
	cases["old"] = vendoredLamp("web/charts/lamp", map[string]string{"web/kustomization.yaml": "helmChartInflationGenerator: [{chartName: lamp, releaseName: old, releaseNamespace: x, values: v.yaml, valuesLocal: {a: 1}}]\n"})
	cases["home"] = vendoredLamp("c/lamp", map[string]string{"web/kustomization.yaml": "helmGlobals: {chartHome: ../c}\nhelmCharts: [{name: lamp}]\n"})
	cases["home with file"] = vendoredLamp("c/lamp", map[string]string{"web/kustomization.yaml": "helmGlobals: {chartHome: ../c}\nhelmCharts: [{name: lamp, valuesFile: v.yaml}]\n"})
	cases["home replace"] = vendoredLamp("c/lamp", map[string]string{"web/kustomization.yaml": "helmGlobals: {chartHome: ../c}\nhelmCharts: [{name: lamp, valuesMerge: replace, valuesInline: {q: 1}}]\n"})
	cases["two"] = vendoredLamp("web/charts/lamp", map[string]string{"web/kustomization.yaml": "helmCharts: [{name: lamp, skipHooks: true, releaseName: a}, {name: lamp, skipHooks: true, releaseName: b}]\n"})
	cases["twice"] = vendoredLamp("web/charts/lamp", map[string]string{"web/kustomization.yaml": "helmCharts: [{name: lamp, skipHooks: true}, {name: lamp, skipHooks: true}]\n"})
	cases["conflict"] = vendoredLamp("web/charts/lamp", map[string]string{"web/kustomization.yaml": "resources: [cm.yaml]\nhelmCharts: [{name: lamp, skipHooks: true, releaseName: cm}]\n"})
	cases["merge generator"] = vendoredLamp("web/charts/lamp", map[string]string{"web/kustomization.yaml": "configMapGenerator: [{name: cm, behavior: merge, literals: [a=b]}]\nhelmCharts: [{name: lamp, skipHooks: true, releaseName: cm}]\n"})
	cases["patch"] = vendoredLamp("web/charts/lamp", map[string]string{"web/kustomization.yaml": "helmCharts: [{name: lamp, skipHooks: true, releaseName: cm}]\npatches: [{target: {kind: ConfigMap}, patch: '[{\"op\": \"add\", \"path\": \"/data/x\", \"value\": \"1\"}]'}]\n"})
	cases["no values"] = vendoredLamp("web/charts/lamp", map[string]string{"web/kustomization.yaml": "helmCharts: [{name: lamp, skipHooks: true}]\n"})
	delete(cases["no values"], "web/charts/lamp/values.yaml")
	cases["missing dependency"] = vendoredLamp("web/charts/lamp", map[string]string{"web/kustomization.yaml": "helmCharts: [{name: lamp, skipHooks: true}]\n"})
	cases["missing dependency"]["web/charts/lamp/Chart.yaml"] += "dependencies: [{name: x, version: 1.0.0, repository: 'file://../x'}]\n"
	cases["empty chart"] = map[string]string{"web/kustomization.yaml": "helmCharts: [{name: e}]\n", "web/charts/e/Chart.yaml": "apiVersion: v2\nname: e\nversion: 1.0.0\n", "web/charts/e/values.yaml": ""}
	cases["odd values"] = vendoredLamp("web/charts/lamp", map[string]string{"web/kustomization.yaml": "helmCharts: [{name: lamp, skipHooks: true}]\n"})
	cases["odd values"]["web/charts/lamp/templates/odd.yaml"] = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: in-list}, data: {a: on, b: 0644, c: '0644', d: 1e3, e: null, f: \"yes\", g: 12_3}}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: text, annotations: }\ndata:\n  t: |\n    a\n     b\n  u: >-\n    c\n    d\n"
	cases["no kind"] = vendoredLamp("web/charts/lamp", map[string]string{"web/kustomization.yaml": "helmCharts: [{name: lamp}]\n", "web/charts/lamp/templates/x.yaml": "a: b\n"})
	cases["no kind"]["web/charts/lamp/templates/x.yaml"] = "a: b\n"
	cases["no name"] = vendoredLamp("web/charts/lamp", map[string]string{"web/kustomization.yaml": "helmCharts: [{name: lamp}]\n"})
	cases["no name"]["web/charts/lamp/templates/x.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-}\n"
	equal := 0
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		files := maps.Clone(cases[name])
		maps.Copy(files, base)
		maps.Copy(files, cases[name])
		dir := t.TempDir()
		for f, text := range files {
			err := os.MkdirAll(filepath.Dir(filepath.Join(dir, f)), 0o755)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, f), []byte(text), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		options := krusty.MakeDefaultOptions()
		options.PluginConfig = types.DisabledPluginConfig()
		options.PluginConfig.HelmConfig = types.HelmConfig{Enabled: true, Command: helm, KubeVersion: "1.37.2"}
		var want, got []string
		m, werr := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), filepath.Join(dir, "web"))
		if werr == nil {
			for _, r := range m.Resources() {
				text, _ := r.AsYAML()
				var v any
				_ = sigsyaml.Unmarshal(text, &v)
				out, _ := sigsyaml.Marshal(v)
				want = append(want, string(out))
			}
		}
		docs, gerr := inflated(t, files, nil)
		for _, d := range docs {
			var b bytes.Buffer
			_ = yaml.NewEncoder(&b).Encode(d.Node)
			var v any
			_ = sigsyaml.Unmarshal(b.Bytes(), &v)
			out, _ := sigsyaml.Marshal(v)
			got = append(got, string(out))
		}
		slices.Sort(want)
		slices.Sort(got)
		if (werr != nil) != (gerr != nil) {
			t.Errorf("%s:\n kustomize: %.600v\n lab: %v", name, werr, gerr)
		} else if w, g := strings.Join(want, "---\n"), strings.Join(got, "---\n"); w != g {
			t.Errorf("%s:\n== kustomize\n%s\n== lab\n%s", name, w, g)
		} else {
			equal++
		}
	}
	t.Logf("%d of %d equal", equal, len(cases))
}
