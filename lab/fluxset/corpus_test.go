package fluxset

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/fluxcd/pkg/ssa/normalize"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	sigsyaml "sigs.k8s.io/yaml"

	"homelab/lab/fluxset/fluxsettest"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// exceptions are the cases of testdata/exceptions.yaml in which lab says something else than the controllers do, with the cause of each: what lab does not know
// (unknown), or gets wrong (wrong), by KIND NAMESPACE/NAME.
type exceptions struct{ Unknown, Wrong map[string]string }

// The corpus is what the real controllers applied: what lab says must equal it, object by object.
func TestCorpus(t *testing.T) {
	var listed exceptions
	data, err := os.ReadFile("testdata/exceptions.yaml")
	if err == nil {
		err = sigsyaml.UnmarshalStrict(data, &listed)
	}
	if err != nil {
		t.Fatal(err)
	}
	equal, all, unknown := 0, 0, 0
	used := map[string]bool{}
	for _, c := range fluxsettest.Cases(t, "testdata") {
		want := c.Want(t)
		if want == nil {
			t.Errorf("%s is not recorded: task record-flux", c.Name)
			continue
		}
		x, w := expandCase(t, c)
		check := func(name string, differs string) {
			all++
			_, known := listed.Wrong[name]
			_, open := listed.Unknown[name]
			if known, used[name] = known || open, true; open {
				unknown++
			}
			switch {
			case differs == "" && known:
				t.Errorf("%s: equal, but testdata/exceptions.yaml lists it", name)
			case differs == "":
				equal++
			case !known:
				t.Errorf("%s: %s", name, differs)
			}
		}
		if want.Refused != "" {
			differs := ""
			if len(x.Problems) == 0 {
				differs = "the API server refuses root.yaml: " + want.Refused
			}
			check(c.Name+"/root.yaml", differs)
			continue
		}
		for of, result := range want.Kustomizations {
			check("Kustomization "+of, compareKustomization(t, x, of, result))
		}
		for of, result := range want.Releases {
			check("HelmRelease "+of, compareRelease(t, x, w, of, result))
		}
	}
	for _, list := range []map[string]string{listed.Wrong, listed.Unknown} {
		for name := range list {
			if !used[name] {
				t.Errorf("testdata/exceptions.yaml: there is no %s", name)
			}
		}
	}
	t.Logf("%d of %d Kustomizations and HelmReleases equal, %d unknown", equal, all, unknown)
}

func expandCase(t *testing.T, c fluxsettest.Case) (Expansion, World) {
	t.Helper()
	root := c.Root(t)
	data, namespaces := map[string]map[string]string{}, []string{c.Name, "default"}
	docs, problems := strict.Parse("root.yaml", root)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, n := range docs {
		if kind := strict.Text(n, "kind"); kind == "ConfigMap" || kind == "Secret" {
			data[key(n)] = Data(n)
		} else if kind == "Namespace" {
			namespaces = append(namespaces, strict.Text(n, "metadata", "name"))
		}
	}
	w := World{
		FS:         fstest.MapFS{"root.yaml": {Data: root}},
		Namespaces: func(string) []string { return namespaces },
		Vars:       func(namespace, name string) map[string]string { return data[namespace+"/"+name] },
		Repository: func(url, revision string) (fs.FS, string, error) {
			switch {
			case url != fluxsettest.Host+c.Name:
				return nil, "", &Absent{}
			case revision != "main":
				return nil, "", &Absent{Why: "no " + revision}
			}
			return os.DirFS(c.Files()), filepath.Base(c.Files()), nil
		},
	}
	return Expand(w, "root.yaml"), w
}

// compareKustomization returns what lab says differently of a Kustomization, or "".
func compareKustomization(t *testing.T, x Expansion, of string, want fluxsettest.Result) string {
	t.Helper()
	all := slices.Concat(x.Roots, x.Applications)
	i := slices.IndexFunc(all, func(a Application) bool { return a.Key() == of })
	why := ""
	if i < 0 {
		why = cmp.Or(x.Problems.Error(), "is not found")
	} else {
		why = unready(all[i])
	}
	if differs := compareOutcome(why, want); differs != "" || want.Reason != "" && len(want.Objects) == 0 {
		return differs
	}
	var objects []render.Document
	for _, o := range all[i].Objects {
		if !ignored(o.Node) {
			objects = append(objects, o)
		}
	}
	return compareObjects(t, objects, want.Objects, true)
}

// unready returns why a Kustomization does not become ready, as lab says.
func unready(a Application) string {
	switch {
	case a.invalid != "":
		return a.invalid
	case a.Stalled || a.LeftOut != "" && (a.Waits || strings.HasPrefix(a.LeftOut, "depends on ") || strings.HasPrefix(a.LeftOut, "part of ")):
		return a.LeftOut
	case a.Missing != "":
		return a.Missing + " is missing"
	case len(a.Unset) > 0:
		return a.Unset[0].Problem().Message
	}
	for _, r := range a.Reads {
		if r.at == applied && !r.Known && !r.Optional || r.Kind == accountKind && !r.Bound {
			return fmt.Sprintf("%s %s does not exist or is not enough", r.Kind, r.Name)
		}
	}
	return ""
}

