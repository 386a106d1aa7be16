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
	"time"

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

// Register registers a cluster and returns a description of the changes, empty if there are none. spoke connects to the cluster; nil for the hub. It works
// before Argo CD is installed, so that clusters and engine can be created in parallel.
func (a *ArgoCD) Register(ctx context.Context, reg lab.Registration, spoke *rest.Config) ([]string, error) {
	lines, err := a.register(ctx, reg, spoke)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", reg.Cluster, err)
	}
	return lines, nil
}

func (a *ArgoCD) register(ctx context.Context, reg lab.Registration, spoke *rest.Config) ([]string, error) {
	as, mended := entry{}, false
	if spoke != nil {
		c, err := a.connect(spoke)
		if err != nil {
			return nil, err
		}
		cred, made, err := a.credentials(ctx, c.dynamic)
		if err != nil {
			return nil, err
		}
		as.config.BearerToken, as.config.TLS.CAData = cred.token, cred.ca
		if reg.Via != "" {
			at, err := url.Parse(reg.Via)
			if err != nil {
				return nil, err
			}
			as.config.ProxyURL, as.config.TLS.ServerName = reg.Proxy, at.Hostname()
		}
		mended = made
	}
	if err := a.ensureNamespace(ctx, a.hub.dynamic, a.namespace, silent); err != nil {
		return nil, err
	}
	have, err := a.registrationSecret(ctx, reg.Cluster)
	switch {
	case err != nil:
		return nil, err
	case have == nil:
		return []string{"registered as " + reg.Server}, a.announce(ctx, reg, as, true)
	case mended || !sameConfig(have, as.config) || credentialsSince(have).IsZero():
		return append(engine.Diff(reg, a.registered(have)), "credentials renewed"), a.announce(ctx, reg, as, false)
	}
	as.since = credentialsSince(have)
	before, after, err := a.applyRegistration(ctx, reg, as)
	if err != nil || !changed(before, after) {
		return nil, err
	}
	lines := engine.Diff(reg, a.registered(before))
	if len(lines) == 0 {
		lines = []string{"registration mended"}
	}
	return lines, nil
}

// announce writes a registration with new credentials in two valid steps. The first one returns the time on the hub's clock, by which Argo CD dates
// comparisons. For a new registration the first step also sets the server name, which the second leaves to the address, so that the credentials change: Argo
// CD's controller may have cached the same address with the credentials of an earlier registration if it read the cluster while that one was being deleted. A
// new registration does not replace these, changed credentials do (handleAddEvent and handleModEvent in argo-cd's controller/cache). Renewed credentials change
// only once: a second change while Argo CD reads the cluster again leaves its cache out of date, see unstick.
func (a *ArgoCD) announce(ctx context.Context, reg lab.Registration, as entry, fresh bool) error {
	first := as
	if fresh {
		at, err := url.Parse(reg.Server)
		if err != nil {
			return err
		}
		if as.config.TLS.ServerName != "" { // it is required: change something else
			first.config.DisableCompression = true
		} else {
			first.config.TLS.ServerName = at.Hostname()
		}
	}
	_, written, err := a.applyRegistration(ctx, reg, first)
	if err != nil {
		return err
	}
	as.since = appliedAt(written)
	_, _, err = a.applyRegistration(ctx, reg, as)
	return err
}

func (a *ArgoCD) applyRegistration(ctx context.Context, reg lab.Registration, as entry) (before, after *unstructured.Unstructured, err error) {
	want, err := a.clusterSecret(reg, as)
	if err != nil {
		return nil, nil, err
	}
	return apply(ctx, a.hub.dynamic, secrets, want)
}

// entry is Argo CD's access to a cluster and the time from which it is valid.
type entry struct {
	config clusterConfig
	since  time.Time // in seconds; zero in the first of two steps
}

// sinceAnnotation records on a registration when its credentials were created. Earlier comparisons refer to another cluster, or none.
const sinceAnnotation = "lab.homelab/credentials-since"

// credentialsSince returns when a registration's credentials were created, or zero if unknown.
func credentialsSince(registration *unstructured.Unstructured) time.Time {
	return timeOf(registration.GetAnnotations()[sinceAnnotation])
}

// timeOf parses a Kubernetes timestamp, zero if invalid.
func timeOf(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}
	}
	return t
}

func sameConfig(registration *unstructured.Unstructured, config clusterConfig) bool {
	doc, err := json.Marshal(config)
	return err == nil && secretField(registration, "config") == string(doc)
}

// clusterConfig is the value of key config in a cluster Secret.
type clusterConfig struct {
	BearerToken string `json:"bearerToken,omitempty"`
	TLS         struct {
		Insecure bool   `json:"insecure"`
		CAData   []byte `json:"caData,omitempty"`
		// ServerName is the expected name in the certificate, by default the host of the server's address.
		ServerName string `json:"serverName,omitempty"`
	} `json:"tlsClientConfig"`
	DisableCompression bool   `json:"disableCompression,omitempty"`
	ProxyURL           string `json:"proxyUrl,omitempty"`
}

func (a *ArgoCD) clusterSecret(reg lab.Registration, as entry) (*unstructured.Unstructured, error) {
	doc, err := json.Marshal(as.config)
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
	if !as.since.IsZero() {
		annotations[sinceAnnotation] = as.since.UTC().Format(time.RFC3339)
	}
	meta := map[string]any{"name": secretPrefix + reg.Cluster, "namespace": a.namespace, "labels": labels}
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
	list, err := a.hub.dynamic.Resource(secrets).Namespace(a.namespace).List(ctx, metav1.ListOptions{
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

// validSince returns for each cluster the later of its registration and last start. Times in the future predate a change of the clock, and are ignored.
func validSince(registrations []engine.Registered, want engine.Want) map[string]time.Time {
	out, now := map[string]time.Time{}, time.Now()
	for _, r := range registrations {
		out[r.Cluster] = time.Time{}
		for _, at := range []time.Time{r.Since, want.Since[r.Cluster]} {
			if at.After(out[r.Cluster]) && !at.After(now) {
				out[r.Cluster] = at
			}
		}
	}
	return out
}

// registrationSecret returns the Secret of one cluster, or nil if it is not registered.
func (a *ArgoCD) registrationSecret(ctx context.Context, cluster string) (*unstructured.Unstructured, error) {
	o, err := a.hub.dynamic.Resource(secrets).Namespace(a.namespace).Get(ctx, secretPrefix+cluster, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return o, wrap("registration "+secretPrefix+cluster, err)
}

// registered converts a cluster Secret, with the labels and annotations set by lab.
func (a *ArgoCD) registered(o *unstructured.Unstructured) engine.Registered {
	labels := own(o, "labels", o.GetLabels())
	for k := range a.labels(registration) {
		delete(labels, k)
	}
	delete(labels, secretType)
	annotations := own(o, "annotations", o.GetAnnotations())
	delete(annotations, sinceAnnotation)
	return engine.Registered{
		Cluster: secretField(o, "name"), Server: secretField(o, "server"), Since: credentialsSince(o), Labels: labels, Annotations: annotations,
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
