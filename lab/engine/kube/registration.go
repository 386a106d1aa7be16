package kube

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// SinceAnnotation records on a registration when its credentials were created. Earlier statuses refer to another cluster, or none.
const SinceAnnotation = "lab.homelab/credentials-since"

// CredentialsSince returns when a registration's credentials were created, or zero if unknown.
func CredentialsSince(registration *unstructured.Unstructured) time.Time {
	t, err := time.Parse(time.RFC3339, registration.GetAnnotations()[SinceAnnotation])
	if err != nil {
		return time.Time{}
	}
	return t
}

// Known returns an error if a cluster has no registration.
func Known(cluster string, registration *unstructured.Unstructured, err error) (*unstructured.Unstructured, error) {
	if registration == nil && err == nil {
		err = fmt.Errorf("cluster %s is not registered: lab up registers it", cluster)
	}
	return registration, err
}

// Marked returns the metadata of a registration with changed labels and annotations, for an apply with Register's field manager: lab keeps ownership, so that
// Register sees no difference once a key is restored. A key set by someone else is an error.
func Marked(o *unstructured.Unstructured, labels, annotations map[string]*string) (map[string]any, error) {
	meta := map[string]any{"name": o.GetName(), "namespace": o.GetNamespace()}
	for _, part := range []struct {
		field  string
		all    map[string]string
		change map[string]*string
	}{{"labels", o.GetLabels(), labels}, {"annotations", o.GetAnnotations(), annotations}} {
		mine, err := Change(o, part.field, part.all, part.change)
		if err != nil {
			return nil, err
		}
		if len(mine) > 0 {
			plain := make(map[string]any, len(mine))
			for k, v := range mine {
				plain[k] = v
			}
			meta[part.field] = plain
		}
	}
	return meta, nil
}
