package kube

import (
	"encoding/base64"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Secret returns a Secret of plain data.
func Secret(meta map[string]any, data map[string]string) *unstructured.Unstructured {
	encoded := map[string]any{}
	for k, v := range data {
		encoded[k] = base64.StdEncoding.EncodeToString([]byte(v))
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": meta, "data": encoded,
	}}
}

// SecretField returns the plain data of a Secret under a key; empty if absent or malformed.
func SecretField(o *unstructured.Unstructured, key string) string {
	s, _, _ := unstructured.NestedString(o.Object, "data", key)
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return ""
	}
	return string(b)
}
