package lab

import "time"

// Made is what lab can prove of how a cluster came to be.
type Made string

// The proofs. Only a cluster that is MadeHalf may be removed without an explicit word.
const (
	MadeUnknown Made = ""      // neither its mark nor lab's record could be read
	MadeWhole   Made = "whole" // it was complete once: it is kept
	MadeHalf    Made = "half"  // lab's own record says that these containers were being made, or removed, by a run that did not end
)

// ClusterState is what is seen of one cluster. A field that needs the API is unknown, not empty, while Answers is false.
type ClusterState struct {
	Name       string    `json:"name"`
	Role       Role      `json:"role"`
	Env        string    `json:"environment,omitempty"`
	Kubernetes string    `json:"kubernetes"` // version, "v1.36.3"; empty when the API does not answer
	Ready      bool      `json:"ready"`
	Nodes      []string  `json:"-"` // container names
	Gone       int       `json:"-"` // nodes that lab's record has and the container engine has not
	Exists     bool      `json:"-"`
	Running    bool      `json:"-"` // every node container runs, and none is paused
	Fault      string    `json:"-"` // why it does not run or answer: "stopped", "paused", "1 of 3 nodes stopped", "its API does not answer"
	Answers    bool      `json:"-"` // the API answered
	Started    time.Time `json:"-"` // when a node of it was started last; zero where that is not known
	Made       Made      `json:"-"`
	Recorded   bool      `json:"-"` // lab's own record says the same as the cluster
	Marked     bool      `json:"-"` // its API bears the mark; false unless Answers
	Inputs     string    `json:"-"` // digest of the document the cluster was made from; empty unless MadeWhole
	Images     []string  `json:"-"` // what stands for the images that were loaded; empty unless Answers
	Attached   bool      `json:"-"` // not created by lab, and outlives it
}

// Unclear reports whether the cluster exists and cannot be asked, so that nothing is known of what it holds.
func (s ClusterState) Unclear() bool { return s.Exists && !s.Answers }

// Standing is one word for a cluster's state: absent, stopped, paused, unreachable, not ready or ready.
func (s ClusterState) Standing() string {
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

// Application is what is seen of one generated Application.
type Application struct {
	Name      string `json:"name"`
	Addon     string `json:"addon"`
	Cluster   string `json:"cluster"`
	Version   string `json:"version"`
	Sync      string `json:"sync"`   // Synced, OutOfSync, Unknown
	Health    string `json:"health"` // Healthy, Progressing, Degraded, Missing, Unknown, Suspended
	Message   string `json:"message"`
	LeftOut   string `json:"leftOut,omitempty"` // why it is not waited for: what it needs cannot be had here
	Revision  string `json:"-"`                 // Git commit that was compared, where there is one
	Namespace string `json:"-"`                 // destination namespace
	Leads     bool   `json:"-"`                 // it holds nothing but what makes other applications, and is no addon
}

// Converged reports whether the application is as Git wants it and works.
func (a Application) Converged() bool { return a.Sync == "Synced" && a.Health == "Healthy" }

// Registration is what the hub knows of a cluster: the cluster Secret's metadata, with the origin of every value.
type Registration struct {
	Cluster     string
	Server      string // https://NAME-control-plane:6443, https://kubernetes.default.svc for the hub, or what manifests have
	Via         string // URL of the API, where Server is an address that only Proxy serves
	Proxy       string // URL of an HTTP proxy, as pods of the hub reach it; empty for none
	Labels      map[string]Value
	Annotations map[string]Value
}

// Value is a string with where it came from.
type Value struct {
	Value  string   `json:"value"`
	Origin string   `json:"origin"`      // "cluster.yaml", "environment.yaml", "applicationset.yaml", "made up", "lab"
	At     Position `json:"at,omitzero"` // file and line, where a file says it
}

// Strings returns the values without their origins.
func Strings(values map[string]Value) map[string]string {
	out := make(map[string]string, len(values))
	for k, v := range values {
		out[k] = v.Value
	}
	return out
}
