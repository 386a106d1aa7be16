package lab

import "io/fs"

// Estate is a Git repository in lab's layout: what should exist.
type Estate struct {
	Name         string // name of the folder, or "homelab" for the embedded one
	Dir          string // absolute path on disk; empty when the estate is the embedded one
	FS           fs.FS  // the estate's files, rooted at the estate
	Clusters     []Cluster
	Environments []Environment
	Addons       []Addon
	Repositories []Repository // beside the estate

	Applications []Generated   // what the ApplicationSets make, by set and name
	Possible     []Application // what they would make with every addon switched on
	Notes        Problems      // what is no fault, and may surprise
	Waves        bool          // Argo CD applies ApplicationSets in sync waves
}

// Generated is an Application that the estate asks for.
type Generated struct {
	Application
	At     Position   // where it is written, or its ApplicationSet's template is
	Charts []ChartUse // from chart repositories
	Images []string   // components of images that its manifests name
	Others []string   // repositories that are not the lab's: of charts, of Git and of images
	Needs  []string   // applications without which it does not come
}

// ChartUse is a chart of a chart repository in a version.
type ChartUse struct {
	Name, Version string
	Repository    string   // empty for the lab's own
	At            Position // where the version is written
}

// Role is what a cluster does in the estate.
type Role string

// The roles: the hub runs the engine for others, a spoke is managed by it.
const (
	RoleHub   Role = "hub"
	RoleSpoke Role = "spoke"
)

// EngineType names a GitOps engine.
type EngineType string

// The engines.
const (
	EngineArgoCD EngineType = "argocd"
	EngineFlux   EngineType = "flux"
)

// Title names an engine as its makers do.
func (t EngineType) Title() string {
	return map[EngineType]string{EngineArgoCD: "Argo CD", EngineFlux: "Flux"}[t]
}

// Provider names who runs a cluster.
type Provider string

// The providers.
const (
	ProviderKind     Provider = "kind"     // lab, by kind
	ProviderExisting Provider = "existing" // a cluster that lab attaches and releases, but never creates or deletes
)

// Existing is how a cluster that lab did not make is reached.
type Existing struct {
	Kubeconfig string // path of the file on this machine, "~/" for the home folder; empty for what kubectl would take
	Context    string // in it; empty for the current one
	Server     string // URL of the API as the hub reaches it, "https://edge.example.com:6443"
}

// Cluster is one clusters/NAME/cluster.yaml.
type Cluster struct {
	Name        string
	File        string // path within the estate
	Role        Role
	Environment string // empty for a hub that belongs to none
	Provider    Provider
	Existing    Existing // read where Provider is ProviderExisting
	Server      string   // URL by which manifests know a cluster of lab's; empty for lab's own
	Cloud       Cloud
	Addons      map[string]bool   // addon -> wanted; becomes enable_<addon>
	Selected    map[string]bool   // addon -> whether its ApplicationSets select the cluster; without those of which the labels alone do not tell
	Labels      map[string]string // further labels on the registration
	Metadata    map[string]string // further annotations on the registration
	Engine      EngineSpec        // read on the hub alone
	Mounts      map[string]string // address of a Git repository -> folder; read on the hub alone
	Kind        []byte            // kind's v1alpha4 Cluster document as canonical YAML, strictly checked; empty for kind's default

	ControlPlanes int // nodes of each role, counted in Kind: at least one control plane
	Workers       int

	Positions map[string]Position
}

// Position of a field given by its dotted path below the document ("spec.cloud.region"); the file alone where the field is not written.
func (c Cluster) Position(path string) Position { return lookup(c.Positions, c.File, path) }

// Has reports whether the cluster is to have an addon: what the addon's ApplicationSets select by, and where that cannot be known, the cluster's own word.
func (c Cluster) Has(addon string) bool {
	if selected, known := c.Selected[addon]; known {
		return selected
	}
	return c.Addons[addon]
}

// Environment is one environments/NAME/environment.yaml.
type Environment struct {
	Name      string
	File      string
	Order     int // promotion goes upwards; 0 for default
	Cloud     Cloud
	Labels    map[string]string
	Metadata  map[string]string // annotations shared by the environment's clusters
	Positions map[string]Position
}

// Position of a field, as for Cluster.
func (e Environment) Position(path string) Position { return lookup(e.Positions, e.File, path) }

func lookup(at map[string]Position, file, path string) Position {
	if p, ok := at[path]; ok {
		return p
	}
	return Position{File: file}
}

