// Package needs says what objects need of others and of their cluster, what they provide to others, and for what an engine waits after it has applied them. It is
// neutral of engines but for the table of their assessments (engine.go), and pure.
package needs

import (
	"cmp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"homelab/lab"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// Sort is the sort of a need.
type Sort int

const (
	Served Sort = iota // its kind is served; without it, engines apply nothing of a unit
	Exists             // what it refers to, or its namespace, exists
	Bound              // its volumes can be bound
	Used               // a pod uses its volume
	Placed             // its pods fit a node
	Ready              // its controller sets its status, or it is not stopped
)

// Need is what an object needs.
type Need struct {
	Sort   Sort
	Object *yaml.Node // that needs it
	What   string     // "StorageClass fast", "Secret web/db", "a node with disk=ssd", "Plan of example.com/v1"
	Clause string     // the same about the object, " of StorageClass fast, which nothing available defines"
	By     []string   // what meets it, as in Provides
	May    []string   // what may meet it while it runs, as in Provides; nothing meets a need with neither

	mentioned string // what may meet it mentions this
}

// Unit is what an engine applies together: an Application, a Kustomization, or a release.
type Unit struct {
	Cluster, Name string // without a name: what a cluster has by itself
	Namespace     string // of objects without one
	Objects       []render.Document
	Has           []string            // besides what its objects provide
	May           func(Need) bool     // whether parts of it that are not known may meet a need; nil for none
	Nodes         []map[string]string // labels of the nodes of its cluster; nil for unknown ones

	provides map[string]bool
}

// provided returns what a unit provides. It is determined once.
func (u *Unit) provided() map[string]bool {
	if u.provides == nil {
		u.provides = map[string]bool{}
		for _, what := range append(Provides(u.Objects, u.Namespace), u.Has...) {
			u.provides[what] = true
		}
	}
	return u.provides
}

func (u *Unit) has(what []string) bool {
	return slices.ContainsFunc(what, func(s string) bool { return u.provided()[s] })
}

// meets reports whether a unit meets a need, or may.
func (u *Unit) meets(n Need) bool {
	return u.has(n.By) || len(n.By)+len(n.May) > 0 && (u.runs(n) || u.May != nil && u.May(n))
}

// runs reports whether a unit's workloads may meet a need.
func (u *Unit) runs(n Need) bool {
	return u.has(n.May) || n.mentioned != "" && slices.ContainsFunc(u.Objects, func(o render.Document) bool { return podOf(o.Node) != nil && mentions(o.Node, n.mentioned) })
}

// mentions reports whether a text is part of a node.
func mentions(n *yaml.Node, text string) bool {
	return strings.Contains(n.Value, text) || slices.ContainsFunc(n.Content, func(c *yaml.Node) bool { return mentions(c, text) })
}

// World is what is in all clusters, by cluster.
type World struct {
	on  map[string][]*Unit
	own map[string]*Unit // what the cluster has by itself
}

// Add adds a unit. Those of one name are added one after another.
func (w *World) Add(u Unit) {
	if w.on == nil {
		w.on, w.own = map[string][]*Unit{}, map[string]*Unit{}
	}
	if u.Name == "" {
		w.own[u.Cluster] = &u
		return
	}
	w.on[u.Cluster] = append(w.on[u.Cluster], &u)
}

// Meeting returns the names of the units of a cluster whose objects meet a need, and of those that may meet it in another way.
func (w World) Meeting(n Need, cluster string) (by, perhaps []string) {
	for _, u := range w.on[cluster] {
		switch {
		case u.has(n.By):
			by = appendOther(by, u.Name)
		case u.meets(n):
			perhaps = appendOther(perhaps, u.Name)
		}
	}
	return by, perhaps
}

// Lacks returns what the objects of a unit need of others.
func (w World) Lacks(e Engine, u Unit) []Need {
	var list []Need
	for _, o := range u.Objects {
		list = append(list, served(o.Node)...)
		list = append(list, refers(o.Node, u.Namespace)...)
		if !e.exempt(o.Node) {
			list = append(list, w.waits(e, u, o.Node)...)
		}
	}
	return slices.DeleteFunc(list, func(n Need) bool {
		if u.has(n.By) || n.Sort > Served && u.runs(n) {
			return true
		}
		own := w.own[u.Cluster]
		return own != nil && own.meets(n)
	})
}

// waits returns what an object needs to become ready.
func (w World) waits(e Engine, u Unit, n *yaml.Node) []Need {
	list := w.volumes(e, u, n)
	if field := e.stops[strict.Text(n, "kind")]; field != "" && strict.Text(n, "spec", field) == "true" {
		list = append(list, Need{Sort: Ready, Object: n, What: halted[field], Clause: ", which is " + halted[field] + ": spec." + field})
	}
	if group := groupOf(n); e.asks(group, strict.Text(n, "kind")) {
		list = append(list, Need{Sort: Ready, Object: n, What: controls(group), May: []string{controls(group), controls("*")}})
	}
	if node := unplaced(n, u.Nodes); node != "" {
		list = append(list, Need{Sort: Placed, Object: n, What: node, Clause: ", which needs " + node, May: []string{createsNodes}})
	}
	return list
}

// served returns the kind that an object needs, unless Kubernetes serves it.
func served(n *yaml.Node) []Need {
	gvk := schema.FromAPIVersionAndKind(strict.Text(n, "apiVersion"), strict.Text(n, "kind"))
	yes, own := Serves(gvk)
	switch {
	case yes || gvk.Kind == "" || gvk.Version == "":
		return nil
	case own:
		return []Need{{Object: n, What: kindOf(gvk), Clause: "Kubernetes " + lab.KubernetesVersion + " serves no " + gvk.Kind + " of " + gvk.GroupVersion().String()}}
	}
	return []Need{{Object: n, What: kindOf(gvk), Clause: "needs kind " + gvk.Kind + " of " + gvk.Group + ", which nothing available defines", By: []string{kindOf(gvk)}, May: []string{definesKinds}}}
}

// refers returns the namespace and the other objects that an object refers to.
func refers(n *yaml.Node, namespace string) []Need {
	var list []Need
	for _, what := range reads(n, namespace) {
		list = append(list, Need{Sort: Exists, Object: n, What: what, Clause: ", whose " + what + " nothing available creates", By: []string{what}, May: []string{CreatesObjects}})
	}
	return list
}

func kindOf(gvk schema.GroupVersionKind) string {
	return gvk.Kind + " of " + gvk.GroupVersion().String()
}

func groupOf(n *yaml.Node) string {
	group, _, _ := strings.Cut(strict.Text(n, "apiVersion"), "/")
	return group
}

func namespaceOf(n *yaml.Node, otherwise string) string {
	return cmp.Or(strict.Text(n, "metadata", "namespace"), otherwise)
}

// appendOther appends a string, unless it is the last one.
func appendOther(list []string, s string) []string {
	if len(list) > 0 && list[len(list)-1] == s {
		return list
	}
	return append(list, s)
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}
