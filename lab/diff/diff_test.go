package diff

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"homelab/lab"
	"homelab/lab/desired"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// app returns an application whose name is CLUSTER-ADDON, with the objects of a text.
func app(t *testing.T, cluster, addon, text string) desired.App {
	t.Helper()
	nodes, problems := strict.Parse("file.yaml", []byte(text))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	a := failing(cluster, addon, nil)
	a.Parts[0].Render = func() (docs []render.Document, err error) {
		for _, n := range nodes {
			docs = append(docs, render.Document{Node: n, File: "file.yaml"})
		}
		return docs, nil
	}
	return a
}

func failing(cluster, addon string, err error) desired.App {
	return desired.App{
		Application: lab.Application{Name: cluster + "-" + addon, Addon: addon, Cluster: cluster}, Last: true, At: lab.Position{File: "set.yaml", Line: 1},
		Parts: []desired.Part{{Cluster: cluster, Namespace: addon, Render: func() ([]render.Document, error) { return nil, err }}},
	}
}

// summary returns a result as lines.
func summary(res Result) string {
	var lines []string
	for _, m := range res.Unknown {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("unknown %s in %d: %s | %s", m.App.Name, len(m.Apps), m.Before.Message, m.After.Message)))
	}
	for _, g := range res.Changes {
		line := fmt.Sprintf("%s %s", g.Kind, g.Object)
		if g.From != "" {
			line += " from " + g.From
		}
		line += " of " + g.App.Name
		if len(g.Apps) > 1 {
			line += fmt.Sprintf(" in %d", len(g.Apps))
		}
		if g.Named {
			line += " but for names"
		}
		for _, b := range g.Bumps {
			line += fmt.Sprintf(", %s %s %s -> %s", b.What, b.Name, b.From, b.To)
		}
		for _, p := range g.Random {
			line += ", random " + p.String()
		}
		lines = append(lines, line)
		if text := listed(g.Fields); text != "" {
			lines = append(lines, "  "+strings.ReplaceAll(text, "\n", "\n  "))
		}
	}
	return strings.Join(lines, "\n")
}

func wants(t *testing.T, res Result, want string) {
	t.Helper()
	if got, want := summary(res), strings.TrimSpace(want); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

const (
	config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {%s}\n"
	secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: %s}\ndata: {%s}\n"
)

