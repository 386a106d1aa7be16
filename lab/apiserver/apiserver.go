// Package apiserver does with objects what an API server does before it stores them, with its own code: it sets defaults, validates what is new and what has changed, and applies
// the rules of definitions. What needs the state of a cluster (quotas, names in use, admission by webhooks) is not done. It is held to recordings of a real one.
package apiserver

import (
	"cmp"
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	admissionregistrationinstall "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	appsinstall "k8s.io/kubernetes/pkg/apis/apps/install"
	autoscalinginstall "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	batchinstall "k8s.io/kubernetes/pkg/apis/batch/install"
	coreinstall "k8s.io/kubernetes/pkg/apis/core/install"
	networkinginstall "k8s.io/kubernetes/pkg/apis/networking/install"
	nodeinstall "k8s.io/kubernetes/pkg/apis/node/install"
	policyinstall "k8s.io/kubernetes/pkg/apis/policy/install"
	rbacinstall "k8s.io/kubernetes/pkg/apis/rbac/install"
	schedulinginstall "k8s.io/kubernetes/pkg/apis/scheduling/install"
	storageinstall "k8s.io/kubernetes/pkg/apis/storage/install"
	"k8s.io/kubernetes/pkg/features"
	strictjson "sigs.k8s.io/json"
)

// scheme has Kubernetes' own kinds, in all versions.
var scheme = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, install := range []func(*runtime.Scheme){
		admissionregistrationinstall.Install, appsinstall.Install, autoscalinginstall.Install, batchinstall.Install, coreinstall.Install, networkinginstall.Install,
		nodeinstall.Install, policyinstall.Install, rbacinstall.Install, schedulinginstall.Install, storageinstall.Install,
	} {
		install(s)
	}
	return s
})

// options are those of declared validation: features that are off by default.
var options = map[string]bool{string(features.WorkloadWithJob): false, string(features.HPAScaleToZero): false}

// Has reports whether a kind is Kubernetes' own.
func Has(gvk schema.GroupVersionKind) bool { return scheme().Recognizes(gvk) }

// Problem is why an API server refuses an object.
type Problem struct {
	Path    string // of a field; empty for the object
	Message string
}

func (p Problem) String() string {
	if p.Path == "" {
		return p.Message
	}
	return p.Path + ": " + p.Message
}

