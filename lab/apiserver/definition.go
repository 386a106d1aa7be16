package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
)

// Definition is a version of a kind that a CustomResourceDefinition defines.
type Definition struct {
	structural *schema.Structural
	schema     validation.SchemaValidator
	rules      *cel.Validator // nil if it has none
}

// NewDefinition reads a version of a CustomResourceDefinition. It is an error if an API server could not validate by it.
func NewDefinition(definition map[string]any, version string) (*Definition, error) {
	data, err := json.Marshal(definition)
	if err != nil {
		return nil, err
	}
	var d apiextensionsv1.CustomResourceDefinition
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(d.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return v.Name == version && v.Schema != nil
	})
	if i < 0 || d.Spec.PreserveUnknownFields {
		return nil, fmt.Errorf("version %s has no schema", version)
	}
	var internal apiextensions.CustomResourceValidation
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(d.Spec.Versions[i].Schema, &internal, nil); err != nil {
		return nil, err
	}
	of := &Definition{}
	if of.structural, err = schema.NewStructural(internal.OpenAPIV3Schema); err != nil {
		return nil, err
	}
	if of.schema, _, err = validation.NewSchemaValidator(internal.OpenAPIV3Schema); err != nil {
		return nil, err
	}
	of.rules = cel.NewValidator(of.structural, true, celconfig.PerCallLimit)
	return of, nil
}

// Create returns why an API server refuses a new object of the kind.
func (d *Definition) Create(object map[string]any) []Problem {
	_, errs := d.create(object)
	return problems(nil, errs, nil)
}

func (d *Definition) create(object map[string]any) (*unstructured.Unstructured, field.ErrorList) {
	u := d.defaulted(object)
	errs := apivalidation.ValidateObjectMetaAccessor(u, u.GetNamespace() != "", apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, validation.ValidateCustomResource(nil, u.Object, d.schema)...)
	errs = append(errs, objectmeta.Validate(context.Background(), nil, u.Object, d.structural, false)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, d.structural, u.Object)...)
	return u, append(errs, d.ruled(errs, u.Object, nil)...)
}

// Update returns why an API server refuses that an object of the kind becomes another one.
func (d *Definition) Update(before, after map[string]any) []Problem {
	return problems(nil, d.update(before, after), nil)
}

func (d *Definition) update(before, after map[string]any) field.ErrorList {
	old, u := d.defaulted(before), d.defaulted(after)
	same := common.NewCorrelatedObject(u.Object, old.Object, &model.Structural{Structural: d.structural}) // what was invalid before may remain so
	errs := apivalidation.ValidateObjectMetaAccessorUpdate(u, old, field.NewPath("metadata"))
	errs = append(errs, validation.ValidateCustomResourceUpdate(nil, u.Object, old.Object, d.schema, validation.WithRatcheting(same))...)
	errs = append(errs, objectmeta.Validate(context.Background(), nil, u.Object, d.structural, false)...)
	if len(listtype.ValidateListSetsAndMaps(nil, d.structural, old.Object)) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, d.structural, u.Object)...)
	}
	return append(errs, d.ruled(errs, u.Object, old.Object, cel.WithRatcheting(same))...)
}

// ruled applies the rules, if the object is valid enough for them.
func (d *Definition) ruled(errs field.ErrorList, object, old any, options ...cel.Option) field.ErrorList {
	if d.rules == nil {
		return nil
	}
	blocking := []field.ErrorType{field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid}
	if slices.ContainsFunc(errs, func(e *field.Error) bool { return slices.Contains(blocking, e.Type) }) {
		return field.ErrorList{field.Invalid(nil, nil, unchecked)}
	}
	list, _ := d.rules.Validate(context.Background(), nil, d.structural, object, old, celconfig.RuntimeCELCostBudget, options...)
	return list
}

// unchecked is what an API server says of the rules that it has not applied.
const unchecked = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"

// Unknown returns the paths of the fields that the kind has not.
func (d *Definition) Unknown(object map[string]any) []string {
	return d.prune(runtime.DeepCopyJSON(object))
}

func (d *Definition) prune(object map[string]any) []string {
	return pruning.PruneWithOptions(object, d.structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
}

// defaulted returns an object as it is validated: without unknown fields and empty ones, and with defaults.
func (d *Definition) defaulted(object map[string]any) *unstructured.Unstructured {
	o := runtime.DeepCopyJSON(object)
	d.prune(o)
	defaulting.PruneNonNullableNullsWithoutDefaults(o, d.structural)
	defaulting.Default(o, d.structural)
	u := &unstructured.Unstructured{Object: o}
	u.SetResourceVersion("1")
	return u
}

// Defaulted returns an object of the kind with its defaults.
func (d *Definition) Defaulted(object map[string]any) map[string]any {
	o := runtime.DeepCopyJSON(object)
	defaulting.Default(o, d.structural)
	return o
}
