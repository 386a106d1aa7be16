package kube

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// Decode parses a stream of YAML or JSON documents, which must contain objects.
func Decode(manifest []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	docs := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		var o unstructured.Unstructured
		switch err := docs.Decode(&o.Object); {
		case errors.Is(err, io.EOF) && len(objects) == 0:
			return nil, errors.New("the manifest is empty")
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, fmt.Errorf("manifest: %w", err)
		}
		if len(o.Object) > 0 {
			objects = append(objects, &o)
		}
	}
}

// Digest returns a digest of parts of an object, as JSON.
func Digest(parts ...any) string {
	b, err := json.Marshal(parts)
	if err != nil {
		return "" // the parts came from JSON
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
