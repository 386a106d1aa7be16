//go:build e2e

package e2e

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab"
	"homelab/lab/ui"
)

// things are an addon of plain manifests, which both engines apply from the same folder.
const things = `apiVersion: v1
kind: Namespace
metadata: {name: things-more}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: plain, namespace: things}
data: {v: "1"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: pruned, namespace: things}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: exempt
  namespace: things
  annotations: {argocd.argoproj.io/sync-options: Prune=false, kustomize.toolkit.fluxcd.io/prune: disabled}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: idle, namespace: things}
spec:
  replicas: 0
  selector: {matchLabels: {app: idle}}
  template: {metadata: {labels: {app: idle}}, spec: {containers: [{name: idle, image: idle}]}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: before, namespace: things, annotations: {argocd.argoproj.io/hook: PreSync}}
data: {v: "1"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: moved, namespace: things}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: toys.things.example.com}
spec:
  group: things.example.com
  names: {kind: Toy, plural: toys}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

const thingsSet = `apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: things, namespace: argocd}
spec:
  goTemplate: true
  generators: [{clusters: {selector: {matchLabels: {enable_things: "true"}}}}]
  template:
    metadata: {name: '{{.name}}-things', labels: {addon: things, cluster: '{{.name}}'}}
    spec:
      project: default
      source: {repoURL: '{{.metadata.annotations.addons_repo_url}}', targetRevision: main, path: addons/things/flux}
      destination: {name: '{{.name}}', namespace: things}
      syncPolicy: {automated: {prune: true, selfHeal: true}, syncOptions: [CreateNamespace=true]}
