// Package runner runs the lab's runner: a supervisor, which the forge knows, and a worker, which reads what strangers have written. They share a folder with a socket and
// nothing else. The supervisor's network has the forge alone, and no way out; the worker has none.
package runner

// The first argument of lab in the containers: what it does there. The second one is a Place.
const (
	Supervises = "runner-supervisor"
	Works      = "runner-worker"
	Answers    = "runner-ready" // ends with 0 if the container works
)

// Place is the configuration of the program in a container, without secrets.
type Place struct {
	Lab     string `json:"lab"`
	Engine  string `json:"engine,omitempty"`
	Version string `json:"version,omitempty"`
}

// Secrets are what the supervisor has, in a file of its volume.
type Secrets struct {
	URL      string `json:"url"` // of the forge
	Owner    string `json:"owner"`
	Name     string `json:"name"` // of the repository
	User     string `json:"user"`
	Password string `json:"password"` // of the forge's gate
	Webhook  string `json:"webhook"`
}

// Where the containers have what they share, and their own.
const (
	Socket      = exchange + "/worker"
	SecretsFile = secrets + "/secrets.json"
	WorkDir     = "/tmp"
	CacheDir    = "/cache" // of XDG_CACHE_HOME
	Port        = 8080     // of the supervisor's web server

	exchange = "/exchange"
	secrets  = "/secrets"
	program  = "/lab"
)
