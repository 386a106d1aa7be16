package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/hostnames"
	"homelab/lab/ui"
	"homelab/lab/workspace"
)

func (p *program) caCommand() *cli.Command {
	return &cli.Command{
		Name:        "ca",
		Usage:       "print the certificate authority of the lab's names",
		Description: "It signs for names below LAB.localhost alone, and its private key stays in the lab's state folder.\n\n" + examples("lab ca > ca.crt", "lab ca -o json"),
		Flags:       []cli.Flag{nameFlag, estateFlag, outputFlag},
		Subcommands: []*cli.Command{p.caTrustCommand(), p.caUntrustCommand()},
		Action:      p.labAction(p.existing, argv.NoArgs, func(_ *cli.Context, ws *workspace.Workspace) error { return p.ca(ws) }),
	}
}

func (p *program) ca(ws *workspace.Workspace) error {
	text, err := certificate(ws)
	if err != nil {
		return err
	}
	return p.ui.CA(ui.CAResult{Lab: ws.Name, Domain: hostnames.Domain(ws.Name), Certificate: text, SHA256: fingerprint(text)})
}

// certificate returns the certificate of a lab's authority, in PEM.
func certificate(ws *workspace.Workspace) (string, error) {
	creds, err := ws.Dir.Credentials()
	if err != nil {
		return "", err
	}
	if creds.Authority == "" {
		return "", noDoor(ws)
	}
	return hostnames.Certificate(creds.Authority)
}

func noDoor(ws *workspace.Workspace) error {
	return &lab.Error{
		Exit: lab.ExitFailed, Code: "no_door", Message: "lab " + ws.Name + " has no door for names",
		Cure: "add spec.door: {} to the hub's cluster.yaml, then " + ws.OnEstate("lab up"),
	}
}

// fingerprint returns the SHA-256 digest of a certificate in PEM, as browsers show it.
func fingerprint(certificate string) string {
	block, _ := pem.Decode([]byte(certificate))
	sum := sha256.Sum256(block.Bytes)
	return hex.EncodeToString(sum[:])
}
