package appset_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"homelab/lab/appset"
	"homelab/lab/argo"
	"homelab/lab/strict"
)

func TestIgnored(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want map[argo.Minor][]string // "LINE: MESSAGE", of the last minor that ignores; those before ignore it, too
	}{
		"application": {`kind: Application
spec:
  source:
    repoURL: u
    tagPrefix: a/
    directory: {disableExtensionFilter: true}
`, map[argo.Minor][]string{
			5: {"6: Argo CD 3.5 ignores spec.source.directory.disableExtensionFilter"},
			4: {"6: Argo CD 3.4 ignores spec.source.directory.disableExtensionFilter", "5: Argo CD 3.4 ignores spec.source.tagPrefix"},
			6: nil,
		}},
		"hydrated": {`kind: Application
spec:
  sourceHydrator:
    drySource: {repoURL: u, helm: {releaseName: a}, plugin: null}
    syncSource:
      repoURL: v
`, map[argo.Minor][]string{
			2: {"4: Argo CD 3.2 ignores spec.sourceHydrator.drySource.helm", "6: Argo CD 3.2 ignores spec.sourceHydrator.syncSource.repoURL"},
			4: {"6: Argo CD 3.4 ignores spec.sourceHydrator.syncSource.repoURL"},
			5: nil,
		}},
		"generators": {`kind: ApplicationSet
spec:
  generators:
  - oci: {repoURL: u}
  - matrix:
      generators:
      - matrix:
          generators:
          - oci: {repoURL: v}
      - scmProvider:
          github: {organization: o, excludeArchivedRepos: true}
  template:
    spec:
      sources:
      - {repoURL: u}
      - repoURL: u
        tagPrefix: a/
`, map[argo.Minor][]string{
			6: nil,
			5: {"4: Argo CD 3.5 ignores spec.generators[0].oci", "9: Argo CD 3.5 ignores spec.generators[1].matrix.generators[0].matrix.generators[0].oci"},
			4: {
				"4: Argo CD 3.4 ignores spec.generators[0].oci", "9: Argo CD 3.4 ignores spec.generators[1].matrix.generators[0].matrix.generators[0].oci",
				"11: Argo CD 3.4 ignores spec.generators[1].matrix.generators[1].scmProvider.github.excludeArchivedRepos",
				"17: Argo CD 3.4 ignores spec.template.spec.sources[1].tagPrefix",
			},
		}},
		"project": {`kind: AppProject
spec:
  clusterResourceWhitelist:
  - {group: '', kind: Namespace, name: team-*}
  sourceIntegrity: {git: {policies: []}}
  syncWindows:
  - {kind: deny, syncOverrun: true}
`, map[argo.Minor][]string{
			2: {
				"4: Argo CD 3.2 ignores spec.clusterResourceWhitelist[0].name", "5: Argo CD 3.2 ignores spec.sourceIntegrity",
				"7: Argo CD 3.2 ignores spec.syncWindows[0].syncOverrun",
			},
			3: {"5: Argo CD 3.3 ignores spec.sourceIntegrity", "7: Argo CD 3.3 ignores spec.syncWindows[0].syncOverrun"},
			5: nil,
		}},
		"others": {"kind: ConfigMap\nspec: {source: {tagPrefix: a}}\n", map[argo.Minor][]string{2: nil}},
	} {
		docs, problems := strict.Parse("x.yaml", []byte(c.text))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		for m, want := range c.want {
			var got []string
			for _, p := range (appset.API{Minor: m}).Ignored("x.yaml", docs[0]) {
				got = append(got, fmt.Sprintf("%d: %s", p.Line, p.Message))
				if !strings.HasPrefix(p.Cure, "it came with 3.") || len(p.Message) > 110 {
					t.Errorf("%s: %+v", name, p)
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s, %s:\n%s\nwant\n%s", name, m, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		if got := (appset.API{Minor: argo.Newest}).Ignored("x.yaml", docs[0]); len(got) > 0 {
			t.Errorf("%s: the newest ignores %v", name, got)
		}
	}
}

func TestUnused(t *testing.T) {
	docs, _ := strict.Parse("x.yaml", []byte(`kind: ApplicationSet
spec:
  goTemplates: true
  generators:
  - matrix:
      generators:
      - clusters: {label: {a: b}}
      - git: {repoURL: u, revision: r, directories: [{path: a}], files: [{path: b}]}
  - list: {elements: [{any: thing}], elementYaml: "[]"}
  template:
    metadata: {name: x, annotations: {a: b}}
    spec: {}
    templatePatch: "{}"
`))
	var got []string
	for _, p := range (appset.API{}).Ignored("x.yaml", docs[0]) {
		got = append(got, p.String())
	}
	want := []string{
		"x.yaml:3:3: Argo CD has no spec.goTemplates, and drops it: did you mean goTemplate?",
		"x.yaml:13:5: Argo CD has no spec.template.templatePatch, and drops it: did you mean spec.templatePatch?",
		"x.yaml:7:20: Argo CD has no spec.generators[0].matrix.generators[0].clusters.label, and drops it: correct it, or remove it",
		"x.yaml:8:73: Argo CD ignores spec.generators[0].matrix.generators[1].git.files, as there are directories: use two git generators",
		"x.yaml:9:38: Argo CD has no spec.generators[1].list.elementYaml, and drops it: did you mean elementsYaml?",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := (appset.API{}).Dropped(docs[0]); got != "spec.goTemplates" {
		t.Errorf("dropped %q", got)
	}
}

func TestDroppedByMinor(t *testing.T) {
	docs, _ := strict.Parse("x.yaml", []byte("kind: Application\nspec: {destination: {}, project: p, source: {repoURL: u, tagPrefix: a/, unknown: x}}\n"))
	for m, want := range map[argo.Minor]string{6: "spec.source.unknown", 5: "spec.source.unknown", 4: "spec.source.tagPrefix"} {
		if got := (appset.API{Minor: m}).Dropped(docs[0]); got != want {
			t.Errorf("%s: %q, want %q", m, got, want)
		}
	}
	for m, want := range map[argo.Minor]string{6: "a/", 4: ""} {
		app, problems := appset.API{Minor: m}.ParseApplication("x.yaml", docs[0])
		if len(problems) > 0 || app.Spec.Source.TagPrefix != want {
			t.Errorf("%s: %v %+v", m, problems, app)
		}
	}
}

// flat is a set with a flat list of the clusters of fleet.
func flat(name, annotation string) string {
	return `apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: flat}
spec:
  goTemplate: true
  generators:
  - clusters: {flatList: true, selector: {matchLabels: {cloud: aws}}}
  template:
    metadata: {name: '` + name + `', annotations: {v: '` + annotation + `'}}
    spec: {project: default, destination: {server: https://kubernetes.default.svc}, source: {repoURL: u}}
`
}

func TestOrderOfFlatLists(t *testing.T) {
	for _, c := range []struct {
		name, set string
		clusters  int
		minor     argo.Minor
		notes     int
		unknown   bool
	}{
		{"count", flat("fleet", "{{len .clusters}}"), 3, 6, 0, false},
		{"sorted", flat("fleet", `{{$n := list}}{{range .clusters}}{{$n = append $n .name}}{{end}}{{sortAlpha $n | join ","}}`), 3, 6, 0, false},
		{"all", flat("fleet", "{{range .clusters}}{{.name}},{{end}}"), 3, 6, 1, false},
		{"first", flat("fleet", "{{(index .clusters 0).name}}"), 3, 4, 1, false},
		{"middle", flat("fleet", "{{(index .clusters 1).name}}"), 3, 6, 1, false},
		{"name", flat("{{(index .clusters 0).name}}", ""), 3, 5, 0, true},
		{"one", flat("{{(index .clusters 0).name}}", ""), 1, 6, 0, false},
		{"before", flat("{{(index .clusters 0).name}}", "{{range .clusters}}{{.name}},{{end}}"), 3, 3, 0, false},
	} {
		w := fleet(c.clusters)
		w.Minor = c.minor
		x, err := parse(t, c.set).Expand(w)
		var unknown *appset.UnknownError
		if errors.As(err, &unknown) != c.unknown || err != nil && unknown == nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if unknown != nil {
			if unknown.Line != 7 || !strings.Contains(unknown.Error(), "random since Argo CD 3.4") {
				t.Errorf("%s: %v", c.name, unknown)
			}
			continue
		}
		if len(x.Applications) != 1 || len(x.Notes) != c.notes {
			t.Errorf("%s: %d applications, notes %v", c.name, len(x.Applications), x.Notes)
		}
		for _, n := range x.Notes {
			if n.Line != 7 || n.Cure == "" {
				t.Errorf("%s: %+v", c.name, n)
			}
		}
	}
}

// What tpl is given is not seen before it is rendered, so its limits are those of the set's own templates.
func TestTplIsBounded(t *testing.T) {
	for name, text := range map[string]string{
		"endless":      `{{tpl "{{range until 1000000}}{{tpl (printf "{{range until 1000000}}x{{end}}") .}}{{end}}" .}}`,
		"huge":         "{{tpl (repeat 2000000 \"xxxxxxxxxx\") .}}",
		"many":         "{{range until 100000}}{{tpl \"{{range until 1000}}{{sha256sum \\\"x\\\"}}{{end}}\" $}}{{end}}",
		"nested texts": "{{tpl (repeat 100000 \"{{(\") .}}",
	} {
		set := strings.Replace(flat("fleet", "TEXT"), "'TEXT'", fmt.Sprintf("%q", text), 1)
		if x, err := parse(t, set).Expand(fleet(1)); err == nil {
			t.Errorf("%s: %d applications", name, len(x.Applications))
		}
	}
	var unknown *appset.UnknownError
	if _, err := parse(t, flat("fleet", "{{tpl \"{{now}}\" .}}")).Expand(fleet(1)); !errors.As(err, &unknown) || unknown.What != "template function now" {
		t.Errorf("what only the engine knows: %v", err)
	}
}

// One set is expanded for one minor after another, as by a plan of an upgrade.
func TestOneSetForSeveralMinors(t *testing.T) {
	set := parse(t, `apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: several}
spec:
  goTemplate: true
  generators:
  - oci: {repoURL: oci://registry.example.com/a, revision: 1.0.0}
  - list: {elements: [{name: one}]}
  template:
    metadata: {name: '{{.name}}'}
    spec: {project: default, destination: {server: https://kubernetes.default.svc}, source: {repoURL: u, tagPrefix: a/}}
`)
	for _, m := range []argo.Minor{4, 6, 5, 2, 0, 3} {
		w := fleet(0)
		w.Minor = m
		x, err := set.Expand(w)
		if m.Has(6) {
			if !errors.As(err, new(*appset.UnknownError)) {
				t.Errorf("%s: %v", m, err)
			}
			continue
		}
		if err != nil || len(x.Applications) != 1 {
			t.Fatalf("%s: %v %+v", m, err, x)
		}
		if got := x.Applications[0].Spec.Source.TagPrefix; (got == "a/") != m.Has(5) {
			t.Errorf("%s: tagPrefix %q", m, got)
		}
	}
}
