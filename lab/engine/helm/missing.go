package helm

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"helm.sh/helm/v3/pkg/release"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/yaml"
)

// object identifies an object of a manifest.
type object struct {
	kind schema.GroupVersionKind
	name types.NamespacedName // namespace as in the manifest, may be empty
}

func (o object) String() string { return strings.ToLower(o.kind.Kind) + " " + o.name.Name }

// missing returns the objects of a release that were deleted from the cluster.
func (c *Client) missing(ctx context.Context, rel *release.Release) ([]string, error) {
	want := objects(rel.Manifest)
	if rel.Chart != nil {
		for _, crd := range rel.Chart.CRDObjects() {
			want = append(want, objects(string(crd.File.Data))...)
		}
	}
	kinds := map[schema.GroupVersionKind][]object{}
	for _, o := range want {
		kinds[o.kind] = append(kinds[o.kind], o)
	}
	var mu sync.Mutex
	var gone []string
	group, ctx := errgroup.WithContext(ctx)
	for kind, list := range kinds {
		group.Go(func() error {
			have, err := c.list(ctx, kind)
			if err != nil {
				return fmt.Errorf("release %s: %w", rel.Name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, o := range list {
				namespace := o.name.Namespace
				if namespace == "" {
					namespace = rel.Namespace
				}
				if !have[types.NamespacedName{Namespace: namespace, Name: o.name.Name}] && !have[types.NamespacedName{Name: o.name.Name}] { // cluster-scoped
					gone = append(gone, o.String())
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	slices.Sort(gone)
	return gone, nil
}

// listOf lists the objects of a kind in all namespaces by their metadata; none of an unknown kind.
func listOf(client metadata.Interface) func(context.Context, schema.GroupVersionKind) (map[types.NamespacedName]bool, error) {
	return func(ctx context.Context, kind schema.GroupVersionKind) (map[types.NamespacedName]bool, error) {
		resource, _ := meta.UnsafeGuessKindToResource(kind) // all of Kubernetes follows the naming convention
		list, err := client.Resource(resource).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", resource.Resource, err)
		}
		have := map[types.NamespacedName]bool{}
		for _, o := range list.Items {
			have[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}] = o.DeletionTimestamp == nil
		}
		return have, nil
	}
}

// objects returns the objects of a rendered manifest. Decoding every document of a chart takes tens of milliseconds, so that documents in the usual form are scanned
// by line.
func objects(manifest string) []object {
	var list []object
	for _, doc := range splitYAML(manifest) {
		apiVersion, kind, name, namespace := head(doc)
		if apiVersion == "" || kind == "" || name == "" {
			var o metav1.PartialObjectMetadata
			if yaml.Unmarshal([]byte(doc), &o) != nil {
				continue
			}
			apiVersion, kind, name, namespace = o.APIVersion, o.Kind, o.Name, o.Namespace
		}
		if kind == "" || name == "" {
			continue // only comments, or a generated name
		}
		list = append(list, object{schema.FromAPIVersionAndKind(apiVersion, kind), types.NamespacedName{Namespace: namespace, Name: name}})
	}
	return list
}

// head scans the lines that identify an object; missing ones are empty.
func head(doc string) (apiVersion, kind, name, namespace string) {
	inMetadata := false
	for line := range strings.Lines(doc) {
		line = strings.TrimRight(line, "\r\n ")
		switch {
		case strings.HasPrefix(line, "apiVersion: "):
			apiVersion = scalar(line)
		case strings.HasPrefix(line, "kind: "):
			kind = scalar(line)
		case line == "metadata:":
			inMetadata = true
		case line != "" && line[0] != ' ' && line[0] != '#':
			inMetadata = false
		case inMetadata && strings.HasPrefix(line, "  name: "):
			name = scalar(line)
		case inMetadata && strings.HasPrefix(line, "  namespace: "):
			namespace = scalar(line)
		}
		if apiVersion != "" && kind != "" && name != "" && !inMetadata {
			return apiVersion, kind, name, namespace
		}
	}
	return apiVersion, kind, name, namespace
}

// scalar returns the plain or quoted value of a line; empty for others.
func scalar(line string) string {
	_, value, _ := strings.Cut(line, ": ")
	value, _, _ = strings.Cut(strings.TrimSpace(value), " #")
	if n := len(value); n > 1 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		value = value[1 : n-1]
	}
	if strings.ContainsAny(value, "\"'{}[]&*|>") {
		return ""
	}
	return strings.TrimSpace(value)
}
