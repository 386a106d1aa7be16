package lab

import (
	"path"
	"strings"
)

// Labels of all Docker and Kubernetes objects that lab creates.
const (
	// LabelName holds the name of the lab that owns an object.
	LabelName = "lab.homelab/name"
	// LabelPart is the part of the lab that the object belongs to: forge, network, engine, registration, ...
	LabelPart = "lab.homelab/part"
	// LabelInputs is a digest of the inputs of an object, to detect changes.
	LabelInputs = "lab.homelab/inputs"
	// LabelDebian lists the Debian packages in an image that lab built: "NAME=VERSION NAME=VERSION ...".
	LabelDebian = "lab.homelab/debian"
	// AnnotationEstate is the estate's repository and revision on root objects: "URL REVISION".
	AnnotationEstate = "lab.homelab/estate"
	// AnnotationReplaces marks Applications that Argo CD must ignore, as they would replace it.
	AnnotationReplaces = "lab.homelab/replaces-engine"
)

// The four folders of an estate.
const (
	ClustersDir     = "clusters"
	EnvironmentsDir = "environments"
	AddonsDir       = "addons"
	ScenariosDir    = "scenarios"
)

// APIVersion is the apiVersion of lab's documents.
const APIVersion = "lab/v1alpha1"

// DefaultEnvironment is the base layer of values below every environment. It has no clusters.
const DefaultEnvironment = "default"

// NetworkName returns the name of a lab's Docker network. Each lab has its own, so that names do not collide and removal is exact.
func NetworkName(labName string) string { return "lab-" + labName }

// KindName returns the name of a cluster in kind and Docker. The lab's name as prefix keeps labs apart.
func KindName(labName, cluster string) string { return labName + "-" + cluster }

// ForgeName returns the container, host and volume name of a lab's Git server.
func ForgeName(labName string) string { return PartName(labName, "forge") }

// PartName returns the container and volume name of a part of a lab beside its clusters: "registry".
func PartName(labName, part string) string { return "lab-" + labName + "-" + part }

// ApplicationName returns the name of the application of an addon on a cluster: "prod-podinfo".
func ApplicationName(cluster, addon string) string { return cluster + "-" + addon }

// KubernetesVersion is the minor version of Kubernetes that lab's nodes run where the estate names none.
const KubernetesVersion = "1.37"

// RootFile is the path of the app of apps within an estate.
const RootFile = AddonsDir + "/root.yaml"

// FluxRootFile returns the path, within an estate, of the root manifest of a cluster's Flux, as in `flux bootstrap`.
func FluxRootFile(cluster string) string {
	return path.Join(ClustersDir, cluster, "flux-system", "gotk-sync.yaml")
}

// ClusterFile returns the path of a cluster's document within an estate.
func ClusterFile(cluster string) string { return path.Join(ClustersDir, cluster, "cluster.yaml") }

// EnableLabel returns the registration label that enables ("true") or disables ("false") an addon.
func EnableLabel(addon string) string { return "enable_" + AddonKey(addon) }

// AddonKey returns an addon's name as used in labels and annotations: enable_KEY, KEY_iam_role_arn. It has underscores, as the keys of the GitOps Bridge
// do, and because Go templates can read .metadata.annotations.metrics_server_namespace but no name with a hyphen.
func AddonKey(addon string) string { return strings.ReplaceAll(addon, "-", "_") }

// MaxName is the maximum length of a lab's name: a node's container is named LAB-CLUSTER-control-plane, and host names are limited to 63 characters.
const MaxName = 30

// NameRule describes valid names.
const NameRule = "use at most 30 of a-z, 0-9 and -, starting and ending with a letter or digit"

// IsName reports whether s is a valid name for a lab or snapshot.
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

// Abbreviate returns the abbreviated hash of a commit, as Git prints it.
func Abbreviate(commit string) string { return commit[:min(7, len(commit))] }
