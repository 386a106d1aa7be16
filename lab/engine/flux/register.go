package flux

import (
	"cmp"
	"context"
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
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/kube"
	"homelab/lab/flux"
)

const (
	registration = "registration"

	serverAnnotation  = "lab.homelab/server"
	secretsAnnotation = "lab.homelab/kubeconfig-secrets"
)

func (f *Flux) access() kube.Access {
	return kube.Access{Account: "flux-manager", Labels: f.labels(registration)}
}

// Register registers a cluster: its namespace first, so that nothing waits for it, then the bridge's ConfigMap and the Secret with its kubeconfig. It
// describes the changes. spoke reaches the cluster; nil for the hub itself. It works before Flux is installed.
func (f *Flux) Register(ctx context.Context, reg lab.Registration, spoke *rest.Config) ([]string, error) {
	lines, err := f.register(ctx, reg, spoke)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", reg.Cluster, err)
	}
	return lines, nil
}

func (f *Flux) register(ctx context.Context, reg lab.Registration, spoke *rest.Config) ([]string, error) {
	var cred kube.Credential
	repaired := false
	if spoke != nil {
		c, err := f.connect(spoke)
		if err != nil {
			return nil, err
		}
		own := kube.Namespace{Name: kube.SpokeNamespace, Labels: f.labels("engine")}
		if err := own.Ensure(ctx, c.Dynamic, silent); err != nil {
			return nil, err
		}
		if cred, repaired, err = f.access().Ensure(ctx, c.Dynamic); err != nil {
			return nil, err
		}
	}
	ns := kube.Namespace{Name: flux.NamespaceOf(reg.Cluster), Labels: f.labels(registration)}
	if err := ns.Ensure(ctx, f.hub.Dynamic, silent); err != nil {
		return nil, err
	}
	have, err := f.registrationSecret(ctx, reg.Cluster)
	if err != nil {
		return nil, err
	}
	config, err := kubeconfig(reg, cred)
	if err != nil {
		return nil, err
	}
	since, renewed := time.Time{}, false
	if have != nil {
		since = kube.CredentialsSince(have)
		renewed = repaired || kube.SecretField(have, "value") != config || since.IsZero()
	}
	if have == nil || renewed {
		if since, err = f.now(ctx, reg, config); err != nil {
			return nil, err
		}
	}
	want, err := f.secret(reg, config, since)
	if err != nil {
		return nil, err
	}
	copied, err := f.applyKubeconfigs(ctx, reg, config)
	if err != nil {
		return nil, err
	}
	replaced, err := f.applyVars(ctx, reg.Cluster, flux.Variables(lab.Strings(reg.Labels), lab.Strings(reg.Annotations)))
	if err != nil {
		return nil, err
	}
	before, after, err := kube.Apply(ctx, f.hub.Dynamic, kube.Secrets, want)
	switch {
	case err != nil:
		return nil, err
	case have == nil:
		return []string{"registered as " + reg.Server}, nil
	case renewed:
		return append(engine.Diff(reg, f.registered(have)), "credentials renewed"), nil
	case !kube.Changed(before, after) && !replaced && !copied:
		return nil, nil
	}
	lines := engine.Diff(reg, f.registered(have))
	if len(lines) == 0 {
		lines = []string{"registration repaired"}
	}
	return lines, nil
}

// now writes the Secret once without a time, and returns the time of that by the hub's clock.
func (f *Flux) now(ctx context.Context, reg lab.Registration, config string) (time.Time, error) {
	want, err := f.secret(reg, config, time.Time{})
	if err != nil {
		return time.Time{}, err
	}
	_, after, err := kube.Apply(ctx, f.hub.Dynamic, kube.Secrets, want)
	if err != nil {
		return time.Time{}, err
	}
	return kube.AppliedAt(after), nil
}

