package appset

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"
	kjson "sigs.k8s.io/json"

	"homelab/lab"
	"homelab/lab/argo"
	"homelab/lab/finding"
	"homelab/lab/strict"
)

// API is the API of a minor of Argo CD, zero being the default.
type API struct{ Minor argo.Minor }

// ParseApplication is API.ParseApplication of the default.
func ParseApplication(file string, doc *yaml.Node) (*Template, lab.Problems) {
	return API{}.ParseApplication(file, doc)
}

// Kinds are the kinds of Argo CD.
var Kinds = []string{"Application", "ApplicationSet", "AppProject"}

// OfArgoCD reports whether an object is of one of Argo CD's kinds.
func OfArgoCD(doc *yaml.Node) bool {
	return strings.HasPrefix(strict.Text(doc, "apiVersion"), argo.Group) && slices.Contains(Kinds, strict.Text(doc, "kind"))
}

// ParseApplication reads an Application from a document.
func (a API) ParseApplication(file string, doc *yaml.Node) (*Template, lab.Problems) {
	var t Template
	if ps := decode(file, doc, &t); len(ps) > 0 {
		return nil, ps
	}
	a.forget(reflect.ValueOf(&t.Spec))
	a.dropEmpty(&t.Spec)
	return &t, nil
}

// Rejected returns why an API server rejects an Application or an ApplicationSet.
func (a API) Rejected(file string, doc *yaml.Node) lab.Problems {
	var ps lab.Problems
	switch strict.Text(doc, "kind") {
	case "Application":
		if _, ps = a.ParseApplication(file, doc); len(ps) == 0 {
			ps = required(file, "Application", doc, reflect.TypeFor[struct {
				Spec Spec `json:"spec"`
			}]())
			for i := range ps {
				ps[i].Message = strings.TrimPrefix(ps[i].Message, "Application.")
			}
		}
	case "ApplicationSet":
		_, ps = Parse(file, doc)
	default:
		return nil
	}
	if name := strict.Text(doc, "metadata", "name"); len(validation.IsDNS1123Subdomain(name)) > 0 {
		ps = append(ps, lab.Problem{Code: finding.InvalidApplication, Position: strict.Position(file, doc), Message: fmt.Sprintf("its name is %q", name)})
	}
	return ps
}

// Dropped returns the first field of an Application or an ApplicationSet that the API server drops as it does not know it, or "".
func (a API) Dropped(doc *yaml.Node) string {
	text, err := strict.JSON(doc)
	if err != nil {
		return ""
	}
	var app struct {
		Spec Spec `json:"spec"`
	}
	var set struct {
		Spec struct {
			Template struct {
				Spec Spec `json:"spec"`
			} `json:"template"`
		} `json:"spec"`
	}
	var into any = &app
	within := "spec."
	if strict.Text(doc, "kind") == "ApplicationSet" {
		into, within = &set, "spec.template.spec."
	}
	for _, f := range a.newer(doc) {
		if strings.HasPrefix(f.path, within) {
			return f.path
		}
	}
	unknown, err := kjson.UnmarshalStrict(text, into)
	if err != nil {
		return ""
	}
	for _, e := range unknown {
		var field string
		if n, _ := fmt.Sscanf(e.Error(), "unknown field %q", &field); n == 1 && strings.HasPrefix(field, within) {
			return field
		}
	}
	if strict.Text(doc, "kind") == "ApplicationSet" {
		for _, f := range unused(doc) {
			if f.ignored == "" {
				return f.path
			}
		}
	}
	return ""
}

// newField is a field that came with a minor.
type newField struct {
	path  string
	since argo.Minor
	node  *yaml.Node
}

// Ignored returns notes about the fields of an Application, ApplicationSet or AppProject that have no effect: its API server drops those that it knows since a later
// minor, or does not know at all.
func (a API) Ignored(file string, doc *yaml.Node) lab.Problems {
	var ps lab.Problems
	for _, f := range a.newer(doc) {
		ps = append(ps, lab.Problem{
			Code: finding.FieldIgnored, Position: strict.Position(file, f.node), Message: fmt.Sprintf("Argo CD %s ignores %s", a.Minor, f.path), Cure: fmt.Sprintf("it came with %s", f.since),
		})
	}
	if strict.Text(doc, "kind") == "ApplicationSet" {
		for _, f := range unused(doc) {
			ps = append(ps, f.note(file))
		}
	}
	return ps
}

