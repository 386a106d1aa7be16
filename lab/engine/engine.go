// Package engine defines the interface between lab and GitOps engines, which are implemented in its subpackages.
package engine

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"homelab/lab"
)

// State is the observed state of the engine on the hub. The zero value means not installed.
type State struct {
	Release       string       // Helm status of the last revision: deployed, failed, pending-install, ...
	Revision      int          // Helm revision
	Version       string       // the engine's version, "v3.2.11"
	Inputs        string       // digest of the installed chart and values
	Ready         bool         // all workloads are ready
	Waiting       string       // workloads that are not: "repo-server 0 of 1 ready"
	Registrations []Registered // by cluster name
}

// Installed reports whether the installation completed.
func (s State) Installed() bool { return s.Release == "deployed" }

// Registered is a registered cluster, with the labels and annotations set by lab.
type Registered struct {
	Cluster     string
	Server      string
	Since       time.Time // creation of its credentials, in seconds by the hub's clock; zero if unknown
	Labels      map[string]string
	Annotations map[string]string
	Secrets     []lab.KubeconfigSecret
	Defect      string // "its variables are missing"; empty if it is complete
}

// Known returns the registered clusters of an estate.
func Known(est *lab.Estate, known []Registered) []lab.Cluster {
	return slices.DeleteFunc(slices.Clone(est.Clusters), func(c lab.Cluster) bool {
		return !slices.ContainsFunc(known, func(r Registered) bool { return r.Cluster == c.Name })
	})
}

// Root is the app of apps, or several: the objects that lab applies itself; everything else comes from Git. The address in the first Git source of the first
// Application is the estate's: all sources with that address are redirected.
type Root struct {
	Manifest []byte            // YAML, one or more documents
	Own      map[string][]byte // per cluster, if each has an engine; replaces Manifest
	RepoURL  string            // replaces the estate's address; empty to keep it
	Revision string            // of the estate: a branch, tag or commit; empty to keep it
	Mirrors  map[string]string // address of another repository -> its replacement

	// Replaces are Applications that would replace the engine, and which it must not sync.
	Replaces []string

	// Clusters are all clusters of the estate, registered or not.
	Clusters []string

	// Extra are the root's extra objects in the engine's namespace: ConfigMaps, Secrets, Services and Deployments with the lab's labels. Former ones are deleted.
	Extra []*unstructured.Unstructured
}

// Repository is a repository that the engine reads, with credentials.
type Repository struct {
	Name     string // short, [a-z0-9-]
	Type     string // git, helm or oci
	URL      string
	Username string
	Password string
	SSHKey   string // private, in PEM; for SSH addresses
	Proxy    string // HTTP or, for SSH, SOCKS 5; may be empty
	Insecure bool   // skip verification of the certificate or host key
	All      bool   // of type oci: credentials for every repository in the registry at URL, "registry:5000", which speaks HTTP
}

// Snapshot is a snapshot of the engine's applications.
type Snapshot struct {
	Applications []lab.Application
	Root         bool   // a root of the lab exists
	Revision     string // the estate's commit that the first root was last compared with, or ""
	Settled      bool   // all roots are in sync and healthy at that commit

	Silent []string // clusters whose own engine does not answer: their applications are unknown

	// Behind returns the applications to wait for, including roots, that were last compared with another commit than the wanted one, or with another cluster
	// than the registered one, those whose spec or sync is newer than their status, and the roots that have not converged: what they generate may change. It is
	// never nil.
	Behind func(want Want, registrations []Registered) []string
}

// Want is the state that the engine should converge to.
type Want struct {
	Revision string               // Git commit of the estate; empty for any
	Heads    []Head               // commits of the other repositories
	Expected []string             // applications that must exist, such as "prod-podinfo"
	Gone     []string             // applications that must not exist
	LeftOut  []string             // applications not to wait for, as they cannot work in this lab, and lab.SetName of sets that report errors for such
	Clusters []string             // clusters whose applications are waited for; nil for all
	Since    map[string]time.Time // cluster -> last start: earlier status is ignored
	Doubts   map[string]string    // application -> what it lacks, as far as the estate's files show
	// Changed means that this run changed something the engine acts on. If set, the engine is refreshed first, as its status may be older than the change;
	// otherwise a converged status is accepted immediately.
	Changed bool
	// Moved is called when something that is waited for is in a state in which it was not before. It may be nil.
	Moved func()
}

// Head is the head of a repository's default branch.
type Head struct {
	Addresses []string // under which Applications may reference the repository
	Branch    string
	Commit    string
}

// WaitsFor reports whether applications of a cluster are waited for.
func (w Want) WaitsFor(cluster string) bool {
	return w.Clusters == nil || slices.Contains(w.Clusters, cluster)
}

// Diff describes the differences between a wanted and an actual registration: "annotation aws_region: eu-west-1 -> eu-central-1". have only contains lab's own
// keys, so that keys missing in want are reported as removed.
func Diff(want lab.Registration, have Registered) []string {
	var lines []string
	if have.Server != want.Server {
		lines = append(lines, "server: "+have.Server+" -> "+want.Server)
	}
	if have.Defect != "" {
		lines = append(lines, have.Defect)
	}
	for _, k := range want.KubeconfigSecrets {
		if !slices.Contains(have.Secrets, k) {
			lines = append(lines, "kubeconfig in Secret "+k.String())
		}
	}
	for _, k := range have.Secrets {
		if !slices.Contains(want.KubeconfigSecrets, k) {
			lines = append(lines, "kubeconfig in Secret "+k.String()+": removed")
		}
	}
	lines = append(lines, diffMap("label", have.Labels, lab.Strings(want.Labels))...)
	return append(lines, diffMap("annotation", have.Annotations, lab.Strings(want.Annotations))...)
}

func diffMap(kind string, have, want map[string]string) []string {
	keys := maps.Clone(have)
	if keys == nil {
		keys = map[string]string{}
	}
	maps.Copy(keys, want)
	var lines []string
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		was, had := have[k]
		is, wanted := want[k]
		switch {
		case !had:
			lines = append(lines, kind+" "+k+": "+quoted(is))
		case !wanted:
			lines = append(lines, kind+" "+k+": removed")
		case was != is:
			lines = append(lines, kind+" "+k+": "+quoted(was)+" -> "+quoted(is))
		}
	}
	return lines
}

// quoted quotes an empty value.
func quoted(s string) string {
	if s == "" {
		return `""`
	}
	return s
}
