package fluxset

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
)

// A chart in Git comes from what its source packs.
func TestChartFiles(t *testing.T) {
	const chart, release = "chart: {spec: {chart: charts/site, sourceRef: {kind: GitRepository, name: flux-system, namespace: flux-system}}}", "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: site, namespace: web}\nspec: {interval: 1m, "
	artifact := func(copies string) string {
		return "apiVersion: source.extensions.fluxcd.io/v1beta1\nkind: ArtifactGenerator\nmetadata: {name: site, namespace: web}\n" +
			"spec: {sources: [{alias: repo, kind: GitRepository, name: flux-system, namespace: flux-system}], artifacts: [{name: site, copy: [" + copies + "]}]}\n"
	}
	const ofArtifact = "chartRef: {kind: ExternalArtifact, name: site}"
	for name, c := range map[string]struct {
		spec  string
		files map[string]string
		place string // of the object
		why   string
	}{
		"a folder":           {chart, nil, "../fleet/charts/site/templates/a.yaml", ""},
		"from the root":      {strings.Replace(chart, "charts/site", "/charts/site", 1), nil, "../fleet/charts/site/templates/a.yaml", ""},
		"ignored":            {chart, map[string]string{".sourceignore": "/*\n!/cluster\n!/apps\n"}, "", "ignores charts/site: .sourceignore or spec.ignore"},
		"of an artifact":     {ofArtifact, map[string]string{"apps/g.yaml": artifact("{from: '@repo/charts/site', to: '@artifact/'}")}, "../fleet/charts/site/templates/a.yaml", ""},
		"at the top of it":   {ofArtifact, map[string]string{"apps/g.yaml": artifact("{from: '@repo/charts/site/**', to: '@artifact/'}")}, "", "a chart must be in a folder of its artifact, and alone in it"},
		"beside another one": {ofArtifact, map[string]string{"apps/g.yaml": artifact("{from: '@repo/charts/site', to: '@artifact/'}, {from: '@repo/apps', to: '@artifact/'}")}, "", "a chart must be in a folder of its artifact, and alone in it"},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{
				"cluster/a.yaml": kustomizationOf("apps", ""), "apps/a.yaml": release + c.spec + "}\n",
				"charts/site/Chart.yaml": "apiVersion: v2\nname: site\nversion: 1.0.0\n", "charts/site/templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
			}
			maps.Copy(files, c.files)
			x := expandWith(foreignRoot, files, "source-watcher")
			i := slices.IndexFunc(x.Applications, func(a Application) bool { return a.Name == "apps" })
			r := x.Applications[i].Releases[0]
			_, place, err := r.Files()
			if absent := new(Absent); c.why != "" {
				if !errors.As(err, &absent) || absent.Why != c.why {
					t.Errorf("%v, want %s", err, c.why)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			objects, err := r.Render(World{})
			if err != nil || len(objects) != 1 || place(objects[0].File) != c.place {
				t.Errorf("%v, %v, want one of %s", objects, err, c.place)
			}
		})
	}
}