// project has the fields of AppProjects that came with a minor.
type project struct {
	ClusterResourceWhitelist, ClusterResourceBlacklist []struct {
		Name string `json:"name" since:"3"`
	}
	SourceIntegrity JSON `json:"sourceIntegrity" since:"5"`
	SyncWindows     []struct {
		SyncOverrun bool `json:"syncOverrun" since:"5"`
	}
}

// scmProvider has the fields of the generator that came with a minor.
type scmProvider struct {
	Github, Gitea struct {
		ExcludeArchivedRepos bool `json:"excludeArchivedRepos" since:"5"`
	}
	Gitlab struct {
		IncludeArchivedRepos bool `json:"includeArchivedRepos" since:"5"`
	}
}

// nestedGenerators is a matrix or a merge within another.
type nestedGenerators struct {
	Generators []Leaf `json:"generators"`
}

// newer returns the fields of a document that are newer than the minor, in their order.
func (a API) newer(doc *yaml.Node) []newField {
	var t reflect.Type
	switch strict.Text(doc, "kind") {
	case "Application":
		t = reflect.TypeFor[Spec]()
	case "ApplicationSet":
		t = reflect.TypeFor[SetSpec]()
	case "AppProject":
		t = reflect.TypeFor[project]()
	default:
		return nil
	}
	var list []newField
	a.walk("spec", strict.Get(doc, "spec"), t, &list)
	return list
}

func (a API) walk(path string, n *yaml.Node, t reflect.Type, list *[]newField) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case n == nil:
	case t == rawJSON && strings.HasSuffix(path, ".scmProvider"):
		a.walk(path, n, reflect.TypeFor[scmProvider](), list)
	case t == rawJSON && (strings.HasSuffix(path, ".matrix") || strings.HasSuffix(path, ".merge")):
		a.walk(path, n, reflect.TypeFor[nestedGenerators](), list)
	case t.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode:
		for i, item := range n.Content {
			a.walk(fmt.Sprintf("%s[%d]", path, i), item, t.Elem(), list)
		}
	case t.Kind() == reflect.Struct && n.Kind == yaml.MappingNode:
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				name = strings.ToLower(f.Name[:1]) + f.Name[1:]
			}
			value := strict.Get(n, name)
			if f.Anonymous || value == nil || strict.IsNull(value) {
				continue
			}
			if since := sinceOf(f); !a.Minor.Has(since) {
				*list = append(*list, newField{path + "." + name, since, value})
				continue
			}
			a.walk(path+"."+name, value, f.Type, list)
		}
	}
}

// sinceOf returns the minor that a field came with, or 0.
func sinceOf(f reflect.StructField) argo.Minor {
	n, _ := strconv.Atoi(f.Tag.Get("since"))
	return argo.Minor(n)
}

// forget clears the fields that came with a later minor, as an API server does.
func (a API) forget(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			a.forget(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			a.forget(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			switch f := v.Type().Field(i); {
			case !f.IsExported():
			case !a.Minor.Has(sinceOf(f)):
				if !v.Field(i).IsZero() {
					v.Field(i).SetZero()
				}
			default:
				a.forget(v.Field(i))
			}
		}
	}
}

// conform makes an Application what the API server of a minor stores.
func (a API) conform(t *Template) {
	a.forget(reflect.ValueOf(&t.Spec))
	a.dropEmpty(&t.Spec)
	if p := t.Spec.SyncPolicy; p != nil && p.Automated != nil && !a.Minor.Has(4) {
		automated, policy := *p.Automated, *p
		for _, flag := range []**bool{&automated.Prune, &automated.SelfHeal, &automated.AllowEmpty} {
			if *flag != nil && !**flag {
				*flag = nil // false was the same as nothing
			}
		}
		policy.Automated = &automated
		t.Spec.SyncPolicy = &policy
	}
}
