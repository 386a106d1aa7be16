package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/docker"
	"homelab/lab/forge"
	"homelab/lab/plan"
	"homelab/lab/runner"
	"homelab/lab/state"
	"homelab/lab/supply"
	"homelab/lab/ui"
	"homelab/lab/up"
	"homelab/lab/workspace"
)

// addRunner adds the runner, which the estate may have, and its account.
func (l *instance) addRunner(creds state.Credentials, wanted bool) {
	name := l.ws.Name
	l.core.Runner = forge.Guest{}
	if wanted {
		l.core.Runner = forge.Guest{Password: creds.RunnerPassword, Hook: runner.Hook(name), Secret: creds.RunnerSecret, Network: runner.Network(name)}
	}
	l.core.Parts = append(l.core.Parts, up.Part{
		Part: plan.Part{Name: runner.Name, Wanted: wanted, Needs: []string{plan.KindForge}}, Charts: true, Passing: true,
		Service: runner.New(name, l.docker, l.ws.Dir, runner.Options{
			Place: runner.Place{Lab: name, Engine: string(l.ws.Engine), Version: l.ws.Version.Version},
			Secrets: runner.Secrets{
				URL: l.gitea.URL(), Owner: creds.ForgeUser, Name: forge.Repository, User: forge.Runner, Password: creds.RunnerPassword, Webhook: creds.RunnerSecret,
			},
			Image: l.runnerImage, Forge: lab.ForgeName(name),
		}),
	})
}

// runnerImage returns what the runner's containers have: lab, and the charts that the estate uses, as far as they are on this machine.
func (l *instance) runnerImage(ctx context.Context) (image runner.Image, err error) {
	if image.Program = os.Getenv(runner.ProgramVariable); image.Program == "" {
		if image.Program, err = os.Executable(); err != nil {
			return image, err
		}
	}
	const cache = "lab" // below XDG_CACHE_HOME, as in state.CacheRoot
	image.Charts = map[string][]byte{}
	list, err := l.core.ChartsAtHand(ctx)
	if err != nil {
		return image, err
	}
	for _, c := range list {
		if image.Charts[path.Join(cache, supply.Carried(c.Name, c.Version))], err = os.ReadFile(c.Archive); err != nil {
			return image, err
		}
	}
	for _, app := range l.core.Estate.Applications {
		for _, use := range app.Charts {
			for name, data := range l.with.supply.Charts().Stored(use) {
				image.Charts[path.Join(cache, "charts", name)] = data
			}
		}
	}
	return image, nil
}

func (p *program) runnerCommand() *cli.Command {
	return &cli.Command{
		Name:  "runner",
		Usage: "what checks the pull requests on the lab's Git server",
		Subcommands: []*cli.Command{{
			Name:  "log",
			Usage: "print what the runner did",
			Description: "Titles and messages of pull requests are shown without control characters.\n\n" +
				examples("lab runner log", "lab runner log --follow", "lab runner log -o json"),
			Flags: []cli.Flag{nameFlag, estateFlag, outputFlag, &cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on with what it does, until ctrl-c"}},
			Action: p.labAction(p.existing, argv.NoArgs, func(c *cli.Context, ws *workspace.Workspace) error {
				return p.runnerLog(c.Context, ws, c.Bool("follow"))
			}),
		}},
	}
}

const runnerLines = 1000 // of its log

func (p *program) runnerLog(ctx context.Context, ws *workspace.Workspace, follow bool) error {
	if follow && p.ui.WantsJSON() {
		return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: "--follow and -o json cannot be combined", Cure: "use one of them"}
	}
	none := &lab.Error{
		Exit: lab.ExitFailed, Code: "no_runner", Message: "lab " + ws.Name + " has no runner", Cure: "add spec.runner: {} to the hub's cluster.yaml, then " + ws.OnEstate("lab up"),
	}
	if !ws.Dir.HasPart(runner.Name) {
		return none
	}
	d, container := docker.New(), lab.PartName(ws.Name, runner.Name)
	text, err := d.Logs(ctx, container, runnerLines)
	switch {
	case docker.NotFound(err):
		return none
	case err != nil:
		return err
	case follow:
		return d.Follow(ctx, container, runnerLines, &lineWriter{line: func(text []byte) { p.ui.Print(runnerEntry(text).String()) }})
	}
	res := ui.RunnerLogResult{Lab: ws.Name}
	for line := range bytes.Lines(text) {
		res.Entries = append(res.Entries, runnerEntry(line))
	}
	return p.ui.RunnerLog(res)
}

// runnerEntry reads a line of the supervisor's log. One that it did not write as JSON, such as a crash, is its message.
func runnerEntry(line []byte) ui.RunnerLogEntry {
	var of struct {
		Time       time.Time
		Level, Msg string
		Request    int
		Title      string
		Head       string
		Check      string
		State      string
		Said       string
		Error      string
		Took       time.Duration
	}
	if err := json.Unmarshal(line, &of); err != nil {
		return ui.RunnerLogEntry{Level: "error", Message: strings.TrimSpace(string(line))}
	}
	e := ui.RunnerLogEntry{
		Time: of.Time.UTC().Format(time.RFC3339), Level: strings.ToLower(of.Level), Message: of.Msg, Request: of.Request, Title: of.Title, Head: of.Head, Check: of.Check, State: of.State,
		Said: of.Said, Seconds: of.Took.Seconds(),
	}
	if of.Error != "" {
		e.Said = of.Error
	}
	return e
}

// lineWriter calls line for each line that is written.
type lineWriter struct {
	line func([]byte)
	rest []byte
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		line, rest, found := bytes.Cut(w.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		w.line(line)
		w.rest = rest
	}
}
