// Package engine holds what lab says to a GitOps engine and hears from it, whichever engine it is. The engines themselves are in the packages below.
package engine

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"homelab/lab"
)

// State is what is seen of the engine on the hub. The zero value means that it is not installed.
type State struct {
	Release       string       // Helm's word for the last revision: deployed, failed, pending-install, ...
	Revision      int          // Helm revision
	Version       string       // the engine's version, "v3.2.11"
	Inputs        string       // digest of the chart and values that it was installed from
	Ready         bool         // everything of it serves
	Waiting       string       // what does not: "repo-server 0 of 1 ready"
	Registrations []Registered // by cluster name
}

// Installed reports whether the engine was installed to its end.
func (s State) Installed() bool { return s.Release == "deployed" }

// Registered is a cluster that the engine knows, with the labels and annotations that lab set.
type Registered struct {
	Cluster     string
	Server      string
	Since       time.Time // when its credentials came to be, by the hub's clock to the second; zero where that is not known
	Labels      map[string]string
	Annotations map[string]string
}

// Known are the clusters of an estate that the engine knows: a lab may have been brought up with some alone.
func Known(est *lab.Estate, known []Registered) []lab.Cluster {
	return slices.DeleteFunc(slices.Clone(est.Clusters), func(c lab.Cluster) bool {
		return !slices.ContainsFunc(known, func(r Registered) bool { return r.Cluster == c.Name })
	})
}

// Root is the app of apps, or several: what lab itself gives to the engine; everything else comes from Git.
//
// The estate stands at the address that the first Application's first Git source says, whatever that is. Every source that says the same is of the estate.
type Root struct {
	Manifest []byte            // YAML, one or more documents
	RepoURL  string            // of the estate, in place of what its sources say; empty to leave that
	Revision string            // of it: a branch, a tag or a commit; empty to leave what they say
	Mirrors  map[string]string // address of another repository -> where it is to be read instead

	// Beside is what the root needs on the hub beside the engine, in the engine's namespace: ConfigMaps, Secrets, Services and Deployments, labelled as part of
	// the lab. What was there and is no more, is removed.
	Beside []*unstructured.Unstructured
}

// Repository is where the engine reads from, with its credentials.
type Repository struct {
	Name     string // short, [a-z0-9-]
	Type     string // git or helm
	URL      string
	Username string
	Password string
	Proxy    string // URL of an HTTP proxy to it; empty for none
	Insecure bool   // whoever answers for it is believed
}

// Standing is what the engine has of the lab, from one look at its applications.
type Standing struct {
	Applications []lab.Application
	Root         bool   // a root of the lab is there
	Revision     string // commit of the estate that the first of them was last compared with; empty before the first time
	Settled      bool   // all of them are in sync and healthy at that commit

	// Behind names the applications that are waited for, the roots among them, and that were last compared with another commit of the estate than the wanted one,
	// or with another cluster than the one that is registered. It is never nil.
	Behind func(want Want, registrations []Registered) []string
}

// Want is what the engine should converge to.
type Want struct {
	Revision string               // Git commit that the estate is at; empty for any
	Heads    []Head               // commits that repositories beside it are at
	Expected []string             // applications that must exist, "prod-podinfo"
	Gone     []string             // applications that must not
	LeftOut  []string             // applications that are there and not waited for, as they need what cannot be had
	Clusters []string             // clusters whose applications are waited for, as others may be stopped; nil for all
	Since    map[string]time.Time // cluster -> when it was started last: what was seen of it before counts for nothing
	// Changed says that this run changed something that the engine acts on. Without it, a first look that finds everything converged is believed; with it
	// the engine is asked to look again first, since what it shows may be older than the change.
	Changed bool
}

// Head is where a branch of a repository is.
type Head struct {
	Addresses []string // by which Applications may name the repository
	Branch    string   // its default branch
	Commit    string
}

// WaitsFor reports whether applications that are aimed at a cluster are waited for.
func (w Want) WaitsFor(cluster string) bool {
	return w.Clusters == nil || slices.Contains(w.Clusters, cluster)
}

// Diff says in words how a wanted registration differs from what the engine knows: "annotation aws_region: eu-west-1 -> eu-central-1". have holds lab's own
// keys alone, so a key that is in have and no longer wanted will be removed.
func Diff(want lab.Registration, have Registered) []string {
	var lines []string
	if have.Server != want.Server {
		lines = append(lines, "server: "+have.Server+" -> "+want.Server)
	}
	lines = append(lines, diffMap("label", have.Labels, plain(want.Labels))...)
	return append(lines, diffMap("annotation", have.Annotations, plain(want.Annotations))...)
}

func plain(m map[string]lab.Value) map[string]string {
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[k] = v.Value
	}
	return out
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

// quoted makes an empty value visible.
func quoted(s string) string {
	if s == "" {
		return `""`
	}
	return s
}