func TestCompare(t *testing.T) {
	cm := func(name, data string) string { return fmt.Sprintf(config, name, data) }
	for _, tc := range []struct{ name, before, after, want string }{
		{"the same in another style", cm("a", "k: v"), "kind: ConfigMap\napiVersion: v1\nmetadata:\n  name: \"a\"\ndata:\n  k: 'v'\n", ""},
		{"changed", cm("a", "k: v"), cm("a", "k: w"), "changed ConfigMap web/a of dev-web\n  data.k changed \"v\" -> \"w\""},
		{"added and removed", cm("a", "k: v"), cm("b", "k: w"), "removed ConfigMap web/a of dev-web\nadded ConfigMap web/b of dev-web"},
		{"renamed", cm("a", "k: v"), cm("b", "k: v"), "renamed ConfigMap web/b from web/a of dev-web"},
		{"renamed with its label", "apiVersion: v1\nkind: Service\nmetadata: {name: a, labels: {app: a}}", "apiVersion: v1\nkind: Service\nmetadata: {name: b, labels: {app: b}}", "renamed Service web/b from web/a of dev-web"},
		{"two candidates", cm("a", "k: v"), cm("b", "k: v") + "---\n" + cm("c", "k: v"), "removed ConfigMap web/a of dev-web\nadded ConfigMap web/b of dev-web\nadded ConfigMap web/c of dev-web"},
		{"generated", cm("a-kmh9mkc74t", "k: v"), cm("a-9mkc74tkmh", "k: w"), "renamed ConfigMap web/a-9mkc74tkmh from web/a-kmh9mkc74t of dev-web\n  data.k changed \"v\" -> \"w\""},
		{"another namespace", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: x}", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: z}", "renamed ConfigMap z/a from x/a of dev-web"},
		{"another version of the API", "apiVersion: example.com/v1\nkind: A\nmetadata: {name: a}", "apiVersion: example.com/v2\nkind: A\nmetadata: {name: a}", "changed A web/a of dev-web\n  apiVersion changed \"example.com/v1\" -> \"example.com/v2\""},
		{"another group", "apiVersion: example.com/v1\nkind: A\nmetadata: {name: a}", "apiVersion: example.org/v1\nkind: A\nmetadata: {name: a}", "removed A web/a of dev-web\nadded A web/a of dev-web"},
		{"secret", fmt.Sprintf(secret, "a", "k: cGFzcw==, l: eA=="), fmt.Sprintf(secret, "a", "k: d29yZA==, m: eA=="), "changed Secret web/a of dev-web\n  data.k changed \"***\" -> \"***\"\n  data.l removed \"***\" -> null\n  data.m added null -> \"***\""},
		{"data of a secret", "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n", fmt.Sprintf(secret, "a", "k: cGFzcw=="), "changed Secret web/a of dev-web\n  data added null -> {\"k\":\"***\"}"},
		{"generated names", "apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}", "apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\nspec: {nodeName: x}", "changed Pod web/a-* of dev-web\n  spec added null -> {\"nodeName\":\"x\"}"},
		{"image", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: host:5000/a:1.9}]}", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: host:5000/a:1.10}]}", "changed Pod web/a of dev-web, image host:5000/a 1.9 -> 1.10\n  spec.containers[name=a].image changed \"host:5000/a:1.9\" -> \"host:5000/a:1.10\""},
		{"older image", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: a:1.10}]}", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: a:1.9}]}", "changed Pod web/a of dev-web\n  spec.containers[name=a].image changed \"a:1.10\" -> \"a:1.9\""},
		{"image and more", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {hostNetwork: false, containers: [{name: a, image: a:1.1}]}", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {hostNetwork: true, containers: [{name: a, image: a:1.2}]}", "changed Pod web/a of dev-web\n  spec.containers[name=a].image changed \"a:1.1\" -> \"a:1.2\"\n  spec.hostNetwork changed false -> true"},
		{"tag in values", "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: a}\nspec: {values: {image: {repository: x/a, tag: 1.0.0}}}", "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: a}\nspec: {values: {image: {repository: x/a, tag: 1.0.1}}}", "changed HelmRelease web/a of dev-web, image x/a 1.0.0 -> 1.0.1\n  spec.values.image.tag changed \"1.0.0\" -> \"1.0.1\""},
		{"selector", "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {selector: {app.kubernetes.io/version: 1.0.0}}", "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {selector: {app.kubernetes.io/version: 1.0.1}}", "changed Service web/a of dev-web\n  spec.selector[\"app.kubernetes.io/version\"] changed \"1.0.0\" -> \"1.0.1\""},
		{"yes and its text", "apiVersion: v1\nkind: X\nmetadata: {name: a}\nspec: {a: yes}", "apiVersion: v1\nkind: X\nmetadata: {name: a}\nspec: {a: 'yes'}", "changed X web/a of dev-web\n  spec.a changed true -> \"yes\""},
		{"labels", "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {helm.sh/chart: my-web-1.0.0, app.kubernetes.io/version: v1.0.0}}", "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {helm.sh/chart: my-web-1.0.1, app.kubernetes.io/version: v1.0.1}}", "changed Pod web/a of dev-web, version  v1.0.0 -> v1.0.1, chart my-web 1.0.0 -> 1.0.1\n  metadata.labels[\"app.kubernetes.io/version\"] changed \"v1.0.0\" -> \"v1.0.1\"\n  metadata.labels[\"helm.sh/chart\"] changed \"my-web-1.0.0\" -> \"my-web-1.0.1\""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wants(t, Compare([]desired.App{app(t, "dev", "web", tc.before)}, []desired.App{app(t, "dev", "web", tc.after)}, nil), tc.want)
		})
	}
}

func TestGroups(t *testing.T) {
	var before, after []desired.App
	for _, c := range []string{"c1", "c2", "c3"} {
		before = append(before, app(t, c, "web", fmt.Sprintf(config, c+"-web", "k: v, host: "+c+".example.com")), app(t, c, "api", fmt.Sprintf(config, "api", "k: /dev/null")))
		after = append(after, app(t, c, "web", fmt.Sprintf(config, c+"-web", "k: w, host: www."+c+".example.com")), app(t, c, "api", fmt.Sprintf(config, "api", "k: '"+c[1:]+"'")))
	}
	before, after = append(before, app(t, "dev", "api", fmt.Sprintf(config, "api", "k: /dev/null"))), append(after, app(t, "dev", "api", fmt.Sprintf(config, "api", "k: \"1\"")))
	wants(t, Compare(before, after, nil), `
changed ConfigMap api/api of c1-api in 2
  data.k changed "/dev/null" -> "1"
changed ConfigMap api/api of c2-api
  data.k changed "/dev/null" -> "2"
changed ConfigMap api/api of c3-api
  data.k changed "/dev/null" -> "3"
changed ConfigMap web/c1-web of c1-web in 3 but for names
  data.host changed "c1.example.com" -> "www.c1.example.com"
  data.k changed "v" -> "w"`)
}