// kubeconfig returns the hub's kubeconfig of a cluster; empty for the hub itself.
func kubeconfig(reg lab.Registration, cred kube.Credential) (string, error) {
	if cred.Token == "" {
		return "", nil
	}
	cluster := &clientcmdapi.Cluster{Server: reg.Server, CertificateAuthorityData: cred.CA}
	if reg.Via != "" {
		at, err := url.Parse(reg.Via)
		if err != nil {
			return "", err
		}
		cluster.ProxyURL, cluster.TLSServerName = reg.Proxy, at.Hostname()
	}
	text, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{reg.Cluster: cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"flux": {Token: cred.Token}},
		Contexts:       map[string]*clientcmdapi.Context{reg.Cluster: {Cluster: reg.Cluster, AuthInfo: "flux"}},
		CurrentContext: reg.Cluster,
	})
	return string(text), err
}

func (f *Flux) secret(reg lab.Registration, config string, since time.Time) (*unstructured.Unstructured, error) {
	labels, annotations := map[string]any{}, map[string]any{serverAnnotation: reg.Server}
	for k, v := range reg.Labels {
		labels[k] = v.Value
	}
	for k, v := range reg.Annotations {
		annotations[k] = v.Value
	}
	if len(reg.KubeconfigSecrets) > 0 {
		annotations[secretsAnnotation] = formatSecrets(reg.KubeconfigSecrets)
	}
	maps.Copy(labels, f.labels(registration))
	if !since.IsZero() {
		annotations[kube.SinceAnnotation] = since.UTC().Format(time.RFC3339)
	}
	data := map[string]string{}
	if config != "" {
		data["value"] = config
	}
	return kube.Secret(map[string]any{"name": flux.ClusterKubeconfig, "namespace": flux.NamespaceOf(reg.Cluster), "labels": labels, "annotations": annotations}, data), nil
}

// watched makes Flux reconcile a Kustomization when a referenced object changes. The Secret does not have it: changed labels and annotations would restart releases,
// and new credentials are followed by requests for all anyway.
const watched = "reconcile.fluxcd.io/watch"

// hasVars reports whether this Flux has a cluster's variables, rather than the cluster's own.
func (f *Flux) hasVars(cluster string) bool { return f.home == "" || cluster == f.home }

// applyVars creates a cluster's immutable ConfigMap, replacing one with other variables. It reports whether it did.
func (f *Flux) applyVars(ctx context.Context, cluster string, vars map[string]string) (bool, error) {
	if !f.hasVars(cluster) {
		return false, nil
	}
	labels := f.labels(registration)
	labels[watched] = "Enabled"
	want := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "immutable": true, "data": values(vars),
		"metadata": map[string]any{"name": flux.ClusterVars, "namespace": flux.NamespaceOf(cluster), "labels": labels},
	}}
	have, same, err := kube.Compare(ctx, f.hub.Dynamic, kube.ConfigMaps, want)
	if err != nil || same {
		return false, err
	}
	if have != nil {
		objects, name := kube.Place(f.hub.Dynamic, kube.ConfigMaps, want)
		if err := objects.Delete(ctx, flux.ClusterVars, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return false, kube.Wrap(name, err)
		}
	}
	_, _, err = kube.Apply(ctx, f.hub.Dynamic, kube.ConfigMaps, want)
	return true, err
}

