package appset

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"homelab/lab"
	"homelab/lab/finding"
	"homelab/lab/strict"
)

// Set is an ApplicationSet with its position.
type Set struct {
	Name string
	File string
	Spec SetSpec

	node     *yaml.Node // the document
	compiled *templates
}

// SetSpec has the fields of an ApplicationSet that determine its result.
type SetSpec struct {
	GoTemplate        bool        `json:"goTemplate,omitempty"`
	Generators        []Generator `json:"generators"`
	Template          Template    `json:"template"`
	SyncPolicy        *SetPolicy  `json:"syncPolicy,omitempty"`
	GoTemplateOptions []string    `json:"goTemplateOptions,omitempty"`
	TemplatePatch     *string     `json:"templatePatch,omitempty"`
}

// SetPolicy is the policy for the Applications. It does not affect generation.
type SetPolicy struct {
	PreserveResourcesOnDeletion bool    `json:"preserveResourcesOnDeletion,omitempty"`
	ApplicationsSync            *string `json:"applicationsSync,omitempty"`
}

// Leaf has the generators without children, and common fields. It is all that nested matrices and merges may contain.
type Leaf struct {
	List                    *List                 `json:"list,omitempty"`
	Clusters                *Clusters             `json:"clusters,omitempty"`
	Git                     *Git                  `json:"git,omitempty"`
	SCMProvider             *JSON                 `json:"scmProvider,omitempty"`
	ClusterDecisionResource *JSON                 `json:"clusterDecisionResource,omitempty"`
	PullRequest             *JSON                 `json:"pullRequest,omitempty"`
	Plugin                  *JSON                 `json:"plugin,omitempty"`
	Selector                *metav1.LabelSelector `json:"selector,omitempty"`
	OCI                     *Git                  `json:"oci,omitempty" since:"6"` // the fields are those of git
}

// Generator has one field set; at the top level, several.
type Generator struct {
	Leaf
	Matrix *Matrix `json:"matrix,omitempty"`
	Merge  *Merge  `json:"merge,omitempty"`
}

// Child is a generator within a matrix or merge. A matrix or merge in it must not contain another.
type Child struct {
	Leaf
	Matrix *JSON `json:"matrix,omitempty"`
	Merge  *JSON `json:"merge,omitempty"`
}

type List struct {
	Elements     []JSON   `json:"elements,omitempty"`
	Template     Template `json:"template,omitempty"`
	ElementsYAML string   `json:"elementsYaml,omitempty"`
}

type Clusters struct {
	Selector metav1.LabelSelector `json:"selector,omitempty"`
	Template Template             `json:"template,omitempty"`
	Values   map[string]string    `json:"values,omitempty"`
	FlatList bool                 `json:"flatList,omitempty"`
}

type Git struct {
	RepoURL         string            `json:"repoURL"`
	Directories     []GitItem         `json:"directories,omitempty"`
	Files           []GitItem         `json:"files,omitempty"`
	Revision        string            `json:"revision"`
	Template        Template          `json:"template,omitempty"`
	PathParamPrefix string            `json:"pathParamPrefix,omitempty"`
	Values          map[string]string `json:"values,omitempty"`
}

type GitItem struct {
	Path    string `json:"path"`
	Exclude bool   `json:"exclude,omitempty"`
}

type Matrix struct {
	Generators []Child  `json:"generators"`
	Template   Template `json:"template,omitempty"`
}

type Merge struct {
	Generators []Child  `json:"generators"`
	MergeKeys  []string `json:"mergeKeys"`
	Template   Template `json:"template,omitempty"`
}

// JSON is an undecoded value.
type JSON struct {
	Raw []byte `json:"-"`
}

func (j JSON) MarshalJSON() ([]byte, error) {
	if len(j.Raw) == 0 {
		return []byte("null"), nil
	}
	return j.Raw, nil
}

func (j *JSON) UnmarshalJSON(data []byte) error {
	if string(data) != "null" {
		j.Raw = slices.Clone(data)
	}
	return nil
}

// Parse reads an ApplicationSet from a document. Like an API server, it ignores unknown fields and reports invalid
// values.
func Parse(file string, doc *yaml.Node) (*Set, lab.Problems) {
	var object struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec SetSpec `json:"spec"`
	}
	if ps := decode(file, doc, &object); len(ps) > 0 {
		return nil, ps
	}
	s := &Set{Name: object.Metadata.Name, File: file, Spec: object.Spec, node: doc}
	s.compiled = newTemplates(s.Spec.GoTemplate, s.Spec.GoTemplateOptions)
	return s, s.check()
}

// decode decodes a document like an API server.
func decode(file string, doc *yaml.Node, into any) lab.Problems {
	text, err := strict.JSON(doc)
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(text, into)
	}
	if err == nil {
		return nil
	}
	at, message := mistyped(doc, err)
	return lab.Problems{{Code: finding.InvalidSet, Position: strict.Position(file, at), Message: message}}
}