// compareOutcome compares success with success and failure with failure, of which the words may differ.
func compareOutcome(why string, want fluxsettest.Result) string {
	switch {
	case want.Reason == "" && why != "":
		return "works, but lab says: " + why
	case want.Reason != "" && why == "":
		return "does not work, but lab does not say so: " + want.Reason + ": " + want.Message
	case want.Reason == "Suspended" && why != Suspended:
		return "is suspended, but lab says: " + why
	}
	return ""
}

// compareObjects compares objects, by kind and name. typed ones went through kustomize-controller's normalization.
func compareObjects(t *testing.T, got []render.Document, want []map[string]any, typed bool) string {
	t.Helper()
	byName := func(list []unstructured.Unstructured) map[string]any {
		named := map[string]any{}
		for _, o := range list {
			name := o.GetAPIVersion() + " " + o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
			for named[name] != nil {
				name += " again"
			}
			named[name] = o.Object
		}
		return named
	}
	var have, applied []unstructured.Unstructured
	kubernetes := runtime.NewScheme() // that of kustomize-controller has no CRDs either
	if err := scheme.AddToScheme(kubernetes); err != nil {
		t.Fatal(err)
	}
	for _, d := range got {
		text, err := yaml.Marshal(d.Node)
		if err != nil {
			t.Fatal(err)
		}
		var o unstructured.Unstructured
		if err := sigsyaml.Unmarshal(text, &o.Object); err != nil {
			t.Fatal(err)
		}
		if typed {
			if err := normalize.UnstructuredListWithScheme([]*unstructured.Unstructured{&o}, kubernetes); err != nil {
				return err.Error()
			}
			unstructured.RemoveNestedField(o.Object, "metadata", "creationTimestamp")
		}
		have = append(have, asJSON(t, o.Object))
	}
	for _, o := range want {
		applied = append(applied, unstructured.Unstructured{Object: o})
	}
	return gocmp.Diff(byName(applied), byName(have), cmpopts.EquateEmpty())
}

// asJSON returns an object as JSON has it.
func asJSON(t *testing.T, object map[string]any) unstructured.Unstructured {
	t.Helper()
	text, err := sigsyaml.Marshal(object)
	var o unstructured.Unstructured
	if err == nil {
		err = sigsyaml.Unmarshal(text, &o.Object)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// compareRelease returns what lab says differently of a HelmRelease, or "".
func compareRelease(t *testing.T, x Expansion, w World, of string, want fluxsettest.Result) string {
	t.Helper()
	for _, app := range slices.Concat(x.Roots, x.Applications) {
		for _, r := range app.Releases {
			if r.Namespace+"/"+r.Name != of {
				continue
			}
			return compareRendered(t, x, w, app, r, want)
		}
	}
	return "lab does not know it"
}

func compareRendered(t *testing.T, x Expansion, w World, app Application, r Release, want fluxsettest.Result) string {
	t.Helper()
	if want.Name != "" && (r.ReleaseName != want.Name || r.TargetNamespace != want.Namespace || r.Storage != want.Storage) {
		return fmt.Sprintf("is %s in %s, stored in %s, but lab says %s in %s, stored in %s", want.Name, want.Namespace, want.Storage, r.ReleaseName, r.TargetNamespace, r.Storage)
	}
	docs, err := r.Render(w)
	why := ""
	switch {
	case r.Suspended:
		why = Suspended
	case r.why != "":
		why = r.why
	case want.Reason != "" && strings.HasPrefix(app.LeftOut, "HelmRelease "+r.Name+" "):
		why = app.LeftOut
	case err != nil:
		why = err.Error()
	default:
		why = r.Refused(docs)
	}
	kinds, _ := x.Lacks(app, r, docs, nil)
	for _, u := range kinds {
		if len(u.By) == 0 {
			why = cmp.Or(why, u.Why)
		}
	}
	for _, other := range slices.Concat(x.Roots, x.Applications) { // lab/needs concludes that
		for _, of := range other.Releases {
			if _, err := of.Render(w); err != nil && slices.Contains(app.Needs, other.Key()) {
				why = cmp.Or(why, "needs "+of.Name+": "+err.Error())
			}
		}
	}
	if differs := compareOutcome(why, want); differs != "" || want.Reason != "" && len(want.Objects) == 0 {
		return differs
	}
	var objects, hooks []render.Document
	var crds []string
	for _, d := range docs {
		switch {
		case strict.Text(d.Node, "kind") == "CustomResourceDefinition":
			crds = append(crds, strict.Text(d.Node, "metadata", "name"))
		case strict.Text(d.Node, "metadata", "annotations", "helm.sh/hook") != "":
			hooks = append(hooks, d)
		default:
			objects = append(objects, d)
		}
	}
	return compareObjects(t, objects, want.Objects, false) + compareObjects(t, hooks, want.Hooks, false) + gocmp.Diff(want.CRDs, crds, cmpopts.EquateEmpty())
}
