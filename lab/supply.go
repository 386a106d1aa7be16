package lab

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Image is a container image available as an archive on disk.
type Image struct {
	Name    string // component, "podinfo"
	Ref     string // repository:tag as in charts and manifests, "ghcr.io/stefanprodan/podinfo:6.9.2"
	Digest  string // sha256:... of the image's configuration: the image id, which is the same in every container engine
	Archive string // path of a docker-archive (docker load, ctr images import)
	Size    int64  // bytes of Archive
	Origin  Origin

	Key       string // of the recipe that it was built from, here or elsewhere; empty if it was pulled
	Manifests string // if it was pulled: the registry's documents, from the one that a pin may name to the one that names Digest, with a NUL between them
}

// Chart is a Helm chart available as a .tgz on disk.
type Chart struct {
	Name    string // chart name, "podinfo"
	Version string // chart version, SemVer without v
	Digest  string // sha256:... of the file
	Archive string // path of the .tgz
	Origin  Origin

	Key string // of the recipe that it was built from, here or elsewhere; empty if it was pulled
}

// Origin is the origin of an image or chart.
type Origin string

// The origins, in the order in which they are tried.
const (
	OriginEngine   Origin = "engine"   // already in the container engine
	OriginBundle   Origin = "bundle"   // a bundle archive
	OriginRegistry Origin = "registry" // a registry that answered
	OriginSource   Origin = "source"   // built from Go modules and Debian packages
)

// Registry is how a lab's nodes and engine reach its registry, by HTTP.
type Registry struct {
	Host     string // "registry:5000"
	User     string
	Password string
	Through  []Upstream
}

// Upstream is a registry of which the lab has a cache.
type Upstream struct {
	Host string // as images name it: "docker.io"
	URL  string // "https://registry-1.docker.io"
}

// Cache returns the name of the part that caches the registry, "registry-docker-io", which is also its host name.
func (u Upstream) Cache() string {
	const most = 18 // such that the container's name is a host name
	name := strings.NewReplacer(".", "-", ":", "-").Replace(u.Host)
	if len(name) > most {
		sum := sha256.Sum256([]byte(u.Host))
		name = name[:most-7] + "-" + hex.EncodeToString(sum[:3])
	}
	return CachePrefix + name
}

// CachePrefix begins the names of the parts that cache registries.
const CachePrefix = "registry-"

// RegistryPort is the port of the lab's registry and of its caches on the lab's network.
const RegistryPort = 5000
