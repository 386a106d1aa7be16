package lint

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	invalid "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/json"

	"homelab/lab"
	"homelab/lab/argo"
	"homelab/lab/desired"
	"homelab/lab/finding"
	"homelab/lab/fluxset"
	"homelab/lab/needs"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// customKind is a kind that a CustomResourceDefinition defines.
type customKind struct {
	definition *yaml.Node
	version    string

	known bool // the following are read
	of    *structural.Structural
	check *validate.SchemaValidator
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
				kinds[key] = &customKind{definition: o.Node, version: what[strings.LastIndex(what, "/")+1:]}
			}
		}
	}
	return kinds
}

// read reads the schema.
func (k *customKind) read() {
	k.known = true
	var definition apiextensionsv1.CustomResourceDefinition
	if strict.Into(k.definition, &definition) != nil || definition.Spec.PreserveUnknownFields {
		return
	}
	for _, v := range definition.Spec.Versions {
		var internal apiextensions.CustomResourceValidation
		if v.Name != k.version || v.Schema == nil || apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(v.Schema, &internal, nil) != nil {
			continue
		}
		of, err := structural.NewStructural(internal.OpenAPIV3Schema)
		if err != nil {
			return
		}
		optional := structural.Visitor{Structural: func(s *structural.Structural) bool { // the API server sets defaults first
			if s.ValueValidation == nil {
				return false
			}
			before := len(s.ValueValidation.Required)
			s.ValueValidation.Required = slices.DeleteFunc(s.ValueValidation.Required, func(name string) bool { return s.Properties[name].Default.Object != nil })
			return len(s.ValueValidation.Required) < before
		}}
		optional.Visit(of)
		k.of, k.check = of, validate.NewSchemaValidator(of.ToKubeOpenAPI(), nil, "", strfmt.Default)
	}
}

// misfits returns the fields of a custom resource that do not fit its schema.
func (k *customKind) misfits(n *yaml.Node) []needs.Misfit {
	if !k.known {
		k.read()
	}
	var object map[string]any
	text, err := strict.JSON(n)
	if err != nil || k.of == nil || json.UnmarshalCaseSensitivePreserveInts(text, &object) != nil {
		return nil
	}
	withoutNulls(object)
	var list []needs.Misfit
	for _, err := range k.check.Validate(object).Errors {
		if of, is := err.(*invalid.Validation); is { //nolint:errorlint // as it is returned
			list = append(list, needs.Misfit{Path: strings.TrimPrefix(of.Name, "."), Message: "is invalid: " + strings.TrimSpace(strings.Replace(of.Error(), " in body", "", 1))})
		}
	}
	for _, field := range pruning.PruneWithOptions(object, k.of, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}) {
		list = append(list, needs.Misfit{Path: field, Unknown: true})
	}
	return list
}

// withoutNulls removes fields without a value, which the API server does for most.
func withoutNulls(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if withoutNulls(value); value == nil {
				delete(v, key)
			}
		}
	case []any:
		for _, value := range v {
			withoutNulls(value)
		}
	}
}

// misfits finds fields that do not fit an object's kind.
func (l *linter) misfits(a application, o desired.Object, say sayer) {
	gvk := kindOf(o)
	if fluxset.Encrypted(o.Node) || needs.IsFlux(gvk.Group) || gvk.Group+"/" == argo.Group { // their own readers report these
		return
	}
	list := needs.Misfits(o.Document)
	custom := l.schemas[o.Cluster+" "+gvk.Kind+" of "+gvk.GroupVersion().String()]
	if custom != nil && !builtin(o) {
		list = custom.misfits(o.Node)
	}
	const most = 10
	for _, of := range list[:min(most, len(list))] {
		severity := finding.Error
		if of.Unknown {
			if of.Message = "has the unknown field " + of.Path; l.drops(a, o) {
				of.Message, severity = of.Message+", which is dropped", finding.Warning
			}
		}
		if l.mounted(a.At.File) {
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