func values(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// registrations lists the clusters that this lab registered.
func (f *Flux) registrations(ctx context.Context) ([]engine.Registered, error) {
	own := metav1.ListOptions{LabelSelector: lab.LabelName + "=" + f.lab + "," + lab.LabelPart + "=" + registration}
	list, err := f.hub.Dynamic.Resource(kube.Secrets).List(ctx, own)
	if err != nil {
		return nil, fmt.Errorf("registrations: %w", err)
	}
	variables, err := f.hub.Dynamic.Resource(kube.ConfigMaps).List(ctx, own)
	if err != nil {
		return nil, fmt.Errorf("registrations: %w", err)
	}
	copies, err := f.kubeconfigs(ctx)
	if err != nil {
		return nil, fmt.Errorf("registrations: %w", err)
	}
	complete := map[string]bool{}
	for _, o := range variables.Items {
		if o.GetName() == flux.ClusterVars {
			complete[o.GetNamespace()] = true
		}
	}
	var out []engine.Registered
	for i := range list.Items {
		if o := &list.Items[i]; o.GetName() == flux.ClusterKubeconfig {
			r := f.registered(o)
			r.Defect = cmp.Or(defect(o, complete[o.GetNamespace()] || !f.hasVars(r.Cluster)), missingKubeconfig(o, r.Secrets, copies))
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(x, y engine.Registered) int { return cmp.Compare(x.Cluster, y.Cluster) })
	return out, nil
}

// registrationSecret returns the Secret of one cluster, or nil if it is not registered.
func (f *Flux) registrationSecret(ctx context.Context, cluster string) (*unstructured.Unstructured, error) {
	o, err := f.hub.Dynamic.Resource(kube.Secrets).Namespace(flux.NamespaceOf(cluster)).Get(ctx, flux.ClusterKubeconfig, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return o, kube.Wrap("registration of "+cluster, err)
}

func (f *Flux) registered(o *unstructured.Unstructured) engine.Registered {
	labels := kube.Own(o, "labels", o.GetLabels())
	for k := range f.labels(registration) {
		delete(labels, k)
	}
	annotations := kube.Own(o, "annotations", o.GetAnnotations())
	server, secrets := annotations[serverAnnotation], parseSecrets(o.GetAnnotations()[secretsAnnotation])
	delete(annotations, serverAnnotation)
	delete(annotations, kube.SinceAnnotation)
	delete(annotations, secretsAnnotation)
	cluster, _ := flux.ClusterOf(o.GetNamespace())
	return engine.Registered{Cluster: cluster, Server: server, Since: kube.CredentialsSince(o), Labels: labels, Annotations: annotations, Secrets: secrets}
}

const incomplete = "its credentials are incomplete"

// defect reports what a run that was killed while registering a cluster left out, or "". o is the registration's Secret.
func defect(o *unstructured.Unstructured, vars bool) string {
	switch {
	case kube.CredentialsSince(o).IsZero():
		return incomplete
	case !vars:
		return "its variables are missing"
	}
	return ""
}

// defectOf is defect for one registration.
func (f *Flux) defectOf(ctx context.Context, o *unstructured.Unstructured) (string, error) {
	cluster, _ := flux.ClusterOf(o.GetNamespace())
	if !f.hasVars(cluster) {
		return defect(o, true), nil
	}
	_, err := f.hub.Dynamic.Resource(kube.ConfigMaps).Namespace(o.GetNamespace()).Get(ctx, flux.ClusterVars, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return "", kube.Wrap("variables of "+cluster, err)
	}
	return defect(o, err == nil), nil
}

// CheckCredentials reports why a spoke rejects Flux's registered credentials, or "" if it accepts them or is not registered.
func (f *Flux) CheckCredentials(ctx context.Context, cluster string, spoke *rest.Config) (string, error) {
	have, err := f.registrationSecret(ctx, cluster)
	if have == nil || err != nil {
		return "", err
	}
	if why, err := f.defectOf(ctx, have); why != "" || err != nil {
		return why, err
	}
	cred, err := credential(kube.SecretField(have, "value"))
	if err != nil {
		return incomplete, nil
	}
	why, err := kube.Refusal(ctx, f.connect, spoke, cred)
	return why, kube.Wrap("cluster "+cluster+": check credentials", err)
}

// credential reads lab's own kubeconfig.
func credential(text string) (kube.Credential, error) {
	cfg, err := clientcmd.Load([]byte(text))
	if err != nil {
		return kube.Credential{}, err
	}
	at := cfg.Contexts[cfg.CurrentContext]
	if at == nil || cfg.Clusters[at.Cluster] == nil || cfg.AuthInfos[at.AuthInfo] == nil {
		return kube.Credential{}, errors.New("no current context")
	}
	return kube.Credential{Token: cfg.AuthInfos[at.AuthInfo].Token, CA: cfg.Clusters[at.Cluster].CertificateAuthorityData}, nil
}

func silent(string) {}
