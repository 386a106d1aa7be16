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

// Applications may have any name, and a cluster any number of Applications of one addon.
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
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var more []string
	for _, a := range e.Possible {
		if !slices.ContainsFunc(e.Applications, func(g lab.Generated) bool { return g.Name == a.Name }) {
			more = append(more, a.Name)
		}
	}
	slices.Sort(more)
	if want := []string{"hub-podinfo", "prod-podinfo", "shop-cart.hub", "shop-cart.prod", "shop-till.hub", "shop-till.prod"}; !slices.Equal(more, want) {
		t.Errorf("other possible: %v, want %v", more, want)
	}
	a, _ := e.Addon("podinfo")
	if v, at := a.Version("dev"); v != "6.9.2" || at.Line == 0 || at == a.Position("version") {
		t.Errorf("dev pins %s at %s", v, at)
	}
	if v, at := a.Version("prod"); v != "6.7.0" || at != a.Position("version") {
		t.Errorf("prod has %s at %s, want the base version", v, at)
	}
}

// Sets that only the running engine can expand are noted.
func TestUnknownSets(t *testing.T) {
	dir, fsys := build(t, txtar.Parse(fmt.Appendf(nil, selectionEstate, `[pullRequest: {github: {owner: a, repo: b}}]`)))
	e, err := Load(fsys, dir, "homelab")
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Notes) != 1 || e.Notes[0].String() != "addons/x/applicationset.yaml:5:29: only the running engine knows what a pullRequest generator generates: lab does not wait for it" {
		t.Errorf("%v", e.Notes)
	}
	if len(e.UnknownSets) != 1 || e.UnknownSets[0].Problem().String() != "addons/x/applicationset.yaml:5:29: ApplicationSet x: only the running engine knows what a pullRequest generator generates" {
		t.Errorf("%v", e.UnknownSets)
	}
	if slices.ContainsFunc(e.Applications, func(g lab.Generated) bool { return g.Addon == "x" }) {
		t.Errorf("guessed: %+v", e.Applications)
	}
}

// A probable typo is a note, not a problem.
func TestNearMiss(t *testing.T) {
	dir, fsys := build(t, txtar.Parse([]byte("-- clusters/dev/addons/podinof/values.yaml --\na: 1\n-- environments/dev/addons/other/values.yaml --\na: 1\n")))
	e, err := Load(fsys, dir, "homelab")
	if err != nil {
		t.Fatal(errors.Unwrap(err))
	}
	if want := `clusters/dev/addons/podinof/values.yaml: values for unknown addon podinof: did you mean "podinfo"?`; len(e.Notes) != 1 || e.Notes[0].String() != want {
		t.Errorf("notes %v, want %s", e.Notes, want)
	}
}

// A user's labels override lab's, and a label read only by a template can be enabled like an addon.
func TestKeyPrecedence(t *testing.T) {
	const files = `
-- clusters/dev/cluster.yaml --
apiVersion: lab/v1alpha1
kind: Cluster
metadata: {name: dev}
spec: {role: spoke, environment: dev, addons: {podinfo: true, extras: true}, labels: {region: local, environment: prod}}
-- addons/podinfo/applicationset.yaml --
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: podinfo}
spec:
  generators: [{clusters: {selector: {matchLabels: {environment: prod, enable_podinfo: "true"}}}}]
  template:
    metadata: {name: '{{name}}-{{metadata.labels.region}}-{{metadata.labels.enable_extras}}'}
    spec: {project: default, destination: {name: '{{name}}'}}
`
	dir, fsys := build(t, txtar.Parse([]byte(files)))
	e, err := Load(fsys, dir, "homelab")
	if err != nil {
		t.Fatal(errors.Unwrap(err))
	}
	if len(e.Applications) != 1 || e.Applications[0].Name != "dev-local-true" {
		t.Errorf("%+v", e.Applications)
	}
}

// The root reaches nested Applications, and sets of any name at any depth; unreachable sets are noted.
func TestFollow(t *testing.T) {
	const files = `
-- clusters/hub/cluster.yaml --
apiVersion: lab/v1alpha1
kind: Cluster
metadata: {name: hub}
spec: {role: hub, addons: {metrics: true}}
-- clusters/dev/cluster.yaml --
apiVersion: lab/v1alpha1
kind: Cluster
metadata: {name: dev}
spec: {role: spoke, environment: dev, addons: {till: true, cert-manager: true}}
-- addons/root.yaml --
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: root, namespace: argocd}
spec:
  project: default
  source: {repoURL: https://git.example.com/estate.git, targetRevision: main, path: bootstrap, directory: {recurse: true, exclude: "{exclude/*,*.txt.yaml}"}}
  destination: {server: https://kubernetes.default.svc, namespace: argocd}
-- addons/podinfo/applicationset.yaml --
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: podinfo}
spec:
  generators: []
  template: {metadata: {name: x}, spec: {project: default, destination: {name: hub}}}
-- bootstrap/deep/down/apps.yaml --
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: metrics}
spec:
  project: default
  source: {repoURL: https://charts.example.com, chart: metrics, targetRevision: 1.0.0}
  destination: {name: dev, namespace: metrics}
  syncPolicy: {automated: {}}
---
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: parts}
spec:
  goTemplate: true
  generators:
    - git:
        repoURL: http://lab-homelab-forge:3000/lab/estate.git
        revision: HEAD
        directories: [{path: parts/*}]
  template:
    metadata: {name: 'part-{{ .path.basename }}'}
    spec:
      project: default
      source: {repoURL: http://lab-homelab-forge:3000/lab/estate.git, targetRevision: HEAD, path: '{{ .path.path }}'}
      destination: {server: https://kubernetes.default.svc, namespace: argocd}
      syncPolicy: {automated: {}}
-- bootstrap/exclude/set.yaml --
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: excluded}
spec: {}
-- parts/one/sets.yml --
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: addons-till}
spec:
  generators: [{clusters: {selector: {matchLabels: {enable_till: "true"}}}}]
  template: {metadata: {name: 'till-{{name}}'}, spec: {project: default, destination: {name: '{{name}}'}, syncPolicy: {automated: {}}}}
---
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: addons-cert-manager}
spec:
  generators: [{clusters: {selector: {matchExpressions: [{key: enable_cert_manager, operator: In, values: ["true"]}]}}}]
  template: {metadata: {name: 'certs-{{name}}'}, spec: {project: default, destination: {name: '{{name}}'}, syncPolicy: {automated: {}}}}
-- parts/two/set.yaml --
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: metrics-everywhere}
spec:
  generators: [{clusters: {selector: {matchLabels: {enable_metrics: "true"}}}}]
  template: {metadata: {name: 'metrics-{{name}}'}, spec: {project: default, destination: {name: '{{name}}'}, syncPolicy: {automated: {}}}}
`
	dir, fsys := build(t, txtar.Parse([]byte(files)))
	e, err := Load(fsys, dir, "homelab")
	if err != nil {
		t.Fatal(errors.Unwrap(err))
	}
	var got []string
	for _, a := range e.Applications {
		got = append(got, a.Addon+": "+a.Name+" on "+a.Cluster)
	}
	slices.Sort(got)
	want := []string{"cert-manager: certs-dev on dev", "metrics: metrics on dev", "metrics: metrics-hub on hub", "parts: part-one on hub", "parts: part-two on hub", "till: till-dev on dev"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(e.Notes) != 1 || e.Notes[0].String() != "addons/podinfo/applicationset.yaml:1:1: no Application of addons/root.yaml syncs this ApplicationSet" {
		t.Errorf("notes %v", e.Notes)
	}
}