// Objects that another application has are moved, and what cannot be rendered is said once.
func TestMovedAndUnknown(t *testing.T) {
	web, empty := fmt.Sprintf(config, "a", "k: v"), fmt.Sprintf(config, "b", "k: v")
	moved := strings.Replace(web, "name: a", "name: a, namespace: web", 1)
	wants(t, Compare(
		[]desired.App{app(t, "dev", "web", web+"---\n"+empty), app(t, "dev", "api", empty)},
		[]desired.App{app(t, "dev", "web", empty), app(t, "dev", "api", empty+"---\n"+moved)}, nil,
	), "moved ConfigMap web/a from dev-web of dev-api")

	broken := func(cluster, why string) desired.App {
		return failing(cluster, "web", &render.Error{Problem: lab.Problem{Position: lab.Position{File: "chart.yaml", Line: 3}, Message: why}})
	}
	wants(t, Compare([]desired.App{app(t, "c1", "web", web), app(t, "c2", "web", web)}, []desired.App{broken("c1", "no"), broken("c2", "no")}, nil), "unknown c1-web in 2:  | no")
	wants(t, Compare([]desired.App{broken("c1", "x")}, []desired.App{broken("c1", "no")}, nil), "unknown c1-web in 1: x | no")
	wants(t, Compare(nil, []desired.App{broken("c1", "no"), app(t, "c2", "web", web)}, nil), "unknown c1-web in 1:  | no\nadded ConfigMap web/a of c2-web")
	wants(t, Compare([]desired.App{failing("c1", "web", errors.New("x"))}, nil, nil), "unknown c1-web in 1: x |")
}

// What has the same inputs is not rendered.
func TestInputs(t *testing.T) {
	of := func(inputs string) desired.App {
		a := app(t, "dev", "web", fmt.Sprintf(config, "a", "k: "+inputs))
		a.Parts[0].Inputs = func() string { return inputs }
		if inputs == "same" {
			a.Parts[0].Render = func() ([]render.Document, error) { t.Error("rendered"); return nil, nil }
		}
		return a
	}
	wants(t, Compare([]desired.App{of("same")}, []desired.App{of("same")}, nil), "")
	wants(t, Compare([]desired.App{of("x")}, []desired.App{of("z")}, nil), "changed ConfigMap web/a of dev-web\n  data.k changed \"x\" -> \"z\"")
	wants(t, Compare([]desired.App{of("")}, []desired.App{of("")}, nil), "")
}

// A value that differs in each rendering is not a difference.
func TestRandom(t *testing.T) {
	n := 0
	of := func(data string) desired.App {
		a := app(t, "dev", "web", "a: b\n")
		a.Parts[0].Render = func() ([]render.Document, error) {
			n++
			nodes, _ := strict.Parse("file.yaml", fmt.Appendf(nil, config, "a", fmt.Sprintf("random: r%d, %s", n, data)))
			return []render.Document{{Node: nodes[0], File: "file.yaml"}}, nil
		}
		return a
	}
	wants(t, Compare([]desired.App{of("k: v")}, []desired.App{of("k: v")}, nil), "")
	wants(t, Compare([]desired.App{of("k: v")}, []desired.App{of("k: w")}, nil), "changed ConfigMap web/a of dev-web, random data.random\n  data.k changed \"v\" -> \"w\"")
}

// Names that differ at each rendering are distinguished from changed ones.
func TestRandomNames(t *testing.T) {
	n := 0
	of := func(data string) desired.App {
		a := app(t, "dev", "web", "a: b\n")
		a.Parts[0].Render = func() (docs []render.Document, err error) {
			for _, name := range []string{"x-test", "z-test"} {
				n++
				nodes, _ := strict.Parse("file.yaml", fmt.Appendf(nil, config, fmt.Sprintf("%s-%c%d", name, "aab"[n%3], n), data))
				docs = append(docs, render.Document{Node: nodes[0], File: "file.yaml"})
			}
			return docs, nil
		}
		return a
	}
	wants(t, Compare([]desired.App{of("k: v")}, []desired.App{of("k: v")}, nil), "")
	wants(t, Compare([]desired.App{of("k: v")}, []desired.App{of("k: w")}, nil), `
changed ConfigMap web/x-test-* of dev-web, random metadata.name
  data.k changed "v" -> "w"
changed ConfigMap web/z-test-* of dev-web, random metadata.name
  data.k changed "v" -> "w"`)
}

