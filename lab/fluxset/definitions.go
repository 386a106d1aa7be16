package fluxset

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"homelab/lab"
	"homelab/lab/finding"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// definitions are the Go types of Flux's objects, by apiVersion and kind.
var definitions = map[string]reflect.Type{
	kustomizev1.GroupVersion.String() + " " + kustomizev1.KustomizationKind: reflect.TypeFor[kustomizev1.Kustomization](),
	helmv2.GroupVersion.String() + " " + helmv2.HelmReleaseKind:             reflect.TypeFor[helmv2.HelmRelease](),
	sourcev1.GroupVersion.String() + " " + sourcev1.GitRepositoryKind:       reflect.TypeFor[sourcev1.GitRepository](),
	sourcev1.GroupVersion.String() + " " + sourcev1.OCIRepositoryKind:       reflect.TypeFor[sourcev1.OCIRepository](),
	sourcev1.GroupVersion.String() + " " + sourcev1.HelmRepositoryKind:      reflect.TypeFor[sourcev1.HelmRepository](),
	sourcev1.GroupVersion.String() + " " + sourcev1.HelmChartKind:           reflect.TypeFor[sourcev1.HelmChart](),
	sourcev1.GroupVersion.String() + " " + sourcev1.BucketKind:              reflect.TypeFor[sourcev1.Bucket](),
}

// member is a field of a Go type.
type member struct {
	of  reflect.Type
	key string
}

var (
	chartSources = []string{sourcev1.HelmRepositoryKind, sourcev1.GitRepositoryKind, sourcev1.BucketKind}
	ofCRDs       = []string{string(helmv2.Skip), string(helmv2.Create), string(helmv2.CreateReplace)}
	ofData       = []string{"ConfigMap", "Secret"}
)

// words are the enumerations in the definitions of Flux; its Go types have them in comments.
var words = map[member][]string{
	{reflect.TypeFor[kustomizev1.CrossNamespaceSourceReference](), "kind"}: {sourcev1.GitRepositoryKind, sourcev1.OCIRepositoryKind, sourcev1.BucketKind, externalArtifact},
	{reflect.TypeFor[kustomizev1.SubstituteReference](), "kind"}:           ofData,
	{reflect.TypeFor[helmv2.ValuesReference](), "kind"}:                    ofData,
	{reflect.TypeFor[helmv2.CrossNamespaceObjectReference](), "kind"}:      chartSources,
	{reflect.TypeFor[sourcev1.LocalHelmChartSourceReference](), "kind"}:    chartSources,
	{reflect.TypeFor[helmv2.CrossNamespaceSourceReference](), "kind"}:      {sourcev1.OCIRepositoryKind, sourcev1.HelmChartKind, externalArtifact},
	{reflect.TypeFor[helmv2.Install](), "crds"}:                            ofCRDs,
	{reflect.TypeFor[helmv2.Upgrade](), "crds"}:                            ofCRDs,
	{reflect.TypeFor[kustomizev1.PostBuild](), "substituteStrategy"}:       {string(kustomizev1.SubstituteStrategyWithVariables), string(kustomizev1.SubstituteStrategyAlways)},
}

// misfit returns why an API server rejects an object: for its labels, or for the definition of its kind if it is one of Flux; nil if it does not.
func misfit(o render.Document) *lab.Problem {
	d := defined{file: o.File}
	pairs, labels := map[string]string{}, strict.Get(o.Node, "metadata", "labels")
	if labels != nil && labels.Decode(&pairs) == nil {
		if list := validation.ValidateLabels(pairs, field.NewPath("metadata", "labels")); len(list) > 0 {
			message, _, _ := strings.Cut(list[0].Error(), ": a valid label must")
			d.fail(labels, message, "")
		}
	}
	of := definitions[strict.Text(o.Node, "apiVersion")+" "+strict.Text(o.Node, "kind")]
	if of == nil {
		return d.problem
	}
	d.value(o.Node, of, "")
	spec := strict.Get(o.Node, "spec")
	if strict.Text(o.Node, "kind") == helmv2.HelmReleaseKind && spec != nil && (strict.Get(spec, "chart") == nil) == (strict.Get(spec, "chartRef") == nil) {
		d.fail(spec, "spec must have either chart or chartRef", "")
	}
	return d.problem
}

