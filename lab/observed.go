package lab

import "time"

// Made is what lab can prove about how a cluster was created.
type Made string

// Only a cluster that is MadeHalf may be removed without an explicit request.
const (
	MadeUnknown Made = ""      // neither its mark nor lab's record could be read
	MadeWhole   Made = "whole" // it was complete once, and is kept
	MadeHalf    Made = "half"  // lab's record proves that an interrupted run was creating or removing these containers
)

// ClusterState is the observed state of a cluster. While Answers is false, fields that need the API are unknown rather than empty.
type ClusterState struct {
	Name       string    `json:"name"`
	Role       Role      `json:"role"`
	Env        string    `json:"environment,omitempty"`
	Kubernetes string    `json:"kubernetes"` // version, "v1.36.3"; empty if the API does not answer
	Ready      bool      `json:"ready"`
	Nodes      []string  `json:"-"` // container names
	Gone       int       `json:"-"` // nodes in lab's record that the container engine lacks
	Exists     bool      `json:"-"`
	Running    bool      `json:"-"` // all node containers run, and none is paused
	Fault      string    `json:"-"` // why it does not run or answer, e.g. "stopped", "paused", "1 of 3 nodes stopped", "its API does not answer"
	Answers    bool      `json:"-"` // the API answered
	Started    time.Time `json:"-"` // last start of a node; zero if unknown
	Made       Made      `json:"-"`
	Recorded   bool      `json:"-"` // lab's record matches the cluster
	Marked     bool      `json:"-"` // the mark is in its API; false unless Answers
	Inputs     string    `json:"-"` // digest of the cluster's inputs; empty unless MadeWhole
	Images     []string  `json:"-"` // keys of the loaded images; empty unless Answers
	Namespaces []string  `json:"-"` // without terminating ones; empty unless Answers
	Attached   bool      `json:"-"` // not created by lab, and outlives it

	CertificatesEnd time.Time `json:"-"` // of a cluster that lab created; zero if unknown
	Renew           string    `json:"-"` // why lab up renews its certificates; empty if it need not, or cannot
}

// CertificatesSoon is how long before their expiry certificates are renewed.
const CertificatesSoon = 30 * 24 * time.Hour

// Ended reports whether the certificates have expired or soon will.
func (s ClusterState) Ended(now time.Time) bool {
	return !s.CertificatesEnd.IsZero() && s.CertificatesEnd.Sub(now) <= CertificatesSoon
}

// Ending describes certificates that have expired or soon will, or returns "".
func (s ClusterState) Ending(now time.Time) string {
	switch {
	case !s.Ended(now):
		return ""
	case s.CertificatesEnd.After(now):
		return "its certificates expire on " + s.CertificatesEnd.UTC().Format(time.DateOnly)
	}
	return "its certificates expired on " + s.CertificatesEnd.UTC().Format(time.DateOnly)
}

// EndingCure says what makes new certificates.
func (s ClusterState) EndingCure() string {
	if s.Renew != "" {
		return "lab up renews them"
	}
	return "lab up --recreate " + Quote(s.Name) + " issues new ones, and loses its contents"
}

// Unclear reports whether the cluster exists but its contents are unknown, since its API does not answer.
func (s ClusterState) Unclear() bool { return s.Exists && !s.Answers }

// Phase returns the cluster's state: absent, stopped, paused, unreachable, not ready or ready.
func (s ClusterState) Phase() string {
	switch {
	case !s.Exists:
		return "absent"
	case !s.Running:
		return s.Fault
	case !s.Answers:
		return "unreachable"
	case !s.Ready:
		return "not ready"
	}
	return "ready"
}

// Application is the observed state of a generated Application.
type Application struct {
	Name      string `json:"name"`
	Addon     string `json:"addon"`
	Cluster   string `json:"cluster"`
	Version   string `json:"version"`
	Sync      string `json:"sync"`   // Synced, OutOfSync, Unknown
	Health    string `json:"health"` // Healthy, Progressing, Degraded, Missing, Unknown, Suspended
	Message   string `json:"message"`
	LeftOut   string `json:"leftOut"` // why it is not waited for: a dependency is unavailable here
	Revision  string `json:"-"`       // compared Git commit; may be empty
	Namespace string `json:"-"`       // destination namespace
	Leads     bool   `json:"-"`       // it only generates other applications

	FaultySets string `json:"-"` // that alone make it unhealthy, by lab.SetName, separated by commas
}

// Converged reports whether the application is in sync and healthy.
func (a Application) Converged() bool { return a.Sync == "Synced" && a.Health == "Healthy" }

// Registration is the hub's registration of a cluster: the metadata of the cluster Secret with the origin of each value.
type Registration struct {
	Cluster     string
	Server      string // https://NAME-control-plane:6443, https://kubernetes.default.svc for the hub, or the address in manifests
	Via         string // URL of the API if Server is served only by Proxy
	Proxy       string // URL of an HTTP proxy, as pods of the hub reach it; empty for none
	Labels      map[string]Value
	Annotations map[string]Value

	KubeconfigSecrets []KubeconfigSecret // on the hub besides lab's own
}

// Value is a string with its origin.
type Value struct {
	Value  string   `json:"value"`
	Origin string   `json:"origin"`      // "cluster.yaml", "environment.yaml", "applicationset.yaml", "made up", "lab"
	At     Position `json:"at,omitzero"` // position in a file; may be zero
}

// Strings returns the values without their origins.
func Strings(values map[string]Value) map[string]string {
	out := make(map[string]string, len(values))
	for k, v := range values {
		out[k] = v.Value
	}
	return out
}