func TestManifests(t *testing.T) {
	of := func(version string) []desired.App {
		a := app(t, "dev", "web", fmt.Sprintf(config, "a", "k: v"))
		a.Manifest = parse(t, "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: dev-web, namespace: argocd}\nspec: {source: {chart: web, targetRevision: "+version+"}}")
		return []desired.App{a}
	}
	wants(t, Compare(of("1.0.0"), of("1.1.0"), nil), "changed Application argocd/dev-web of dev-web, chart web 1.0.0 -> 1.1.0\n  spec.source.targetRevision changed \"1.0.0\" -> \"1.1.0\"")
	root := app(t, "hub", "root", "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: dev-web, namespace: argocd}\nspec: {source: {chart: web, targetRevision: 1.0.0}}")
	next := app(t, "hub", "root", "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: dev-web, namespace: argocd}\nspec: {source: {chart: web, targetRevision: 1.1.0}}")
	wants(t, Compare(append(of("1.0.0"), root), append(of("1.1.0"), next), nil), "changed Application argocd/dev-web of hub-root, chart web 1.0.0 -> 1.1.0\n  spec.source.targetRevision changed \"1.0.0\" -> \"1.1.0\"")
}

// Clusters of two environments are compared but for their names.
func TestClusters(t *testing.T) {
	before := []desired.App{app(t, "dev", "web", fmt.Sprintf(config, "dev-web", "host: dev.example.com, none: /dev/null, env: a"))}
	after := []desired.App{app(t, "prod", "web", fmt.Sprintf(config, "prod-web", "host: prod.example.com, none: /dev/null, env: b"))}
	wants(t, Compare(before, after, map[string]string{"dev": "prod"}), "changed ConfigMap web/prod-web of prod-web\n  data.env changed \"a\" -> \"b\"")
}

func TestEnvironments(t *testing.T) {
	est := &lab.Estate{Clusters: []lab.Cluster{
		{Name: "hub"}, {Name: "dev-us", Environment: "dev"}, {Name: "dev-eu", Environment: "dev"}, {Name: "prod-eu", Environment: "prod"}, {Name: "other", Environment: "prod"},
	}}
	var apps []desired.App
	for _, c := range []string{"dev-us", "dev-eu", "other", "prod-eu"} {
		apps = append(apps, app(t, c, "web", fmt.Sprintf(config, "a", "host: "+c+".example.com, env: "+c[:4])))
	}
	apps = append(apps, app(t, "dev-us", "new", fmt.Sprintf(config, "a", "k: v")), app(t, "hub", "root", fmt.Sprintf(config, "a", "k: v")), app(t, "dev-us", "api", ""), app(t, "other", "api", ""))
	res, pairs := Environments(est, apps, "dev", "prod")
	wants(t, res, "changed ConfigMap web/a of prod-eu-web\n  data.env changed \"dev-\" -> \"prod\"")
	if got, want := fmt.Sprint(pairs), "[{api dev-us other [1 1]} {new dev-us  [1 0]} {web dev-eu prod-eu [2 2]}]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestLines(t *testing.T) {
	for _, tc := range []struct{ before, after, want string }{
		{"a: x", "a: z", ""},
		{"a: \"1\\n2\\n3\\n4\\n5\\n\"", "a: \"1\\n2\\n3\\n4\\nfive\\n\"", " 3| 4|-5|+five"},
		{"a: \"1\\n2\\n3\\n4\\n5\\n6\\n7\\n8\"", "a: \"one\\n2\\n3\\n4\\n5\\n6\\n7\\neight\"", "-1|+one| 2| 3|@@| 6| 7|-8|+eight"},
		{"a: [x, w]", "a: [x, 1, w]", " x|+1| w"},
		{"{}", "a: \"1\\n2\"", "+1|+2"},
		{"a: 5", "a: \"1\\n2\"", ""},
		{"a: [{b: c}, 1]", "a: [1]", ""},
		{"a: \"1\\n2\"", "a: x", "-1|-2|+x"},
	} {
		fields := Fields(parse(t, tc.before), parse(t, tc.after))
		if got := strings.Join(fields[0].Lines(), "|"); got != tc.want {
			t.Errorf("%s, %s: %q, want %q", tc.before, tc.after, got, tc.want)
		}
	}
}
