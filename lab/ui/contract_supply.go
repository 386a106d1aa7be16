package ui

// BundleResult is `lab bundle ls|build|save|load -o json`.
type BundleResult struct {
	Items    List[BundleItem] `json:"items"`
	File     string           `json:"file"`      // of save and load; empty otherwise
	SHA256   string           `json:"sha256"`    // of the file
	MadeBy   string           `json:"made_by"`   // version of the lab that made it, by its own account
	MadeAt   string           `json:"made_at"`   // RFC 3339
	MadeFrom string           `json:"made_from"` // where that lab had the images from
}

// BundleItem is an image or chart.
type BundleItem struct {
	Kind   string `json:"kind"`   // image or chart
	Name   string `json:"name"`   // component or chart
	Ref    string `json:"ref"`    // image reference; version of a chart
	Digest string `json:"digest"` // empty unless present or pinned
	Bytes  int64  `json:"bytes"`  // of the archive on disk
	Origin string `json:"origin"` // origin, actual or expected: engine, bundle, registry or source
	AtHand bool   `json:"at_hand"`

	Version string              `json:"version"` // of the content
	Check   string              `json:"check"`   // what the content was or will be compared with: pin, recipe, claim or first-use
	Why     string              `json:"why"`     // of claim and first-use
	Modules List[BundleModule]  `json:"modules"` // whose sums a build from source is checked against
	Debian  List[BundlePackage] `json:"debian"`  // of an image, with --packages
}

// BundleModule is a Go module of a recipe.
type BundleModule struct {
	Path    string `json:"path"`
	Version string `json:"version"`
	Sum     string `json:"sum"` // h1:..., as in go.sum
}

// BundlePackage is a Debian package.
type BundlePackage struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// VersionResult is `lab version -o json`.
type VersionResult struct {
	Version  string `json:"version"`
	Revision string `json:"revision"` // commit that lab was built from, if known
	Go       string `json:"go"`
	Kind     string `json:"kind"`
	Helm     string `json:"helm"`

	Supply List[VersionSupply] `json:"supply"` // the images and charts that lab knows, whether they are here or not
}

// VersionSupply is an image or chart of one origin.
type VersionSupply struct {
	Kind    string             `json:"kind"` // image or chart
	Name    string             `json:"name"`
	Version string             `json:"version"`
	Ref     string             `json:"ref"`
	Origin  string             `json:"origin"`  // registry or source
	Digest  string             `json:"digest"`  // pinned; empty from source, or if unknown
	Check   string             `json:"check"`   // as in lab bundle ls
	Why     string             `json:"why"`     // of first-use
	Modules List[BundleModule] `json:"modules"` // from source
}
