package estate

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

func TestWhy(t *testing.T) {
	const files = `
-- clusters/dev/cluster.yaml --
apiVersion: lab/v1alpha1
kind: Cluster
metadata: {name: dev}
spec: {role: spoke, environment: dev, addons: {podinfo: true, shop: true}, labels: {tier: one}}
-- clusters/prod/cluster.yaml --
apiVersion: lab/v1alpha1
kind: Cluster
metadata: {name: prod}
spec:
  role: spoke
  environment: prod
  addons:
    shop: false
  labels: {tier: two}
-- environments/prod/environment.yaml --
apiVersion: lab/v1alpha1
kind: Environment
metadata: {name: prod}
spec: {order: 2}
-- addons/shop/parts/dev/config.yaml --
size: 1
-- addons/shop/applicationset.yaml --
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: shop}
spec:
  goTemplate: true
  generators:
    - matrix:
        generators:
          - clusters:
              selector:
                matchLabels: {enable_shop: "true"}
                matchExpressions:
                  - {key: tier, operator: NotIn, values: [two]}
          - git:
              repoURL: '{{ .metadata.annotations.addons_repo_url }}'
              revision: main
              files: [{path: 'addons/shop/parts/{{ .name }}/config.yaml'}]
  template:
    metadata: {name: '{{ .name }}-shop'}
    spec:
      project: default
      destination: {server: '{{ .server }}', namespace: shop}
      source: {repoURL: https://charts.example.com, chart: shop, targetRevision: 1.0.0}
-- addons/list/applicationset.yaml --
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: list}
spec:
  generators:
    - list: {elements: [{c: dev}]}
  template:
    metadata: {name: '{{c}}-list'}
    spec:
      project: default
      destination: {name: '{{c}}', namespace: shop}
      source: {repoURL: https://charts.example.com, chart: shop, targetRevision: 1.0.0}
`
	dir, fsys := build(t, txtar.Parse([]byte(files)))
	m, err := Read(fsys, dir, "homelab")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		addon, cluster string
		want           []string
	}{
		{"shop", "prod", []string{
			"addons/shop/applicationset.yaml:11 ApplicationSet shop selects clusters with enable_shop in (true)",
			"clusters/prod/cluster.yaml:8 prod has enable_shop=false",
			"addons/shop/applicationset.yaml:13 ApplicationSet shop selects clusters with tier notin (two)",
			"clusters/prod/cluster.yaml:9 prod has tier=two",
			"addons/shop/applicationset.yaml:19 there is one for: dev",
		}},
		{"prod-shop", "prod", nil}, // not even with all addons
		{"dev-shop", "dev", []string{
			"addons/shop/applicationset.yaml:11 ApplicationSet shop selects clusters with enable_shop in (true)",
			"clusters/dev/cluster.yaml:4 dev has enable_shop=true",
			"addons/shop/applicationset.yaml:13 ApplicationSet shop selects clusters with tier notin (two)",
			"clusters/dev/cluster.yaml:4 dev has tier=one",
		}},
		{"list", "prod", []string{
			"addons/list/applicationset.yaml:6 the generators of ApplicationSet list yield nothing for prod",
			"addons/list/applicationset.yaml:8 there is one for: dev",
		}},
		{"none", "prod", nil},
	} {
		var got []string
		for _, r := range m.Why(tc.addon, tc.cluster) {
			got = append(got, fmt.Sprintf("%s:%d %s", r.File, r.Line, r.Text))
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s on %s: %s", tc.addon, tc.cluster, d)
		}
	}
}
