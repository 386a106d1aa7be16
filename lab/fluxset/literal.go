package fluxset

import (
	"cmp"
	"strings"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/finding"
	"homelab/lab/render"
)

// literal notes that an application's Kustomization has no variables, and returns that; "" if its objects have none either.
func (x *expander) literal(app *Application) string {
	for _, o := range app.Objects {
		n := expression(o.Node)
		if n == nil || render.Literal(o) {
			continue
		}
		at := lab.Position{File: o.File, Line: cmp.Or(n.Line, o.Line)}
		why := "Kustomization " + app.Name + " has no variables, so Flux substitutes nothing, not even defaults"
		_, text, _ := strings.Cut(n.Value, "${")
		text, _, _ = strings.Cut(text, "}")
		x.Notes = append(x.Notes, lab.Problem{Code: finding.LiteralVariable, Position: at, Message: why + ": ${" + text + "} stays as it is", Cure: "set any variable in spec.postBuild, or substituteStrategy: Always"})
		return why
	}
	return ""
}

// expression returns the first scalar with a ${variable}, or nil.
func expression(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.ScalarNode && strings.Contains(n.Value, "${") {
		return n
	}
	for _, c := range n.Content {
		if found := expression(c); found != nil {
			return found
		}
	}
	return nil
}
