package cli

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/ui"
)

func (p *program) credsCommand() *cli.Command {
	name := string(theEngine().Type)
	return &cli.Command{
		Name:        "creds",
		Usage:       "print the address, user and password of Argo CD and the forge",
		ArgsUsage:   "[" + name + "|forge]",
		Description: "With a service named, the password alone is printed.\n\n" + examples("lab creds", "lab creds "+name, "lab creds -o json"),
		Flags:       []cli.Flag{nameFlag, outputFlag},
		Action: func(c *cli.Context) error {
			s, err := p.existing(c)
			if err != nil {
				return err
			}
			cr, err := s.dir.Credentials()
			if err != nil {
				return err
			}
			all := []ui.Credential{
				{Service: name, URL: s.engineURL(), User: cr.EngineUser, Password: cr.EnginePassword},
				{Service: "forge", URL: s.forgeURL(), User: cr.ForgeUser, Password: cr.ForgePassword},
			}
			return p.printCreds(all, c.Args().First())
		},
	}
}

func (p *program) printCreds(all []ui.Credential, service string) error {
	if service == "" && p.ui.WantsJSON() {
		return p.ui.JSON(ui.CredsResult{Credentials: all})
	}
	for _, cr := range all {
		switch {
		case service == "":
			p.ui.Print(fmt.Sprintf("%-8s %s   user %s   password %s", cr.Service, cr.URL, cr.User, cr.Password))
		case service == cr.Service && p.ui.WantsJSON():
			return p.ui.JSON(cr)
		case service == cr.Service:
			p.ui.Print(cr.Password)
			return nil
		}
	}
	if service == "" {
		return nil
	}
	return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("no service %q", service), Cure: "lab creds " + string(theEngine().Type) + " or lab creds forge"}
}

func (s *session) engineURL() string {
	return fmt.Sprintf("http://127.0.0.1:%d", s.record.Ports.Engine)
}

func (s *session) forgeURL() string { return fmt.Sprintf("http://127.0.0.1:%d", s.record.Ports.Forge) }
