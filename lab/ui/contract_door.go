package ui

// CAResult is `lab ca -o json`.
type CAResult struct {
	Lab         string `json:"lab"`
	Domain      string `json:"domain"`      // that it signs for: "LAB.localhost"
	Certificate string `json:"certificate"` // in PEM
	SHA256      string `json:"sha256"`      // of the certificate, in hexadecimal
}
