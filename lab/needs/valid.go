package needs

import (
	"encoding/base64"
	gojson "encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/json"

	"homelab/lab/argo"
	"homelab/lab/render"
	"homelab/lab/strict"
)

const maxAnnotations = 256 << 10 // of an object; kubectl keeps in one what it applied

// Rejected returns why an object is rejected as an engine applies it, with an Application's sync options, "invalid: its name cannot be that of an object", or "". Flux drops
// unknown fields of Kubernetes' kinds; of Flux, definitions, which are large, are not checked.
func (e Engine) Rejected(o render.Document, options ...string) string {
	if !e.validates {
		if strict.Text(o.Node, "kind") == "CustomResourceDefinition" {
			return ""
		}
		return invalid(o, false)
	}
	if strict.Text(o.Node, "metadata", "name") == "" {
		if IsHook(o.Node) {
			return ""
		}
		return "without a name: " + o.File
	}
	for _, option := range strings.Split(strict.Text(o.Node, "metadata", "annotations", argo.SyncOptions), ",") {
		options = append(slices.Clone(options), strings.TrimSpace(option))
	}
	has := func(option string) bool { return slices.Contains(options, option) }
	why := invalid(o, !has("Validate=false"))
	if why == "" && size(o.Node) > maxAnnotations && !has("ServerSideApply=true") && !has("Replace=true") {
		why = "too large for a client-side apply: ServerSideApply=true is not set"
	}
	return why
}

// RejectedByHelm returns why an API server rejects an object that Helm 4 applies, server-side, or "". Unlike Flux, Helm keeps unknown fields.
func RejectedByHelm(o render.Document) string { return invalid(o, true) }

// invalid returns why an API server rejects an object of a kind of Kubernetes, or "". fields includes unknown ones.
func invalid(o render.Document, fields bool) string {
	gvk := schema.FromAPIVersionAndKind(strict.Text(o.Node, "apiVersion"), strict.Text(o.Node, "kind"))
	object, err := scheme.Scheme.New(gvk)
	if served, _ := Serves(gvk); !served || err != nil {
		return ""
	}
	if name := strict.Text(o.Node, "metadata", "name"); gvk.Group != "rbac.authorization.k8s.io" && len(validation.IsDNS1123Subdomain(name)) > 0 {
		return "invalid: its name cannot be that of an object"
	}
	if gvk.Kind == "Secret" {
		for key, value := range strict.Pairs(o.Node, "data") {
			if _, err := base64.StdEncoding.DecodeString(value.Value); err != nil && !strict.IsNull(value) {
				return "invalid: data." + key.Value + " is not in base64"
			}
		}
	}
	text, err := strict.JSON(o.Node)
	if err != nil {
		return "" // rendering reports it
	}
	unknown, err := json.UnmarshalStrict(text, object)
	switch {
	case err != nil:
		return "invalid: " + oneLine(err)
	case len(unknown) > 0 && fields:
		return "invalid: " + oneLine(unknown[0])
	}
	return ""
}

// Misfit is a field of an object that its kind does not have, or of another type.
type Misfit struct {
	Path    string // spec.template.spec.containers[0].img; of a wrong type, without indexes
	Unknown bool
	Message string
}

// Misfits returns the fields that do not fit an object's kind, of Kubernetes' own kinds. The object is JSON.
func Misfits(gvk schema.GroupVersionKind, text []byte) []Misfit {
	object, err := scheme.Scheme.New(gvk)
	if served, _ := Serves(gvk); !served || err != nil {
		return nil
	}
	unknown, err := json.UnmarshalStrict(text, object)
	var list []Misfit
	if err != nil {
		of := Misfit{Message: "is invalid: " + oneLine(err)}
		if kind := new(gojson.UnmarshalTypeError); errors.As(err, &kind) {
			of.Path, of.Message = kind.Field, fmt.Sprintf("has a %s in %s, which is of type %s", kind.Value, kind.Field, kind.Type)
		}
		list = append(list, of)
	}
	for _, err := range unknown {
		of := Misfit{Unknown: true}
		if n, _ := fmt.Sscanf(err.Error(), "unknown field %q", &of.Path); n == 1 { // a duplicate one is not YAML
			list = append(list, of)
		}
	}
	return list
}

// size returns roughly the size of a node as JSON, and never more.
func size(n *yaml.Node) int {
	total := len(n.Value)
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		total += len(`""`)
	}
	for _, c := range n.Content {
		total += size(c) + 1 // a colon, comma or bracket
	}
	return total
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