// Addon is one addons/NAME folder.
type Addon struct {
	Name       string
	File       string            // path of its ApplicationSet within the estate
	Namespace  string            // where it is installed; empty when that differs between clusters
	Chart      string            // chart name when it comes from a chart repository, else empty
	Repository string            // the chart's repository as the ApplicationSet has it; empty when it is the lab's own, read from addons_chart_repo_url
	Versions   map[string]string // environment -> pinned chart version; "" holds the base version
	Path       string            // chart folder within the estate when the chart is the estate's own
	Sets       []string          // names of its ApplicationSets
	Leads      bool              // its Applications hold nothing but what makes others: it is nothing that a cluster gets

	Reads     []Read              // what the ApplicationSet cannot do without on the cluster Secret
	Positions map[string]Position // "" is the addon itself, "chart" its chart, "version" and "version.ENV" its versions, "generators" what selects clusters

	Elsewhere *Addon // what it is with the other engine; nil where that was not asked for, or has no manifests of it
}

// Read is one annotation, or label, that an addon reads from the cluster Secret.
type Read struct {
	Key   string
	Label bool
	At    Position
}

// Position of a part of the addon: "" for itself, "chart", "version", "version.ENV", "generators".
func (a Addon) Position(part string) Position { return lookup(a.Positions, a.File, part) }

// Version is the chart version that clusters of an environment get, and where it is written.
func (a Addon) Version(env string) (string, Position) {
	if v, ok := a.Versions[env]; ok && env != "" {
		return v, a.Position("version." + env)
	}
	return a.Versions[""], a.Position("version")
}

// EngineSpec is spec.engine of the hub's cluster.yaml.
type EngineSpec struct {
	Type      EngineType     // argocd by default
	Shape     Shape          // of Flux; hub by default
	Namespace string         // in which it runs, and has its ApplicationSets; empty for its usual one
	Extra     []string       // controllers of Flux beside the usual four: FluxImageReflector, FluxImageAutomation, FluxSourceWatcher
	Values    map[string]any // Helm values merged over lab's own
}

// Everywhere reports whether every cluster runs an engine of its own.
func (s EngineSpec) Everywhere() bool { return s.Type == EngineFlux && s.Shape == ShapeStandalone }

// Cloud is what a cluster pretends to live in. Fields left empty are made up, always the same for the same lab, cluster and seed.
type Cloud struct {
	Provider string // aws, azure, gcp; empty for none
	Seed     string // changes every made-up id
	Region   string // aws and gcp: region; azure: location

	AccountID string   // aws: 12 digits
	VPCID     string   // aws: vpc- and 17 hex digits
	Subnets   []string // aws: subnet- and 17 hex digits each

	SubscriptionID string // azure: GUID
	TenantID       string // azure: GUID
	ResourceGroup  string // azure

	ProjectID     string // gcp
	ProjectNumber string // gcp: 12 digits
	Network       string // gcp: VPC network name
}

// Hub returns the estate's hub.
func (e *Estate) Hub() Cluster {
	for _, c := range e.Clusters {
		if c.Role == RoleHub {
			return c
		}
	}
	return Cluster{}
}

// RootFile is the path of what the hub's engine starts from.
func (e *Estate) RootFile() string {
	if hub := e.Hub(); hub.Engine.Type == EngineFlux {
		return FluxRootFile(hub.Name)
	}
	return RootFile
}

// RootFileOf is the path of what a cluster's own engine starts from; empty where the hub's drives it.
func (e *Estate) RootFileOf(cluster string) string {
	switch hub := e.Hub(); {
	case cluster == hub.Name:
		return e.RootFile()
	case hub.Engine.Everywhere():
		return FluxRootFile(cluster)
	}
	return ""
}

// Environment returns the named environment.
func (e *Estate) Environment(name string) (Environment, bool) {
	for _, env := range e.Environments {
		if env.Name == name {
			return env, true
		}
	}
	return Environment{}, false
}

// Addon returns the named addon.
func (e *Estate) Addon(name string) (Addon, bool) {
	for _, a := range e.Addons {
		if a.Name == name {
			return a, true
		}
	}
	return Addon{}, false
}

// Cluster returns the named cluster.
func (e *Estate) Cluster(name string) (Cluster, bool) {
	for _, c := range e.Clusters {
		if c.Name == name {
			return c, true
		}
	}
	return Cluster{}, false
}
