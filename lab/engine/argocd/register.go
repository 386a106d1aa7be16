package argocd

import (
	"cmp"
	"context"
	"encoding/json"
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
	"homelab/lab/argo"
	"homelab/lab/engine"
	"homelab/lab/engine/kube"
)

const (
	registration = "registration"
	secretPrefix = "cluster-"
)

// access is Argo CD's account in spokes, named as `argocd cluster add` does.
func (a *ArgoCD) access() kube.Access {
	return kube.Access{Account: "argocd-manager", Labels: a.labels(registration)}
}

// Register registers a cluster with Argo CD and describes the changes. spoke reaches the cluster; nil for the hub itself. It works before Argo CD is installed,
// so that clusters and engine can be created concurrently.
func (a *ArgoCD) Register(ctx context.Context, reg lab.Registration, spoke *rest.Config) ([]string, error) {
	lines, err := a.register(ctx, reg, spoke)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", reg.Cluster, err)
	}
	return lines, nil
}

func (a *ArgoCD) register(ctx context.Context, reg lab.Registration, spoke *rest.Config) ([]string, error) {
	as, repaired := entry{}, false
	if spoke != nil {
		c, err := a.connect(spoke)
		if err != nil {
			return nil, err
		}
		if err := a.ensureNamespace(ctx, c.Dynamic, kube.SpokeNamespace, silent); err != nil {
			return nil, err
		}
		cred, made, err := a.access().Ensure(ctx, c.Dynamic)
		if err != nil {
			return nil, err
		}
		as.config.BearerToken, as.config.TLS.CAData = cred.Token, cred.CA
		if reg.Via != "" {
			at, err := url.Parse(reg.Via)
			if err != nil {
				return nil, err
			}
			as.config.ProxyURL, as.config.TLS.ServerName = reg.Proxy, at.Hostname()
		}
		repaired = made
	}
	if err := a.ensureNamespace(ctx, a.hub.Dynamic, a.namespace, silent); err != nil {
		return nil, err
	}
	have, err := a.registrationSecret(ctx, reg.Cluster)
	switch {
	case err != nil:
		return nil, err
	case have == nil:
		return []string{"registered as " + reg.Server}, a.announce(ctx, reg, as, true)
	case repaired || !sameConfig(have, as.config) || kube.CredentialsSince(have).IsZero():
		return append(engine.Diff(reg, a.registered(have)), "credentials renewed"), a.announce(ctx, reg, as, false)
	}
	as.since = kube.CredentialsSince(have)
	before, after, err := a.applyRegistration(ctx, reg, as)
	if err != nil || !kube.Changed(before, after) {
		return nil, err
	}
	lines := engine.Diff(reg, a.registered(before))
	if len(lines) == 0 {
		lines = []string{"registration repaired"}
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
	as.since = kube.AppliedAt(written)
	_, _, err = a.applyRegistration(ctx, reg, as)
	return err
}

func (a *ArgoCD) applyRegistration(ctx context.Context, reg lab.Registration, as entry) (before, after *unstructured.Unstructured, err error) {
	want, err := a.clusterSecret(reg, as)
	if err != nil {
		return nil, nil, err
	}
	return kube.Apply(ctx, a.hub.Dynamic, secrets, want)
}

// entry is Argo CD's access to a cluster and the time from which it is valid.
type entry struct {
	config clusterConfig
	since  time.Time // in seconds; zero in the first of two steps
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
	return err == nil && kube.SecretField(registration, "config") == string(doc)
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
	labels[argo.SecretType] = argo.SecretTypeCluster
	if !as.since.IsZero() {
		annotations[kube.SinceAnnotation] = as.since.UTC().Format(time.RFC3339)
	}
	meta := map[string]any{"name": secretPrefix + reg.Cluster, "namespace": a.namespace, "labels": labels}
	if len(annotations) > 0 {
		meta["annotations"] = annotations
	}
	return kube.Secret(meta, map[string]string{"name": reg.Cluster, "server": reg.Server, "config": string(doc)}), nil
}

// registrations lists the clusters that this lab registered.
func (a *ArgoCD) registrations(ctx context.Context) ([]engine.Registered, error) {
	list, err := a.hub.Dynamic.Resource(secrets).Namespace(a.namespace).List(ctx, metav1.ListOptions{
		LabelSelector: argo.SecretType + "=" + argo.SecretTypeCluster + "," + lab.LabelName + "=" + a.lab,
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

// validSince returns for each registered cluster since when its status is valid.
func validSince(registrations []engine.Registered, want engine.Want) map[string]time.Time {
	out := map[string]time.Time{}
	for _, r := range registrations {
		out[r.Cluster] = want.ValidSince(r.Cluster, registrations)
	}
	return out
}

// registrationSecret returns the Secret of one cluster, or nil if it is not registered.
func (a *ArgoCD) registrationSecret(ctx context.Context, cluster string) (*unstructured.Unstructured, error) {
	o, err := a.hub.Dynamic.Resource(secrets).Namespace(a.namespace).Get(ctx, secretPrefix+cluster, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return o, kube.Wrap("registration "+secretPrefix+cluster, err)
}

// registered converts a cluster Secret, with the labels and annotations set by lab.
func (a *ArgoCD) registered(o *unstructured.Unstructured) engine.Registered {
	labels := kube.Own(o, "labels", o.GetLabels())
	for k := range a.labels(registration) {
		delete(labels, k)
	}
	delete(labels, argo.SecretType)
	annotations := kube.Own(o, "annotations", o.GetAnnotations())
	delete(annotations, kube.SinceAnnotation)
	return engine.Registered{
		Cluster: kube.SecretField(o, "name"), Server: kube.SecretField(o, "server"), Since: kube.CredentialsSince(o), Labels: labels, Annotations: annotations,
	}
}