// defined compares an object with a Go type, by its JSON tags.
type defined struct {
	file    string
	problem *lab.Problem // the first
}

func (d *defined) fail(n *yaml.Node, message, cure string) {
	if d.problem == nil {
		d.problem = &lab.Problem{Code: finding.InvalidFlux, Position: lab.Position{File: d.file, Line: n.Line}, Message: message, Cure: cure}
	}
}

// span matches intervals: https://fluxcd.io/flux/components/kustomize/kustomizations/#interval
var span = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`)

func (d *defined) value(n *yaml.Node, t reflect.Type, at string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	want, tag := "", "!!str"
	switch {
	case strict.IsNull(n):
		return // as if it were missing
	case t == reflect.TypeFor[metav1.ObjectMeta](), t == reflect.TypeFor[metav1.Time](), strings.HasPrefix(at, "status"):
		return
	case t == reflect.TypeFor[metav1.Duration]():
		if n.Kind == yaml.ScalarNode && n.Tag == tag && !span.MatchString(n.Value) {
			d.fail(n, fmt.Sprintf("%s cannot be %q", at, n.Value), "a duration such as 30s or 10m")
		}
		want = "text"
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()), t.Kind() == reflect.Interface:
		return // any value
	case t.Kind() == reflect.Struct:
		d.object(n, t, at)
		return
	case t.Kind() == reflect.Map:
		if n.Kind != yaml.MappingNode {
			d.fail(n, at+" must be a mapping, not "+strict.KindOf(n), "")
			return
		}
		for key, value := range strict.Pairs(n) {
			d.value(value, t.Elem(), strict.Join(at, key.Value))
		}
		return
	case t.Kind() == reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			d.fail(n, at+" must be a list, not "+strict.KindOf(n), "")
			return
		}
		for i, c := range n.Content {
			d.value(c, t.Elem(), fmt.Sprintf("%s[%d]", at, i))
		}
		return
	case t.Kind() == reflect.String:
		want = "text"
	case t.Kind() == reflect.Bool:
		want, tag = "true or false", "!!bool"
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64:
		want, tag = "a whole number", "!!int"
	default:
		return
	}
	if n.Kind != yaml.ScalarNode || n.Tag != tag && !(want == "text" && n.Tag == "!!timestamp") {
		cure := ""
		if want == "text" && n.Kind == yaml.ScalarNode {
			cure = "quote it: " + strconv.Quote(n.Value)
		}
		d.fail(n, fmt.Sprintf("%s must be %s, not %s", at, want, strict.KindOf(n)), cure)
	}
}

func (d *defined) object(n *yaml.Node, t reflect.Type, at string) {
	if n.Kind != yaml.MappingNode {
		d.fail(n, at+" must be a mapping, not "+strict.KindOf(n), "")
		return
	}
	types, needs := map[string]reflect.Type{}, []string{}
	var collect func(t reflect.Type)
	collect = func(t reflect.Type) {
		for f := range t.Fields() {
			key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case strings.Contains(options, "inline"):
				collect(f.Type)
			case key != "" && key != "-":
				types[key] = f.Type
				if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
					needs = append(needs, key)
				}
			}
		}
	}
	collect(t)
	for key, value := range strict.Pairs(n) {
		of, known := types[key.Value]
		if !known {
			cure := ""
			if best := strict.Closest(key.Value, slices.Sorted(maps.Keys(types))); best != "" {
				cure = fmt.Sprintf("did you mean %q?", best)
			}
			d.fail(key, "unknown key "+strict.Join(at, key.Value), cure)
			continue
		}
		if valid := words[member{t, key.Value}]; valid != nil && value.Kind == yaml.ScalarNode && !slices.Contains(valid, value.Value) {
			d.fail(value, fmt.Sprintf("%s cannot be %q", strict.Join(at, key.Value), value.Value), strict.Choose(value.Value, valid))
		}
		d.value(value, of, strict.Join(at, key.Value))
	}
	for _, key := range needs {
		if strict.Get(n, key) == nil {
			d.fail(n, strict.Join(at, key)+" is missing", "")
		}
	}
}
