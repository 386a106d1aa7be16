package argocd

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
)

const (
	secretType   = "argocd.argoproj.io/secret-type"
	registration = "registration"
	secretPrefix = "cluster-"
)

// Register tells Argo CD of a cluster and returns in words what that changed, nothing when it knew all of it. spoke leads into the cluster; nil for the hub
// itself. It works before Argo CD is installed, so that clusters and engine can be made side by side.
func (a *ArgoCD) Register(ctx context.Context, reg lab.Registration, spoke *rest.Config) ([]string, error) {
	config := clusterConfig{}
	if spoke != nil {
		c, err := a.connect(spoke)
		if err != nil {
			return nil, fmt.Errorf("cluster %s: %w", reg.Cluster, err)
		}
		cred, err := a.credentials(ctx, c.dynamic)
		if err != nil {
			return nil, fmt.Errorf("cluster %s: %w", reg.Cluster, err)
		}
		config.BearerToken = cred.token
		config.TLS.CAData = cred.ca
	}
	if err := a.ensureNamespace(ctx, a.hub.dynamic, Namespace, silent); err != nil {
		return nil, err
	}
	fresh, err := a.announce(ctx, reg, config)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", reg.Cluster, err)
	}
	before, after, err := a.applyRegistration(ctx, reg, config)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", reg.Cluster, err)
	}
	if fresh {
		return []string{"registered as " + reg.Server}, nil
	}
	if !changed(before, after) {
		return nil, nil
	}
	lines := engine.Diff(reg, a.registered(before))
	if secretField(before, "config") != secretField(after, "config") {
		lines = append(lines, "credentials renewed")
	}
	if len(lines) == 0 {
		lines = []string{"registration mended"}
	}
	return lines, nil
}

// announce makes a registration that is not there yet, and says whether it was missing. Its credentials are valid, and differ from those that follow at once:
// Argo CD's controller may hold a cluster of the same address in its cache, with the credentials of an earlier registration, when it looked at it while that
// registration was being deleted. One that comes anew does not replace those, one whose credentials change does (handleAddEvent and handleModEvent in argo-cd's
// controller/cache).
func (a *ArgoCD) announce(ctx context.Context, reg lab.Registration, config clusterConfig) (bool, error) {
	_, err := a.hub.dynamic.Resource(secrets).Namespace(Namespace).Get(ctx, secretPrefix+reg.Cluster, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return false, err
	}
	at, err := url.Parse(reg.Server)
	if err != nil {
		return false, err
	}
	config.TLS.ServerName = at.Hostname()
	_, _, err = a.applyRegistration(ctx, reg, config)
	return true, err
}

func (a *ArgoCD) applyRegistration(ctx context.Context, reg lab.Registration, config clusterConfig) (before, after *unstructured.Unstructured, err error) {
	want, err := a.clusterSecret(reg, config)
	if err != nil {
		return nil, nil, err
	}
	return apply(ctx, a.hub.dynamic, secrets, want)
}

// clusterConfig is the document that Argo CD reads from a cluster Secret's key config.
type clusterConfig struct {
	BearerToken string `json:"bearerToken,omitempty"`
	TLS         struct {
		Insecure bool   `json:"insecure"`
		CAData   []byte `json:"caData,omitempty"`
		// ServerName is whom the certificate has to name, by default the host of the server's address.
		ServerName string `json:"serverName,omitempty"`
	} `json:"tlsClientConfig"`
}

func (a *ArgoCD) clusterSecret(reg lab.Registration, config clusterConfig) (*unstructured.Unstructured, error) {
	doc, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	labels, annotations := map[string]any{}, map[string]any{}
	for k, v := range reg.Labels {
		labels[k] = v.Value
	}
	for k, v := range reg.Annotations {
		annotations[k] = v.Value
	}
	maps.Copy(labels, a.labels(registration))
	labels[secretType] = "cluster"
	meta := map[string]any{"name": secretPrefix + reg.Cluster, "namespace": Namespace, "labels": labels}
	if len(annotations) > 0 {
		meta["annotations"] = annotations
	}
	return secret(meta, map[string]string{"name": reg.Cluster, "server": reg.Server, "config": string(doc)}), nil
}

func secret(meta map[string]any, data map[string]string) *unstructured.Unstructured {
	encoded := map[string]any{}
	for k, v := range data {
		encoded[k] = base64.StdEncoding.EncodeToString([]byte(v))
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": meta, "data": encoded,
	}}
}

func secretField(o *unstructured.Unstructured, key string) string {
	s, _, _ := unstructured.NestedString(o.Object, "data", key)
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return ""
	}
	return string(b)
}

// registrations lists the clusters that this lab registered.
func (a *ArgoCD) registrations(ctx context.Context) ([]engine.Registered, error) {
	list, err := a.hub.dynamic.Resource(secrets).Namespace(Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: secretType + "=cluster," + lab.LabelName + "=" + a.lab,
	})
	if err != nil {
		return nil, fmt.Errorf("registrations: %w", err)
	}
	out := make([]engine.Registered, len(list.Items))
	for i := range list.Items {
		out[i] = a.registered(&list.Items[i])
	}
	slices.SortFunc(out, func(x, y engine.Registered) int { return cmp.Compare(x.Cluster, y.Cluster) })
	return out, nil
}

// registered reads a cluster Secret, with the labels and annotations that came from a lab.Registration.
func (a *ArgoCD) registered(o *unstructured.Unstructured) engine.Registered {
	labels := own(o, "labels", o.GetLabels())
	for k := range a.labels(registration) {
		delete(labels, k)
	}
	delete(labels, secretType)
	return engine.Registered{
		Cluster: secretField(o, "name"), Server: secretField(o, "server"),
		Labels: labels, Annotations: own(o, "annotations", o.GetAnnotations()),
	}
}

func own(o *unstructured.Unstructured, field string, all map[string]string) map[string]string {
	mine := ownedKeys(o, field)
	out := map[string]string{}
	for k, v := range all {
		if mine[k] {
			out[k] = v
		}
	}
	return out
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

var errNoToken = errors.New("no token was issued")
