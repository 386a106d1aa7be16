package ui

// RegistryContent is what a tag of the lab's registry names.
type RegistryContent struct {
	Name       string `json:"name"` // in the lab: "registry:5000/team/podinfo:1"
	Repository string `json:"repository"`
	Tag        string `json:"tag"`
	Digest     string `json:"digest"`
	Kind       string `json:"kind"`  // image, chart or artifact
	Bytes      int64  `json:"bytes"` // of its layers, compressed; 0 for an image of several platforms
}

// RegistryPushResult is `lab registry push -o json`.
type RegistryPushResult struct {
	Lab    string          `json:"lab"`
	Pushed RegistryContent `json:"pushed"`
}

// RegistryListResult is `lab registry ls -o json`, by repository and tag.
type RegistryListResult struct {
	Lab      string                `json:"lab"`
	Contents List[RegistryContent] `json:"contents"`
}

// RegistryRemoveResult is `lab registry rm -o json`.
type RegistryRemoveResult struct {
	Lab     string       `json:"lab"`
	Removed List[string] `json:"removed"` // names
}

// RegistryURLResult is `lab registry url -o json`.
type RegistryURLResult struct {
	URL  string `json:"url"`  // on this machine
	Host string `json:"host"` // in the lab: "registry:5000"
}
