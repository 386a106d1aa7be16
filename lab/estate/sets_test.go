package estate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"homelab/lab"
)

// What the estate asks for is what its ApplicationSets make, however they name it and however many a cluster gets of one addon.
func TestGenerated(t *testing.T) {
	const files = `
-- clusters/dev/cluster.yaml --
apiVersion: lab/v1alpha1
kind: Cluster
metadata: {name: dev}
spec: {role: spoke, environment: dev, addons: {podinfo: true, shop: true}}
-- clusters/prod/cluster.yaml --
apiVersion: lab/v1alpha1
kind: Cluster
metadata: {name: prod}
spec: {role: spoke, environment: prod, addons: {shop: false}}
-- environments/prod/environment.yaml --
apiVersion: lab/v1alpha1
kind: Environment
metadata: {name: prod}
spec: {order: 2}
-- addons/shop/parts/cart/config.yaml --
chart: {name: cart, version: 1.2.0}
-- addons/shop/parts/till/config.yaml --
chart: {name: till, version: 3.0.0}
-- addons/shop/applicationset.yaml --
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: shop}
spec:
  goTemplate: true
  generators:
    - matrix:
        generators:
          - clusters: {selector: {matchLabels: {enable_shop: "true"}}}
          - git:
              repoURL: '{{ .metadata.annotations.addons_repo_url }}'
              revision: '{{ .metadata.annotations.addons_repo_revision }}'
              files: [{path: addons/shop/parts/*/config.yaml}]
  template:
    metadata: {name: 'shop-{{ .path.basename }}.{{ .name }}'}
    spec:
      project: default
      destination: {server: '{{ .server }}', namespace: 'shop-{{ .path.basename }}'}
      source: {repoURL: https://charts.example.com, chart: '{{ .chart.name }}', targetRevision: '{{ .chart.version }}'}
`
	dir, fsys := build(t, txtar.Parse([]byte(files)))
	e, err := Load(fsys, dir, "homelab")
	if err != nil {
		t.Fatal(errors.Unwrap(err))
	}
	var got []string
	for _, a := range e.Applications {
		line := fmt.Sprintf("%s: %s on %s in %s", a.Name, a.Addon, a.Cluster, a.Namespace)
		for _, c := range a.Charts {
			line += fmt.Sprintf(", %s %s from %q", c.Name, c.Version, c.Repository)
		}
		got = append(got, line)
	}
	want := []string{
		`dev-podinfo: podinfo on dev in podinfo, podinfo 6.9.2 from ""`,
		`shop-cart.dev: shop on dev in shop-cart, cart 1.2.0 from "https://charts.example.com"`,
		`shop-till.dev: shop on dev in shop-till, till 3.0.0 from "https://charts.example.com"`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("asked for:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var more []string
	for _, a := range e.Possible {
		if !slices.ContainsFunc(e.Applications, func(g lab.Generated) bool { return g.Name == a.Name }) {
			more = append(more, a.Name)
		}
	}
	slices.Sort(more)
	if want := []string{"hub-podinfo", "prod-podinfo", "shop-cart.hub", "shop-cart.prod", "shop-till.hub", "shop-till.prod"}; !slices.Equal(more, want) {
		t.Errorf("possible beside them: %v, want %v", more, want)
	}
	a, _ := e.Addon("podinfo")
	if v, at := a.Version("dev"); v != "6.9.2" || at.Line == 0 || at == a.Position("version") {
		t.Errorf("dev pins %s at %s", v, at)
	}
	if v, at := a.Version("prod"); v != "6.7.0" || at != a.Position("version") {
		t.Errorf("prod has %s at %s, want the base version", v, at)
	}
}

// What only the running engine knows is told, and not guessed.
func TestUnknownSets(t *testing.T) {
	dir, fsys := build(t, txtar.Parse(fmt.Appendf(nil, selectionEstate, `[pullRequest: {github: {owner: a, repo: b}}]`)))
	e, err := Load(fsys, dir, "homelab")
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Unknown) != 1 || e.Unknown[0].String() != "addons/x/applicationset.yaml:5:29: what a pullRequest generator makes is known to the running engine alone" {
		t.Errorf("%v", e.Unknown)
	}
	if slices.ContainsFunc(e.Applications, func(g lab.Generated) bool { return g.Addon == "x" }) {
		t.Errorf("guessed: %+v", e.Applications)
	}
}