// Defaulted returns an object with the defaults of its kind: as an API server stores it, before controllers have seen it. A kind that is not Kubernetes' own is returned as it is.
func Defaulted(object map[string]any) (map[string]any, error) {
	o, err := decode(object)
	if err != nil || o == nil {
		return object, err
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(o)
}

// Applied returns what is stored once a manifest has become another one: a default that the API server has set stays where neither has the field.
func Applied(before, after map[string]any) (map[string]any, error) {
	o, err := decode(before)
	switch {
	case err != nil || o == nil:
		return after, err
	case before["apiVersion"] != after["apiVersion"] || before["kind"] != after["kind"]:
		return Defaulted(after)
	}
	stored, err := json.Marshal(o)
	original, err2 := json.Marshal(before)
	modified, err3 := json.Marshal(after)
	if err := cmp.Or(err, err2, err3); err != nil {
		return nil, err
	}
	of, err := strategicpatch.NewPatchMetaFromStruct(o)
	if err != nil {
		return nil, err
	}
	patch, err := strategicpatch.CreateThreeWayMergePatch(original, modified, stored, of, true)
	if err != nil {
		return nil, err
	}
	changed, err := strategicpatch.StrategicMergePatchUsingLookupPatchMeta(stored, patch, of)
	if err != nil {
		return nil, err
	}
	var merged map[string]any
	if err := strictjson.UnmarshalCaseSensitivePreserveInts(changed, &merged); err != nil {
		return nil, err
	}
	return Defaulted(merged)
}

// Create returns why an API server refuses a new object of Kubernetes' own kinds.
func Create(object map[string]any) []Problem { return problems(create(object)) }

func create(object map[string]any) (runtime.Object, field.ErrorList, error) {
	o, of, err := prepared(object)
	if err != nil || of == nil {
		return nil, nil, err
	}
	written, gv := of.create(o), versionOf(object)
	versioned, err := scheme().ConvertToVersion(o, gv)
	if err != nil {
		return nil, nil, err
	}
	return o, joined(written, scheme().Validate(context.Background(), options, versioned)), nil
}

// Update returns why an API server refuses that an object, which is valid, becomes another one of its kind. stored is what Applied returns.
func Update(before, stored map[string]any) []Problem { return problems(update(before, stored)) }

func update(before, stored map[string]any) (runtime.Object, field.ErrorList, error) {
	old, of, err := prepared(before)
	if err != nil || of == nil {
		return nil, nil, err
	}
	o, _, err := prepared(stored)
	if err != nil || o == nil || reflect.TypeOf(o) != reflect.TypeOf(old) {
		return nil, nil, err
	}
	if of.stored != nil {
		of.stored(o, old)
	}
	written, gv := of.update(o, old), versionOf(stored)
	is, err := scheme().ConvertToVersion(o, gv)
	was, err2 := scheme().ConvertToVersion(old, gv)
	if err := cmp.Or(err, err2); err != nil {
		return nil, nil, err
	}
	return o, joined(written, scheme().ValidateUpdate(context.Background(), options, is, was)), nil
}

// joined adds the errors of declared validation to those of the code that it takes the place of.
func joined(written, declared field.ErrorList) field.ErrorList {
	const beta = true // the default of DeclarativeValidationBeta
	declared = validate.FilterEnforcedDeclarativeErrors(context.Background(), declared, beta)
	return append(validate.FilterCoveredHandwrittenErrors(context.Background(), written, declared, beta), declared...)
}

func versionOf(object map[string]any) schema.GroupVersion {
	text, _ := object["apiVersion"].(string)
	gv, _ := schema.ParseGroupVersion(text) // it is registered
	return gv
}

// prepared returns an object as it is validated, and the rules of its kind, or nil for a kind without.
func prepared(object map[string]any) (runtime.Object, *kind, error) {
	o, err := decode(object)
	if err != nil || o == nil {
		return nil, nil, err
	}
	gvk := o.GetObjectKind().GroupVersionKind()
	of, known := kinds[gvk.GroupKind()]
	if !known {
		return nil, nil, nil
	}
	internal, err := scheme().ConvertToVersion(o, schema.GroupVersion{Group: gvk.Group, Version: runtime.APIVersionInternal})
	if err != nil {
		return nil, nil, err
	}
	if m, err := meta.Accessor(internal); err == nil { // as those of a stored object
		m.SetResourceVersion("1")
		m.SetUID("00000000-0000-0000-0000-000000000000")
	}
	of.prepare(internal)
	return internal, &of, nil
}

// decode returns an object of Kubernetes' own kinds with its defaults, or nil for another one.
func decode(object map[string]any) (runtime.Object, error) {
	version, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	o, err := scheme().New(schema.FromAPIVersionAndKind(version, kind))
	if runtime.IsNotRegisteredError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	if err := strictjson.UnmarshalCaseSensitivePreserveInts(data, o); err != nil {
		return nil, err
	}
	scheme().Default(o)
	return o, nil
}

// problems returns errors as problems, without duplicates.
func problems(of runtime.Object, errs field.ErrorList, err error) []Problem {
	if err != nil {
		return []Problem{{Message: err.Error()}}
	}
	var list []Problem
	for _, err := range errs {
		if err.Field == "metadata.namespace" && err.Type == field.ErrorTypeRequired {
			continue // it is given with the request
		}
		p := Problem{Path: strings.TrimPrefix(err.Field, "<nil>."), Message: strings.Replace(message(of, err), err.Field+" in body ", "", 1)}
		if !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	return list
}
