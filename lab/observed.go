package lab

// ClusterState is what is seen of one cluster.
type ClusterState struct {
	Name       string   `json:"name"`
	Role       Role     `json:"role"`
	Env        string   `json:"environment,omitempty"`
	Kubernetes string   `json:"kubernetes"` // version, "v1.36.3"; empty when the API does not answer
	Ready      bool     `json:"ready"`
	Nodes      []string `json:"-"` // container names
	Exists     bool     `json:"-"`
	Running    bool     `json:"-"` // every node container runs
	Inputs     string   `json:"-"` // digest of the document the cluster was made from; empty while half made
	Images     []string `json:"-"` // what stands for the images that were loaded
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
	Revision  string `json:"-"` // Git commit that was compared, where there is one
	Namespace string `json:"-"` // destination namespace
}

// Converged says whether the application is as Git wants it and works.
func (a Application) Converged() bool { return a.Sync == "Synced" && a.Health == "Healthy" }

// Registration is what the hub knows of a cluster: the cluster Secret's metadata, with the origin of every value.
type Registration struct {
	Cluster     string
	Server      string // https://NAME-control-plane:6443, or https://kubernetes.default.svc for the hub
	Labels      map[string]Value
	Annotations map[string]Value
}

// Value is a string with where it came from.
type Value struct {
	Value  string   `json:"value"`
	Origin string   `json:"origin"`      // "cluster.yaml", "environment.yaml", "applicationset.yaml", "made up", "lab"
	At     Position `json:"at,omitzero"` // file and line, where a file says it
}
