// Package bridge turns what is known of a cluster into the labels and annotations that its cluster Secret carries on the hub: the GitOps Bridge
// (https://github.com/gitops-bridge-dev/gitops-bridge), whose keys it uses. It is pure. Every value keeps its origin.
package bridge

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"homelab/lab"
	"homelab/lab/cloud"
)

// Origins of a value.
const (
	FromCluster     = "cluster.yaml"
	FromEnvironment = "environment.yaml"
	FromAddon       = "applicationset.yaml"
	MadeUp          = "made up"
	FromLab         = "lab"
)

// Inputs is what the lab itself puts on every cluster.
type Inputs struct {
	RepoURL      string // Git repository of the estate, as the engine reaches it
	RepoBasepath string // folder of the estate within the repository, with a slash at its end; empty for its root
	RepoPath     string // folder of the addons within the estate
	RepoRevision string // branch
	ChartRepoURL string // Helm repository that has the lab's charts
	Addons       []lab.Addon
}

// DefaultInputs are those of a lab with its own forge.
func DefaultInputs(labName string, addons []lab.Addon) Inputs {
	forge := "http://" + lab.ForgeName(labName) + ":3000"
	return Inputs{
		RepoURL:      forge + "/lab/estate.git",
		RepoPath:     lab.AddonsDir,
		RepoRevision: "main",
		ChartRepoURL: forge + "/api/packages/lab/helm",
		Addons:       addons,
	}
}

// Server is the URL under which the hub reaches a cluster: by name, which survives a restart, never by address.
func Server(labName string, c lab.Cluster) string {
	switch {
	case c.Role == lab.RoleHub:
		return "https://kubernetes.default.svc"
	case c.ControlPlanes > 1:
		return "https://" + lab.KindName(labName, c.Name) + "-external-load-balancer:6443" // kind's HAProxy in front of several
	}
	return "https://" + lab.KindName(labName, c.Name) + "-control-plane:6443"
}

// Build is the registration of cluster c, which lives in env over def (the environment named default; both may be the zero value).
func Build(labName string, env, def lab.Environment, c lab.Cluster, in Inputs) lab.Registration {
	b := builder{env: env, def: def, cluster: c, labels: map[string]lab.Value{}, annotations: map[string]lab.Value{}}
	given := Resolve(env, def, c)
	scope := cloud.Scope{Lab: labName, Environment: env.Name, Cluster: c.Name, AccountSeed: Resolve(env, def, lab.Cluster{}).Cloud.Seed}
	full := cloud.Complete(given.Cloud, scope)

	name := lab.Value{Value: c.Name, Origin: FromCluster, At: c.Position("metadata.name")}
	b.labels["cluster_name"], b.annotations["cluster_name"] = name, name
	if env.Name != "" {
		v := lab.Value{Value: env.Name, Origin: FromCluster, At: c.Position("spec.environment")}
		b.labels["environment"], b.annotations["environment"] = v, v
	}
	for key, value := range map[string]string{
		"addons_repo_url":       in.RepoURL,
		"addons_repo_basepath":  in.RepoBasepath,
		"addons_repo_path":      in.RepoPath,
		"addons_repo_revision":  in.RepoRevision,
		"addons_chart_repo_url": in.ChartRepoURL,
	} {
		b.annotations[key] = lab.Value{Value: value, Origin: FromLab}
	}
	b.labels["kubernetes_version"] = lab.Value{Value: lab.KubernetesVersion, Origin: FromLab}
	b.labels["cloud"] = given.value("provider", cmp.Or(full.Provider, cloud.None))
	if full.Region != "" {
		b.labels["region"] = given.value("region", full.Region)
	}
	for _, f := range cloud.Facts(full, scope) {
		b.annotations[f.Key] = given.value(f.Field, f.Value)
		if f.Key == "aws_cluster_name" { // a label too where Terraform writes the Secret
			b.labels[f.Key] = b.annotations[f.Key]
		}
	}
	for addon, wanted := range c.Addons {
		b.labels[lab.EnableLabel(addon)] = lab.Value{Value: strconv.FormatBool(wanted), Origin: FromCluster, At: c.Position("spec.addons." + addon)}
		if wanted {
			b.addon(full, scope, addon, in.Addons)
		}
	}
	b.written()
	return lab.Registration{Cluster: c.Name, Server: Server(labName, c), Labels: b.labels, Annotations: b.annotations}
}

type builder struct {
	env, def            lab.Environment
	cluster             lab.Cluster
	labels, annotations map[string]lab.Value
}

// addon adds what an addon finds on the clusters that have it: where it lives, and what it is in the cloud.
func (b *builder) addon(c lab.Cloud, s cloud.Scope, name string, known []lab.Addon) {
	key, namespace := lab.AddonKey(name), lab.Value{Value: name, Origin: MadeUp}
	var reads []lab.Read
	if i := slices.IndexFunc(known, func(a lab.Addon) bool { return a.Name == name }); i >= 0 {
		reads = known[i].Reads
		if ns := known[i].Namespace; ns != "" {
			namespace = lab.Value{Value: ns, Origin: FromAddon, At: known[i].Position("namespace")}
		}
	}
	b.annotations[key+"_namespace"] = namespace
	b.annotations[key+"_service_account"] = lab.Value{Value: name, Origin: MadeUp}
	if f, ok := cloud.Identity(c, s, name); ok {
		b.annotations[f.Key] = lab.Value{Value: f.Value, Origin: MadeUp}
	}
	// An estate from elsewhere may name what it reads otherwise (aws_cert_manager_iam_role_arn): the shape of the key says what it wants.
	for _, r := range reads {
		if _, ok := b.annotations[r.Key]; ok || r.Label {
			continue
		}
		owner, ok := strings.CutSuffix(r.Key, suffix(c.Provider))
		if !ok || owner == "" {
			continue
		}
		if f, ok := cloud.Identity(c, s, strings.ReplaceAll(owner, "_", "-")); ok {
			b.annotations[r.Key] = lab.Value{Value: f.Value, Origin: MadeUp}
		}
	}
}

// suffix of the keys that carry an identity.
func suffix(provider string) string {
	switch provider {
	case cloud.AWS:
		return "_iam_role_arn"
	case cloud.Azure:
		return "_client_id"
	case cloud.GCP:
		return "_service_account_email"
	}
	return "\x00" // no key ends so
}

// written lays what a user wrote over everything else: default, environment, cluster.
func (b *builder) written() {
	for _, e := range []lab.Environment{b.def, b.env} {
		for k, v := range e.Labels {
			b.labels[k] = lab.Value{Value: v, Origin: FromEnvironment, At: e.Position("spec.labels." + k)}
		}
		for k, v := range e.Metadata {
			b.annotations[k] = lab.Value{Value: v, Origin: FromEnvironment, At: e.Position("spec.metadata." + k)}
		}
	}
	for k, v := range b.cluster.Labels {
		b.labels[k] = lab.Value{Value: v, Origin: FromCluster, At: b.cluster.Position("spec.labels." + k)}
	}
	for k, v := range b.cluster.Metadata {
		b.annotations[k] = lab.Value{Value: v, Origin: FromCluster, At: b.cluster.Position("spec.metadata." + k)}
	}
}
