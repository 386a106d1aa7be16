package lab

import (
	"path"
	"strings"
)

// Labels that everything lab makes carries, on Docker objects and on Kubernetes objects alike.
const (
	// LabelName holds the name of the lab that owns an object.
	LabelName = "lab.homelab/name"
	// LabelPart says what part of the lab the object is: forge, network, engine, registration, ...
	LabelPart = "lab.homelab/part"
	// LabelInputs holds a digest of what an object was made from, so that an unchanged input is recognised.
	LabelInputs = "lab.homelab/inputs"
	// AnnotationEstate says of the roots which repository and revision the estate is: "URL REVISION".
	AnnotationEstate = "lab.homelab/estate"
)

// The four folders of an estate.
const (
	ClustersDir     = "clusters"
	EnvironmentsDir = "environments"
	AddonsDir       = "addons"
	ScenariosDir    = "scenarios"
)

// DefaultEnvironment is the base layer of values: it is under every environment and no cluster is in it.
const DefaultEnvironment = "default"

// NetworkName is the Docker network of a lab: one for each lab, so that names are its own and its removal is exact.
func NetworkName(labName string) string { return "lab-" + labName }

// KindName is what a lab's cluster is called in kind and Docker: prefixed, so that labs live side by side.
func KindName(labName, cluster string) string { return labName + "-" + cluster }

// ForgeName is the container, host name and volume of a lab's Git server.
func ForgeName(labName string) string { return "lab-" + labName + "-forge" }

// ApplicationName is what an estate's ApplicationSets call the application of an addon on a cluster: "prod-podinfo".
func ApplicationName(cluster, addon string) string { return cluster + "-" + addon }

// KubernetesVersion is the minor version of Kubernetes that lab's nodes run.
const KubernetesVersion = "1.36"

// RootFile is the path of the app of apps within an estate.
const RootFile = AddonsDir + "/root.yaml"

// ClusterFile is the path of a cluster's document within an estate.
func ClusterFile(cluster string) string { return path.Join(ClustersDir, cluster, "cluster.yaml") }

// EnvironmentFile is the path of an environment's document within an estate.
func EnvironmentFile(env string) string {
	return path.Join(EnvironmentsDir, env, "environment.yaml")
}

// EnableLabel is the label of a registration, "true" or "false", by which an addon is switched on for a cluster.
func EnableLabel(addon string) string { return "enable_" + AddonKey(addon) }

// AddonKey is an addon's name as it stands in labels and annotations: enable_KEY, KEY_iam_role_arn. Underscores, because that is how the keys of
// the GitOps Bridge are written, and because Go templates read .metadata.annotations.metrics_server_namespace but not a name with a hyphen.
func AddonKey(addon string) string { return strings.ReplaceAll(addon, "-", "_") }

// MaxName is how long the name of a lab may be: a node's container name is LAB-CLUSTER-control-plane, and a host name has 63 characters.
const MaxName = 30

// NameRule is what to do about a name that is none, in words.
const NameRule = "use at most 30 of a-z, 0-9 and -, starting and ending with a letter or digit"

// IsName reports whether a lab, or a snapshot of one, can be called that.
func IsName(name string) bool {
	if name == "" || len(name) > MaxName || name[0] == '-' || name[len(name)-1] == '-' {
		return false
	}
	for _, c := range name {
		if c != '-' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// Abbreviate shortens the hash of a commit as Git does.
func Abbreviate(commit string) string { return commit[:min(7, len(commit))] }