// Deletes reports whether Applications that are no longer generated are deleted.
func (p *SetPolicy) Deletes() bool {
	return p.ApplicationsSync == nil || *p.ApplicationsSync == "sync" || *p.ApplicationsSync == "create-delete"
}

// Updates reports whether Applications become what is generated then.
func (p *SetPolicy) Updates() bool {
	return p.ApplicationsSync == nil || *p.ApplicationsSync == "sync" || *p.ApplicationsSync == "create-update"
}

// syncPolicies are the valid values of applicationsSync.
var syncPolicies = []string{"create-only", "create-update", "create-delete", "sync"}

// check reports violations of the CRD's schema other than types.
func (s *Set) check() lab.Problems {
	spec := strict.Get(s.node, "spec")
	if spec == nil {
		return lab.Problems{{Code: finding.InvalidSet, Position: s.at(s.node), Message: "ApplicationSet without spec"}}
	}
	ps := required(s.File, "spec", spec, reflect.TypeFor[SetSpec]())
	if h := s.Spec.Template.Spec.SourceHydrator; h != nil && !syncPath.MatchString(h.SyncSource.Path) {
		ps = append(ps, lab.Problem{Code: finding.InvalidSet, Position: s.at(strict.Get(spec, "template", "spec", "sourceHydrator", "syncSource")), Message: "syncSource.path is not a folder to sync from"})
	}
	if p := s.Spec.SyncPolicy; p != nil && p.ApplicationsSync != nil && !slices.Contains(syncPolicies, *p.ApplicationsSync) {
		ps = append(ps, lab.Problem{
			Code: finding.InvalidSet, Position: s.at(strict.Get(spec, "syncPolicy", "applicationsSync")), Message: fmt.Sprintf("no applicationsSync %q", *p.ApplicationsSync), Cure: strings.Join(syncPolicies, ", "),
		})
	}
	return ps
}

// required reports missing required fields: those without omitempty, as in the CRD.
func required(file, path string, n *yaml.Node, t reflect.Type) lab.Problems {
	var ps lab.Problems
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == rawExtension:
		if n.Kind != yaml.MappingNode {
			ps = append(ps, lab.Problem{Code: finding.InvalidSet, Position: strict.Position(file, n), Message: path + " is a mapping, not " + strict.KindOf(n)})
		}
	case t.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode:
		for i, item := range n.Content {
			ps = append(ps, required(file, fmt.Sprintf("%s[%d]", path, i), item, t.Elem())...)
		}
	case t.Kind() == reflect.Struct && n.Kind == yaml.MappingNode:
		for i := range t.NumField() {
			field := t.Field(i)
			if field.Anonymous && field.Type == reflect.TypeFor[Leaf]() {
				ps = append(ps, required(file, path, n, field.Type)...)
				continue
			}
			name, option, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" || name == "-" {
				continue
			}
			value := strict.Get(n, name)
			switch {
			case value != nil && !strict.IsNull(value):
				ps = append(ps, required(file, path+"."+name, value, field.Type)...)
			case !strings.Contains(option, "omitempty"):
				ps = append(ps, lab.Problem{Code: finding.InvalidSet, Position: strict.Position(file, n), Message: path + " without " + name})
			}
		}
	}
	return ps
}

func (s *Set) at(n *yaml.Node) lab.Position {
	if n == nil {
		n = s.node
	}
	return strict.Position(s.File, n)
}

// mistyped finds the value that failed to decode.
func mistyped(doc *yaml.Node, err error) (*yaml.Node, string) {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return doc, err.Error()
	}
	field := wrong.Field
	if n := locate(doc, strings.Split(field, "."), wrong.Value); n != nil {
		doc = n
	}
	return doc, fmt.Sprintf("%s cannot be a %s", field, wrong.Value)
}

// locate finds a node of a JSON kind below a path without indexes.
func locate(n *yaml.Node, path []string, kind string) *yaml.Node {
	if n.Kind == yaml.SequenceNode && (len(path) > 0 || kind != "array") {
		for _, c := range n.Content {
			if found := locate(c, path, kind); found != nil {
				return found
			}
		}
		return nil
	}
	switch {
	case len(path) == 0 && jsonKind(n) == kind:
		return n
	case n.Kind != yaml.MappingNode:
		return nil
	case len(path) == 0: // a map value
		for i := 1; i < len(n.Content); i += 2 {
			if found := locate(n.Content[i], nil, kind); found != nil {
				return found
			}
		}
		return nil
	}
	if next := strict.Get(n, path[0]); next != nil {
		return locate(next, path[1:], kind)
	}
	return nil
}

func jsonKind(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "object"
	case n.Kind == yaml.SequenceNode:
		return "array"
	case n.Tag == "!!bool":
		return "bool"
	case n.Tag == "!!int" || n.Tag == "!!float":
		return "number"
	}
	return "string"
}
