package ui

// CAResult is `lab ca -o json`.
type CAResult struct {
	Lab         string `json:"lab"`
	Domain      string `json:"domain"`      // that it signs for: "LAB.localhost"
	Certificate string `json:"certificate"` // in PEM
	SHA256      string `json:"sha256"`      // of the certificate, in hexadecimal
}

// CATrustResult is `lab ca trust -o json` and `lab ca untrust -o json`.
type CATrustResult struct {
	Lab     string       `json:"lab"`
	Trusted bool         `json:"trusted"` // afterwards
	Store   string       `json:"store"`   // of this system
	File    string       `json:"file"`    // of the certificate; empty where a program keeps it
	Changed bool         `json:"changed"`
	Did     List[string] `json:"did"` // one line for each change
}

// OpenResult is `lab open -o json`.
type OpenResult struct {
	Lab     string `json:"lab"`
	Name    string `json:"name"`    // as asked for
	Cluster string `json:"cluster"` // of an addon
	URL     string `json:"url"`     // on this machine
}
