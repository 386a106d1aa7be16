package cli

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/door/entrance"
	"homelab/lab/hostnames"
	"homelab/lab/service"
	"homelab/lab/ui"
	"homelab/lab/workspace"
)

func (p *program) openCommand() *cli.Command {
	return &cli.Command{
		Name: "open", Usage: "print the address of Argo CD, the forge or an addon, and open it in a browser", ArgsUsage: "SERVICE|ADDON",
		Description: "Addons have names in labs with a door. The browser is opened only from a terminal.\n\n" +
			examples("lab open "+string(lab.EngineArgoCD), "lab open podinfo --cluster dev", "lab open forge --print", "lab open podinfo --cluster dev -o json"),
		Flags: []cli.Flag{
			nameFlag, estateFlag, outputFlag,
			&cli.StringFlag{Name: "cluster", Usage: "the addon on `CLUSTER`; needed if several have it"},
			&cli.BoolFlag{Name: "print", Usage: "open no browser"},
		},
		Action: p.labAction(p.existing, argv.ExactlyOne("a service or an addon", string(lab.EngineArgoCD)), func(c *cli.Context, ws *workspace.Workspace) error {
			return p.openWhat(c.Context, ws, c.Args().First(), c.String("cluster"), c.Bool("print"))
		}),
	}
}

func (p *program) openWhat(ctx context.Context, ws *workspace.Workspace, what, in string, printed bool) error {
	l, err := assemble(ws, parts{})
	if err != nil {
		return err
	}
	res := ui.OpenResult{Lab: ws.Name, Name: what}
	services := credentials(l.core)
	i := slices.IndexFunc(services, func(c ui.Credential) bool { return c.Service == what })
	if i >= 0 && in == "" {
		res.URL = services[i].URL
	} else if res.Cluster, res.URL, err = named(ctx, ws, what, in); err != nil {
		return err
	}
	if browser := p.browser(); browser != nil && !printed && !p.ui.WantsJSON() {
		if err := exec.Command(browser[0], append(browser[1:], res.URL)...).Start(); err != nil { // it may run for as long as the page is open
			p.ui.Println("no browser opens it: " + err.Error())
		}
	}
	return p.ui.Result(res, res.URL)
}

// browser returns the command that opens an address, nil without a terminal or a desktop.
func (p *program) browser() []string {
	if !ui.Detect(p.env.Out, p.env.Err, p.env.Getenv).OutTTY {
		return nil
	}
	command := map[string][]string{"darwin": {"open"}, "windows": {"rundll32", "url.dll,FileProtocolHandler"}}[runtime.GOOS]
	if command == nil && cmp.Or(p.env.Getenv("DISPLAY"), p.env.Getenv("WAYLAND_DISPLAY")) != "" {
		command = []string{"xdg-open"}
	}
	if command == nil {
		return nil
	}
	if _, err := exec.LookPath(command[0]); err != nil {
		return nil
	}
	return command
}

// named returns the address of an addon at the lab's door, which must answer.
func named(ctx context.Context, ws *workspace.Workspace, addon, in string) (cluster, address string, err error) {
	text, err := certificate(ws)
	if err != nil {
		return "", "", err
	}
	port := ws.Dir.PortOf(service.PortName(hostnames.Name, hostnames.HTTPS))
	if port == 0 {
		return "", "", noDoor(ws)
	}
	report, err := hostnames.Routes(ctx, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), ws.Name, text)
	if err != nil {
		return "", "", &lab.Error{Exit: lab.ExitFailed, Code: "no_door", Message: "the door of lab " + ws.Name + " does not answer", Cure: ws.OnEstate("lab up") + " starts it", Err: err}
	}
	found := routesTo(report.Routes, addon, in, hostnames.Domain(ws.Name))
	switch {
	case len(found) == 0:
		e := &lab.Error{Exit: lab.ExitFailed, Code: "no_name", Message: fmt.Sprintf("no cluster offers %s under a name", addon), Cure: doorURL(ws.Dir, "") + " lists the names, and what is not served"}
		if in != "" {
			e.Message = fmt.Sprintf("cluster %s does not offer %s under a name", in, addon)
		}
		return "", "", e
	case len(found) > 1:
		var clusters []string
		for _, r := range found {
			clusters = append(clusters, r.Cluster)
		}
		return "", "", &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: addon + " is on several clusters: " + strings.Join(clusters, ", "), Cure: ws.Command("lab open "+lab.Quote(addon)) + " --cluster " + lab.Quote(clusters[0])}
	}
	host := strings.TrimSuffix(found[0].Host, "."+hostnames.Domain(ws.Name))
	return found[0].Cluster, doorURL(ws.Dir, host) + strings.TrimSuffix(found[0].Path, "/"), nil
}

// routesTo returns the best route to an addon in each cluster: by its name, by the name of an object, or by a namespace.
func routesTo(routes []entrance.Route, addon, in, domain string) []entrance.Route {
	rank := func(r entrance.Route) int {
		namespace, name, _ := strings.Cut(r.Object[strings.Index(r.Object, " ")+1:], "/")
		switch {
		case strings.HasPrefix(r.Host, "*") || in != "" && r.Cluster != in:
			return 0
		case r.Host == addon+"."+r.Cluster+"."+domain:
			return 3
		case name == addon:
			return 2
		case namespace == addon:
			return 1
		}
		return 0
	}
	best := map[string]entrance.Route{}
	for _, r := range routes {
		if had, ok := best[r.Cluster]; rank(r) > 0 && (!ok || rank(r) > rank(had)) {
			best[r.Cluster] = r
		}
	}
	var list []entrance.Route
	for _, r := range best {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b entrance.Route) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return list
}
