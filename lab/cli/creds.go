package cli

import (
	"fmt"
	"net"
	"strconv"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/registry"
	"homelab/lab/service"
	"homelab/lab/ui"
	"homelab/lab/up"
	"homelab/lab/workspace"
)

func (p *program) credsCommand() *cli.Command {
	return &cli.Command{
		Name:        "creds",
		Usage:       "print the address, user and password of Argo CD, the forge and the registry",
		ArgsUsage:   "[SERVICE]",
		Description: "Given a service, prints only its password.\n\n" + examples("lab creds", "lab creds forge", "lab creds -o json"),
		Flags:       []cli.Flag{nameFlag, estateFlag, outputFlag},
		Action: p.labAction(p.existing, argv.AnyArgs, func(c *cli.Context, ws *workspace.Workspace) error {
			return p.creds(ws, c.Args().First())
		}),
	}
}

// creds prints the credentials of a service of the lab, or of all if service is empty.
func (p *program) creds(ws *workspace.Workspace, service string) error {
	l, err := assemble(ws, parts{})
	if err != nil {
		return err
	}
	all := credentials(l.core)
	if service == "" {
		return p.ui.Creds(ui.CredsResult{Credentials: all})
	}
	for _, one := range all {
		if one.Service == service {
			return p.ui.Result(one, one.Password)
		}
	}
	return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("no service %q in this lab", service), Cure: "lab creds lists them"}
}

// credentials returns the credentials of the engine, if it has a UI, of the forge and of the registry, if there is one.
func credentials(l *up.Lab) []ui.Credential {
	var list []ui.Credential
	if l.Definition.UI {
		list = append(list, ui.Credential{Service: string(l.Definition.Type), URL: l.EngineURL(), User: l.Creds.EngineUser, Password: l.Creds.EnginePassword})
	}
	list = append(list, ui.Credential{Service: "forge", URL: l.ForgeURL(), User: l.Creds.ForgeUser, Password: l.Creds.ForgePassword})
	if port := l.Dir.PortOf(service.PortName(registry.Name, registry.Port)); port != 0 {
		list = append(list, ui.Credential{Service: registry.Name, URL: "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), User: l.Creds.RegistryUser, Password: l.Creds.RegistryPassword})
	}
	return list
}
