package lint

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/apiserver"
	"homelab/lab/argo"
	"homelab/lab/desired"
	"homelab/lab/finding"
	"homelab/lab/fluxset"
	"homelab/lab/fluxset/resourceset"
	"homelab/lab/needs"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// customKind is a kind that a CustomResourceDefinition defines.
type customKind struct {
	read func() *apiserver.Definition // nil if its schema cannot be read
}

// customKinds returns the kinds that are defined once on a cluster.
func (l *linter) customKinds() map[string]*customKind {
	kinds := map[string]*customKind{}
	for _, a := range l.apps {
		for _, o := range a.objects {
			if strict.Text(o.Node, "kind") != "CustomResourceDefinition" || strict.Text(o.Node, "apiVersion") != "apiextensions.k8s.io/v1" {
				continue
			}
			for _, what := range needs.Provides([]render.Document{o.Document}, "") {
				key := o.Cluster + " " + what
				if _, twice := kinds[key]; twice {
					kinds[key] = nil
					continue
				}
				kinds[key] = &customKind{read: sync.OnceValue(func() *apiserver.Definition {
					d, _ := apiserver.NewDefinition(decoded(o.Node), what[strings.LastIndex(what, "/")+1:])
					return d
				})}
			}
		}
	}
	return kinds
}

// decoded returns an object as an API server decodes it, or nil.
func decoded(n *yaml.Node) map[string]any {
	v, _ := strict.Value(n)
	object, _ := v.(map[string]any)
	return object
}

// invalid returns why an API server refuses an object, and its unknown fields.
func invalid(o desired.Object, custom *customKind) []needs.Misfit {
	var refused []apiserver.Problem
	var list []needs.Misfit
	object := decoded(o.Node)
	switch {
	case object == nil:
		return nil
	case builtin(o):
		text, err := json.Marshal(object)
		if err != nil {
			return nil
		}
		if list = needs.Misfits(kindOf(o), text); slices.ContainsFunc(list, func(m needs.Misfit) bool { return !m.Unknown }) {
			return list
		}
		refused = apiserver.Create(object)
	case custom == nil || custom.read() == nil:
		return nil
	default:
		refused = custom.read().Create(object)
		for _, field := range custom.read().Unknown(object) {
			list = append(list, needs.Misfit{Path: field, Unknown: true})
		}
	}
	for _, p := range refused {
		list = append(list, needs.Misfit{Path: p.Path, Message: "is invalid: " + p.String()})
	}
	return list
}

// misfits finds fields that do not fit an object's kind.
func (l *linter) misfits(a application, o desired.Object, say sayer) {
	gvk := kindOf(o)
	if fluxset.Encrypted(o.Node) || resourceset.Partial(o.Node) || needs.IsFlux(gvk.Group) || gvk.Group+"/" == argo.Group { // their own readers report these
		return
	}
	list := invalid(o, l.schemas[o.Cluster+" "+gvk.Kind+" of "+gvk.GroupVersion().String()])
	const most = 10
	for _, of := range list[:min(most, len(list))] {
		severity := finding.Error
		if of.Unknown {
			if of.Message = "has the unknown field " + of.Path; l.drops(a, o) {
				of.Message, severity = of.Message+", which is dropped", finding.Warning
			}
		}
		if l.elsewhere(a) {
			severity = finding.Warning
		}
		message := o.ID() + " " + of.Message
		l.findings = slices.DeleteFunc(l.findings, func(n finding.Finding) bool { // the same about the application
			return n.Rule == finding.LeftOut && n.Position == a.At && strings.Contains(n.Message, a.Name+":") && strings.Contains(n.Message, strict.Title(o.Node)+" is invalid: ")
		})
		say(finding.InvalidObject, fieldAt(o.Node, of.Path), severity, message)
	}
}

// drops reports whether an unknown field of an object is dropped, not refused.
func (l *linter) drops(a application, o desired.Object) bool {
	if l.Estate.Hub().Engine.Type == lab.EngineFlux {
		return o.Part == "" && builtin(o)
	}
	return slices.Contains(a.manifest().Spec.SyncPolicy.SyncOptions, "Validate=false") || strings.Contains(strict.Text(o.Node, "metadata", "annotations", argo.SyncOptions), "Validate=false")
}

var step = regexp.MustCompile(`[^.\[\]]+|\[\d+\]`)

// fieldAt returns the key of a field, or of the nearest one above it that is there.
func fieldAt(n *yaml.Node, path string) *yaml.Node {
	at := n
	for _, key := range step.FindAllString(path, -1) {
		if index, err := strconv.Atoi(strings.Trim(key, "[]")); err == nil && strings.HasPrefix(key, "[") {
			n = strict.Get(n, index)
		} else {
			for n != nil && n.Kind == yaml.SequenceNode { // without an index
				if len(n.Content) != 1 {
					return at
				}
				n = n.Content[0]
			}
			var next *yaml.Node
			for k, value := range strict.Pairs(n) {
				if k.Value == key {
					at, next = k, value
				}
			}
			n = next
		}
		if n == nil {
			break
		}
	}
	return at
}
