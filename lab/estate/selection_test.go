package estate

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/tools/txtar"
)

// selectionEstate overlays the base: prod wants addon x, dev and the hub do not.
const selectionEstate = `
-- clusters/hub/cluster.yaml --
apiVersion: lab/v1alpha1
kind: Cluster
metadata: {name: hub}
spec: {role: hub}
-- clusters/prod/cluster.yaml --
apiVersion: lab/v1alpha1
kind: Cluster
metadata: {name: prod}
spec: {role: spoke, environment: prod, addons: {x: true}}
-- clusters/dev/cluster.yaml --
apiVersion: lab/v1alpha1
kind: Cluster
metadata: {name: dev}
spec: {role: spoke, environment: dev, addons: {x: false}, labels: {team: blue}}
-- environments/prod/environment.yaml --
apiVersion: lab/v1alpha1
kind: Environment
metadata: {name: prod}
spec: {order: 2}
-- addons/x/applicationset.yaml --
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: x}
spec:
  generators: %s
  template: {metadata: {name: '{{name}}-x'}, spec: {project: default, destination: {name: '{{name}}'}, source: {repoURL: 'https://git.example.com/x.git', path: x}}}
`

// Clusters have an addon if its ApplicationSets select them by any criteria or, if that is unknown, by its label.
func TestSelected(t *testing.T) {
	const enabled = `clusters: {selector: {matchLabels: {enable_x: "true"}}}`
	for _, tc := range []struct {
		name, generators string
		want             []string // for prod, with label "true", dev, with "false", and hub, without
	}{
		{"label", "[" + enabled + "]", []string{"prod"}},
		{"label and secret type", `[clusters: {selector: {matchLabels: {argocd.argoproj.io/secret-type: cluster, enable_x: "true"}}}]`, []string{"prod"}},
		{"label and environment", `[clusters: {selector: {matchLabels: {enable_x: "true", environment: dev}}}]`, nil},
		{"except an environment", `[clusters: {selector: {matchExpressions: [{key: enable_x, operator: In, values: ["true"]}, {key: environment, operator: NotIn, values: [prod]}]}}]`, nil},
		{"any environment", `[clusters: {selector: {matchExpressions: [{key: environment, operator: Exists}]}}]`, []string{"dev", "prod"}},
		{"all", `[clusters: {}]`, []string{"dev", "hub", "prod"}},
		{"either of two generators", `[clusters: {selector: {matchLabels: {team: blue}}}, ` + enabled + `]`, []string{"dev", "prod"}},
		{"merged: the first generates", `[merge: {mergeKeys: [server], generators: [{` + enabled + `}, {clusters: {selector: {matchLabels: {environment: dev}}}}]}]`, []string{"prod"}},
		{
			"matrix with a file", `[matrix: {generators: [{clusters: {selector: {matchLabels: {enable_x: "true"}}}}, {git: {repoURL: 'http://lab-homelab-forge:3000/lab/estate.git', revision: main, files: [{path: addons/root.yaml}]}}]}]`,
			[]string{"prod"},
		},
		{"selector of the generator", `[{clusters: {selector: {matchExpressions: [{key: enable_x, operator: Exists}]}}, selector: {matchLabels: {name: dev}}}]`, []string{"dev"}},
		{"Argo CD's label: enable label decides", `[clusters: {selector: {matchLabels: {argocd.argoproj.io/kubernetes-version: "1.36"}}}]`, []string{"prod"}},
		{
			"parameter of another generator", `[matrix: {generators: [{list: {elements: [{env: dev}]}}, {clusters: {selector: {matchLabels: {environment: '{{env}}'}, matchExpressions: [{key: enable_x, operator: Exists}]}}}]}]`,
			[]string{"dev"},
		},
		{"pull requests: enable label decides", `[pullRequest: {github: {owner: a, repo: b}}]`, []string{"prod"}},
		{"another repository: enable label decides", `[git: {repoURL: https://git.example.com/other.git, revision: main, directories: [{path: "*"}]}]`, []string{"prod"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, fsys := build(t, txtar.Parse(fmt.Appendf(nil, selectionEstate, tc.generators)))
			e, err := Load(fsys, dir, "homelab")
			if err != nil {
				t.Fatal(errors.Unwrap(err))
			}
			var have []string
			for _, c := range e.Clusters {
				if c.Has("x") {
					have = append(have, c.Name)
				}
			}
			slices.Sort(have)
			if !slices.Equal(have, tc.want) {
				t.Errorf("%v, want %v", have, tc.want)
			}
		})
	}
}
