package lab

import (
	"regexp"
	"strings"
)

// Release is a version of an engine or of Kubernetes, and what it consists of.
type Release struct {
	Version string            // "3.5.7"
	Images  map[string]string // component -> the component that has this version of it; absent if they are the same
	Chart   string            // version of the engine's chart; empty for Kubernetes
	Note    string            // what is not certain about it; may be empty
}

// Image returns the component that has this release's version of a component.
func (r Release) Image(component string) string {
	if name, ok := r.Images[component]; ok {
		return name
	}
	return component
}

var wantedVersion = regexp.MustCompile(`^v?(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*))?$`)

// WantedVersion returns a wanted version without its "v": a minor, "3.5", or an exact one, "3.5.7".
func WantedVersion(text string) (version string, ok bool) {
	return strings.TrimPrefix(text, "v"), wantedVersion.MatchString(text)
}

// Minor returns the minor of a version: "3.5" for "v3.5.7".
func Minor(version string) string {
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	return major + "." + minor
}

// Fits reports whether a version is a wanted one, which may be a minor.
func Fits(wanted, version string) bool {
	version = strings.TrimPrefix(version, "v")
	return wanted == version || wanted == Minor(wanted) && wanted == Minor(version)
}

// KubernetesVersion returns the minor version of Kubernetes that the nodes of a cluster created by lab run.
func (c Cluster) KubernetesVersion() string {
	if c.Kubernetes != "" {
		return Minor(c.Kubernetes)
	}
	return KubernetesVersion
}
