package lab

// Image is a container image at hand as an archive on disk, under the name that manifests use.
type Image struct {
	Name    string // component, "podinfo"
	Ref     string // repository:tag as charts and manifests name it, "ghcr.io/stefanprodan/podinfo:6.9.2"
	Digest  string // sha256:... of the image's configuration: the image id, the same in every engine
	Archive string // path of a docker-archive (docker load, ctr images import)
	Size    int64  // bytes of Archive
	Origin  Origin
}

// Chart is a Helm chart at hand as a .tgz on disk.
type Chart struct {
	Name    string // chart name, "podinfo"
	Version string // chart version, SemVer without v
	Digest  string // sha256:... of the file
	Archive string // path of the .tgz
	Origin  Origin
}

// Origin says where an image or chart came from.
type Origin string

// The origins, in the order in which they are tried.
const (
	OriginEngine   Origin = "engine"   // already in the container engine
	OriginBundle   Origin = "bundle"   // a bundle archive
	OriginRegistry Origin = "registry" // a registry that answered
	OriginSource   Origin = "source"   // built from Go modules and Debian packages
)
