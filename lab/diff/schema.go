package diff

import (
	"reflect"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
)

// schemaOf returns what Kubernetes knows of the lists in an object, or nil for a kind that is not its own.
func schemaOf(object any) strategicpatch.LookupPatchMeta {
	m, _ := object.(map[string]any)
	version, _ := m["apiVersion"].(string)
	kind, _ := m["kind"].(string)
	typed, err := scheme.Scheme.New(schema.FromAPIVersionAndKind(version, kind))
	if err != nil {
		return nil
	}
	return strategicpatch.PatchMetaFromStruct{T: reflect.TypeOf(typed).Elem()}
}

// below returns the schema of a field: of a mapping its own, of a list that of the mapping, as its elements' is looked up by its name.
func below(s strategicpatch.LookupPatchMeta, key string, v any) strategicpatch.LookupPatchMeta {
	if s == nil {
		return nil
	}
	if !isMapping(v) {
		return s
	}
	sub, _, err := s.LookupPatchMetadataForStruct(key)
	if err != nil {
		return nil
	}
	return sub
}

// elements returns the schema of the elements of a list.
func elements(at Path, s strategicpatch.LookupPatchMeta) strategicpatch.LookupPatchMeta {
	if s == nil || len(at) == 0 {
		return nil
	}
	sub, _, err := s.LookupPatchMetadataForSlice(at[len(at)-1].Key)
	if err != nil {
		return nil
	}
	return sub
}