`

// kindsOfThings are looked up in clusters.
var kindsOfThings = map[string]schema.GroupVersionResource{
	"Namespace": {Version: "v1", Resource: "namespaces"}, "ConfigMap": {Version: "v1", Resource: "configmaps"}, "ServiceAccount": {Version: "v1", Resource: "serviceaccounts"},
	"Deployment":               {Group: "apps", Version: "v1", Resource: "deployments"},
	"CustomResourceDefinition": {Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
}

// change is a change of the estate.
type change struct {
	name   string
	engine lab.EngineType // empty for both
	edit   func(l *testLab)
	fails  []lab.EngineType // with which the change does not converge
	either bool             // an object that moves may be deleted or not, as the order decides
}

const (
	thingsFile = "addons/things/flux/things.yaml"
	movedFile  = "addons/things-moved/flux/moved.yaml"
)

// cut removes the document with a line from the manifests.
func (l *testLab) cut(line string) {
	var kept []string
	for _, doc := range strings.Split(l.read(thingsFile), "---\n") {
		if !strings.Contains(doc, line) {
			kept = append(kept, doc)
		}
	}
	l.write(thingsFile, strings.Join(kept, "---\n"))
}

var changes = []change{
	{name: "values and a template of pods", edit: func(l *testLab) {
		l.edit(thingsFile, `v: "1"`, `v: "2"`)
		l.edit(thingsFile, "image: idle", "image: idler")
	}},
	{name: "pruned", edit: func(l *testLab) { l.cut("name: pruned") }},
	{name: "exempt", fails: []lab.EngineType{lab.EngineArgoCD}, edit: func(l *testLab) { l.cut("name: exempt") }},
	{name: "immutable field", fails: []lab.EngineType{lab.EngineArgoCD, lab.EngineFlux}, edit: func(l *testLab) {
		l.write(thingsFile, strings.ReplaceAll(l.read(thingsFile), "app: idle", "app: other"))
	}},
	{name: "immutable field, forced", edit: func(l *testLab) {
		l.edit(thingsFile, "{name: idle, namespace: things}", "{name: idle, namespace: things, annotations: {argocd.argoproj.io/sync-options: Force=true, kustomize.toolkit.fluxcd.io/force: enabled}}")
		l.write(thingsFile, strings.ReplaceAll(l.read(thingsFile), "app: idle", "app: other"))
	}},
	{name: "definition", edit: func(l *testLab) { l.cut("kind: CustomResourceDefinition") }},
	{name: "namespace", edit: func(l *testLab) { l.cut("name: things-more") }},
	{name: "renamed", engine: lab.EngineArgoCD, either: true, edit: func(l *testLab) { l.edit("addons/things/applicationset.yaml", "{{.name}}-things", "{{.name}}-stuff") }},
	{name: "moved to another set", engine: lab.EngineArgoCD, either: true, edit: func(l *testLab) {
		l.edit("addons/things/applicationset.yaml", "metadata: {name: things, namespace: argocd}", "metadata: {name: stuff, namespace: argocd}")
	}},
	{name: "pin", engine: lab.EngineArgoCD, edit: func(l *testLab) { l.edit("addons/podinfo/applicationset.yaml", "6.9.2", "6.7.0") }},
	{name: "disabled", edit: func(l *testLab) { l.edit("clusters/dev/cluster.yaml", "things: true", "things: false") }},
	{name: "enabled", edit: func(l *testLab) { l.edit("clusters/dev/cluster.yaml", "things: false", "things: true") }},
	{name: "moved to another application", either: true, edit: func(l *testLab) {
		l.cut("name: moved")
		if l.engine() == lab.EngineArgoCD {
			l.write("addons/things-moved/applicationset.yaml", strings.NewReplacer("enable_things", "enable_things_moved", "things, namespace: argocd", "things-moved, namespace: argocd",
				"{{.name}}-things", "{{.name}}-things-moved", "addon: things", "addon: things-moved", "addons/things/flux", "addons/things-moved/flux").Replace(thingsSet))
		}
		l.write(movedFile, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: moved, namespace: things}\n")
		l.edit("clusters/dev/cluster.yaml", "things: true", "things: true, things-moved: true")
	}},
	{name: "disabled, preserving", engine: lab.EngineArgoCD, edit: func(l *testLab) { l.edit("clusters/dev/cluster.yaml", "things: true", "things: false") }},
}

// foreseen makes changes one after another, and compares what lab plan said of each object with what became of it, by its uid.
func foreseen(t *testing.T, l *testLab) {
	engine, before, podinfo := l.engine(), l.read("clusters/dev/cluster.yaml"), l.read("addons/podinfo/applicationset.yaml")
	l.write(thingsFile, things)
	if engine == lab.EngineArgoCD {
		l.write("addons/things/applicationset.yaml", thingsSet)
	} else { // where a manifest is applied is the Kustomization's: a namespace of its own
		l.write(thingsFile, "apiVersion: v1\nkind: Namespace\nmetadata: {name: things}\n---\n"+things)
	}
	l.edit("clusters/dev/cluster.yaml", "addons: {", "addons: {things: true, ")
	git := func(args ...string) {
		t.Helper()
		shell(t, "git", append([]string{"-C", l.estate, "-c", "user.name=ann", "-c", "user.email=ann@example.com"}, args...)...)
	}
	l.must("generate")
	l.must("up")
	git("init", "-q")
	defer func() {
		l.remove(".git")
		l.remove("addons/things")
		l.remove("addons/things-moved")
		l.write("clusters/dev/cluster.yaml", before)
		l.write("addons/podinfo/applicationset.yaml", podinfo)
		l.must("generate")
		l.must("up", "--lose-data")
	}()
	keep := func() {
		t.Helper()
		git("add", "-A")
		git("commit", "-qm", "change")
	}
	keep()
	for _, c := range changes {
		if c.engine != "" && c.engine != engine {
			continue
		}
		if c.name == "disabled, preserving" {
			l.edit("addons/things/applicationset.yaml", "  template:\n", "  syncPolicy: {preserveResourcesOnDeletion: true}\n  template:\n")
			l.must("up")
			keep()
		}
		c.edit(l)
		l.must("generate")
		fails := slices.Contains(c.fails, engine)
		plan := decode[ui.ConsequenceResult](l, "plan")
		if !plan.Confident {
			t.Errorf("%s: unknown: %+v", c.name, plan)
		}
		if plan.Severe() { // each costs seconds
			dry := decode[ui.PlanResult](l, "up", "--dry-run")
			if d := cmp.Diff(plan.Effects, dry.Effects); d != "" || dry.EffectsUnknown != "" {
				t.Errorf("%s: lab plan and lab up --dry-run differ: %s\n%s", c.name, dry.EffectsUnknown, d)
			}
		}
		was := l.fates(t)
		args := []string{"up"}
		if fails {
			args = append(args, "--timeout", "20s")
		}
		if slices.ContainsFunc(plan.Effects, func(e ui.Consequence) bool { return e.Loses != "" && (e.Action == "delete" || e.Action == "recreate") }) {
			if out := l.run("up"); out.code != int(lab.ExitInvalid) || !strings.Contains(out.stderr, "lab up --lose-data") || !maps.Equal(was, l.fates(t)) {
				t.Errorf("%s: lab up without consent: exit %d\n%s", c.name, out.code, out.stderr)
			}
			args = append(args, "--lose-data")
		}
		if out := l.run(args...); (out.code != 0) != fails {
			t.Errorf("%s: lab up: exit %d\n%s", c.name, out.code, out.stderr)
		}
		is := l.fates(t)
		said := map[string]string{}
		for _, e := range plan.Effects {
			if e.Object != "" {
				said[e.Cluster+" "+e.Object] = e.Action
			}
		}
		emptied := said["dev Namespace things"] == "delete"
		for _, key := range slices.Sorted(maps.Keys(mergedKeys(was, is))) {
			want, seen := said[key], became(was[key], is[key])
			if key == "dev ServiceAccount things/default" || key == "dev ConfigMap things/kube-root-ca.crt" {
				continue
			}
			if emptied && want == "" && seen == "delete" && strings.Contains(key, " things/") {
				continue // with all that is in it
			}
			ok := want == seen
			switch want {
			case "update", "restart":
				ok = seen == "changed"
			case "", "orphan", "stay", "refuse":
				ok = seen == "" || want != "" && seen == "changed"
			case "recreate":
				ok = seen == want || c.either
			case "rerun":
				ok = seen == "recreate"
			}
			if !ok {
				t.Errorf("%s: %s: lab plan said %q, it was %q", c.name, key, want, seen)
			}
			delete(said, key)
		}
		for key, action := range said {
			if kind, _, _ := strings.Cut(strings.TrimPrefix(key, "dev "), " "); kindsOfThings[kind].Resource != "" && action != "delete" {
				t.Errorf("%s: %s: lab plan said %q, there is none", c.name, key, action)
			}
		}
		t.Logf("%s: lab plan said %v", c.name, actionsOf(plan))
		if fails {
			git("checkout", "-q", ".")
			l.must("generate")
			l.must("up")
			continue
		}
		keep()
	}
}

// cameAsPlanned compares what lab up --dry-run said of a new cluster with what it has: each object by the content that was rendered.
func cameAsPlanned(t *testing.T, l *testLab, cluster string, dry ui.PlanResult) {
	t.Helper()
	var planned, rendered []string
	born := false
	for _, e := range dry.Effects {
		switch {
		case e.Cluster != cluster && (e.Action == "create" || e.Action == "update"): // what the hub has for it
		case e.Cluster != cluster || e.Action != "create":
			t.Errorf("lab up --dry-run with the new cluster %s: %+v", cluster, e)
		case e.Object == "":
			born = true
		default:
			planned = append(planned, e.Object)
		}
	}
	for _, app := range decode[ui.RenderResult](l, "render", "--cluster", cluster).Applications {
		for _, o := range app.Objects {
			var object unstructured.Unstructured
			if err := object.UnmarshalJSON([]byte(o.Object)); err != nil {
				t.Fatal(err)
			}
			if o.Cluster == cluster && o.Hook == "" { // tests of charts
				rendered = append(rendered, object.GetKind()+" "+strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/"))
			}
		}
	}
	slices.Sort(planned)
	slices.Sort(rendered)
	if d := cmp.Diff(slices.Compact(rendered), slices.Compact(planned)); d != "" || !born || len(planned) == 0 {
		t.Errorf("rendered (-) and planned (+) for the new cluster %s, %t: %s", cluster, born, d)
	}
	asRendered(t, l)
}

func actionsOf(plan ui.ConsequenceResult) []string {
	var list []string
	for _, e := range plan.Effects {
		list = append(list, e.Action+" "+e.Object)
	}
	return list
}

func mergedKeys(a, b map[string]fate) map[string]bool {
	keys := map[string]bool{}
	for key := range a {
		keys[key] = true
	}
	for key := range b {
		keys[key] = true
	}
	return keys
}

// fate is an object in a cluster; the zero value is none.
type fate struct{ uid, content string }

// became names what happened to an object.
func became(was, is fate) string {
	switch {
	case was == is:
		return ""
	case was.uid == "":
		return "create"
	case is.uid == "":
		return "delete"
	case was.uid != is.uid:
		return "recreate"
	}
	return "changed"
}

// fates returns the objects of the addon in the clusters.
func (l *testLab) fates(t *testing.T) map[string]fate {
	t.Helper()
	found := map[string]fate{}
	for _, cluster := range []string{"hub", "dev"} {
		going := map[string]bool{} // namespaces: what is in them goes, too, some of it a little later
		namespaces, err := l.dynamic(cluster).Resource(kindsOfThings["Namespace"]).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, ns := range namespaces.Items {
			going[ns.GetName()] = ns.GetDeletionTimestamp() != nil
		}
		for kind, resource := range kindsOfThings {
			list, err := l.dynamic(cluster).Resource(resource).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range list.Items {
				o := &list.Items[i]
				at := o.GetNamespace()
				if at != "things" && at != "podinfo" && !strings.HasPrefix(o.GetName(), "things") && !strings.HasSuffix(o.GetName(), ".things.example.com") || o.GetDeletionTimestamp() != nil || going[at] {
					continue
				}
				id := o.GetName()
				if at != "" {
					id = at + "/" + id
				}
				found[cluster+" "+kind+" "+id] = fate{string(o.GetUID()), said(t, o)}
			}
		}
	}
	return found
}

// said is the content of an object that Git says, as both engines apply it.
func said(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	content := map[string]any{"data": o.Object["data"]}
	if o.GetKind() == "Deployment" {
		content["spec"] = o.Object["spec"]
	}
	text, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
