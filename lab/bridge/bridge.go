// Package bridge builds the labels and annotations of a cluster's Secret on the hub, with the keys of the GitOps Bridge
// (https://github.com/gitops-bridge-dev/gitops-bridge). It is pure. Every value keeps its origin.
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

// Inputs are the lab's own values, set on every cluster.
type Inputs struct {
	RepoURL      string // Git repository of the estate, for the engine
	RepoBasepath string // folder of the estate in the repository, with a trailing slash; empty for the root
	RepoPath     string // folder of the addons within the estate
	RepoRevision string // branch
	ChartRepoURL string // Helm repository that has the lab's charts
	Addons       []lab.Addon
	Mounts       []lab.Repository // besides the estate; addresses of these are replaced by their mirrors

	forge string // address for the engine
}

// Estate and Branch are the estate's repository in the forge and the branch that engines follow.
const (
	Estate = "estate"
	Branch = "main"
)

// DefaultInputs returns the inputs of a lab with its own forge.
func DefaultInputs(labName string, addons []lab.Addon) Inputs {
	forge := "http://" + lab.ForgeName(labName) + ":3000"
	return Inputs{
		RepoURL:      forge + "/lab/" + Estate + ".git",
		RepoPath:     lab.AddonsDir,
		RepoRevision: Branch,
		ChartRepoURL: forge + "/api/packages/lab/helm",
		Addons:       addons,
		forge:        forge,
	}
}

// InputsOf returns the inputs of an estate.
func InputsOf(e *lab.Estate) Inputs {
	in := DefaultInputs(e.Name, e.Addons)
	in.Mounts = e.Repositories
	return in
}

// MirrorURL returns the address of a mounted repository for the engine.
func (in Inputs) MirrorURL(r *lab.Repository) string { return in.forge + "/lab/" + r.Name + ".git" }

// Mounted returns the repository with an upstream or forge address.
func (in Inputs) Mounted(address string) (*lab.Repository, bool) {
	key := lab.RepositoryKey(address)
	for i := range in.Mounts {
		r := &in.Mounts[i]
		if key == lab.RepositoryKey(r.URL) || key == lab.RepositoryKey(in.MirrorURL(r)) {
			return r, true
		}
	}
	return nil, false
}

// Served returns the address for the engine: the mirror's for a mounted repository.
func (in Inputs) Served(address string) string {
	if r, ok := in.Mounted(address); ok {
		return in.MirrorURL(r)
	}
	return address
}

// Server returns the URL by which the engine identifies a cluster.
func Server(labName string, c lab.Cluster) string {
	if c.Server != "" {
		return c.Server
	}
	return API(labName, c)
}

// API returns the URL by which the hub reaches a cluster, by name: container addresses change on restart.
func API(labName string, c lab.Cluster) string {
	switch {
	case c.Role == lab.RoleHub:
		return "https://kubernetes.default.svc"
	case c.Provider == lab.ProviderExisting:
		return c.Existing.Server
	case c.ControlPlanes > 1:
		return "https://" + lab.KindName(labName, c.Name) + "-external-load-balancer:6443" // kind's HAProxy
	}
	return "https://" + lab.KindName(labName, c.Name) + "-control-plane:6443"
}

// Registered returns the registration of a cluster in an estate.
func Registered(e *lab.Estate, c lab.Cluster, in Inputs) lab.Registration {
	env, _ := e.Environment(c.Environment)
	def, _ := e.Environment(lab.DefaultEnvironment)
	return Build(e.Name, env, def, c, in)
}

// Build returns the registration of cluster c in env, on top of def, the environment named default; both may be zero.
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
	if c.Provider != lab.ProviderExisting { // version unknown
		v := lab.Value{Value: c.KubernetesVersion(), Origin: FromLab}
		if c.Kubernetes != "" {
			v.Origin, v.At = FromCluster, c.Position("spec.kubernetes")
		}
		b.labels["kubernetes_version"] = v
	}
	b.labels["cloud"] = given.value("provider", cmp.Or(full.Provider, cloud.None))
	if full.Region != "" {
		b.labels["region"] = given.value("region", full.Region)
	}
	for _, f := range cloud.Facts(full, scope) {
		b.annotations[f.Key] = given.value(f.Field, f.Value)
		if f.Key == "aws_cluster_name" { // Terraform modules set a label too
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
	if len(in.Mounts) > 0 {
		b.mirrored(in)
	}
	r := lab.Registration{Cluster: c.Name, Server: Server(labName, c), Labels: b.labels, Annotations: b.annotations, KubeconfigSecrets: c.KubeconfigSecrets}
	if api := API(labName, c); r.Server != api {
		r.Via = api
	}
	return r
}

// mirrored replaces addresses of mounted repositories by their mirrors.
func (b *builder) mirrored(in Inputs) {
	for key, v := range b.annotations {
		if url := in.Served(v.Value); url != v.Value {
			v.Value, v.Origin = url, v.Origin+", mirrored"
			b.annotations[key] = v
		}
	}
}

type builder struct {
	env, def            lab.Environment
	cluster             lab.Cluster
	labels, annotations map[string]lab.Value
}

// addon adds an addon's namespace and cloud identity.
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
	// Other estates may use other keys (aws_cert_manager_iam_role_arn): recognise them by suffix.
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

// suffix returns the suffix of a provider's identity keys.
func suffix(provider string) string {
	switch provider {
	case cloud.AWS:
		return "_iam_role_arn"
	case cloud.Azure:
		return "_client_id"
	case cloud.GCP:
		return "_service_account_email"
	}
	return "\x00" // matches no key
}

// written overlays the user's values: default, environment, cluster.
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
