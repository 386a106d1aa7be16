// Package cli implements the command line: it maps flags to options, options to adapters, and errors to exit codes. Only this package imports all adapters.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/urfave/cli/v2"
	"k8s.io/klog/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/doctor"
	"homelab/lab/present"
	"homelab/lab/ui"
)

// Env is the environment of a run.
type Env struct {
	Args   []string
	Out    *os.File
	Err    *os.File
	Getenv func(string) string
	Estate fs.FS // the embedded estate
}

// program is one run of the program.
type program struct {
	env Env
	ui  *ui.UI
}

const exitStatus = `EXIT STATUS:
   0    done
   1    failed
   2    usage, or an invalid estate: nothing was touched
   3    not converged in time
   4    an assertion or a drift check failed
   130  interrupted`

// Run runs the program and returns its exit code.
func Run(ctx context.Context, env Env) lab.Exit {
	silence()
	p := &program{env: env}
	p.setUI(wantsJSON(env.Args)) // before parsing flags, so that usage errors are JSON, too
	app := p.app()
	if n := len(env.Args) - 1; n > 0 && env.Args[n] == completeFlag {
		for _, word := range argv.Complete(app, env.Args[1:n], p.values) {
			p.ui.Raw(word + "\n")
		}
		return lab.ExitDone
	}
	err := app.RunContext(ctx, argv.FlagsFirst(app, env.Args))
	if err == nil {
		return lab.ExitDone
	}
	var shown exitError
	if errors.As(err, &shown) {
		return shown.exit
	}
	return p.ui.Error(doctor.Cure(err))
}

// silence discards what libraries log on their own, client-go's watches through klog and Helm's value merging through the standard logger. They also return it
// as errors.
func silence() {
	klog.SetLogger(logr.Discard())
	log.SetOutput(io.Discard)
}

// setUI creates the UI for text or JSON output.
func (p *program) setUI(json bool) {
	opts := ui.Detect(p.env.Out, p.env.Err, p.env.Getenv)
	opts.JSON = json
	p.ui = ui.New(opts)
}

func wantsJSON(args []string) bool {
	for i, a := range args {
		switch a {
		case "-o=json", "--output=json", "-output=json", "-ojson":
			return true
		case "-o", "--output", "-output":
			return i+1 < len(args) && args[i+1] == "json"
		}
	}
	return false
}

// exitError is an exit code whose outcome was already shown.
type exitError struct{ exit lab.Exit }

func (e exitError) Error() string { return fmt.Sprintf("exit %d", e.exit) }

func (p *program) app() *cli.App {
	app := &cli.App{
		Name:                   "lab",
		Usage:                  "a GitOps estate on one machine, behaving like the cloud",
		Version:                present.Version().Version,
		HideVersion:            true,
		Suggest:                true,
		UseShortOptionHandling: true,
		Writer:                 p.env.Out,
		ErrWriter:              p.env.Err,
		ExitErrHandler:         func(*cli.Context, error) {}, // only main exits
		OnUsageError:           usageError,
		Action:                 noCommand,
		Commands: []*cli.Command{
			p.upCommand(), p.downCommand(), p.statusCommand(), p.kubeconfigCommand(), p.credsCommand(), p.gitCommand(), p.bridgeCommand(),
			p.scenarioCommand(), p.snapshotCommand(), p.promoteCommand(), p.generateCommand(), p.bundleCommand(), p.doctorCommand(), p.diagnoseCommand(), p.initCommand(), p.completionCommand(), p.versionCommand(),
		},
	}
	app.CustomAppHelpTemplate = cli.AppHelpTemplate + "\n" + exitStatus + "\n"
	setDefaults(app.Commands)
	return app
}

// setDefaults sets the defaults of all commands: lab's own usage errors, and no built-in `help` subcommand that would capture an argument.
func setDefaults(commands []*cli.Command) {
	for _, c := range commands {
		c.OnUsageError = usageError
		c.HideHelpCommand = true
		if len(c.Subcommands) > 0 && c.Action == nil {
			c.Action = noCommand
		}
		c.CustomHelpTemplate = cli.CommandHelpTemplate
		if len(c.Subcommands) > 0 {
			c.CustomHelpTemplate = cli.SubcommandHelpTemplate // lists the subcommands
		}
		setDefaults(c.Subcommands)
	}
}

func usageError(c *cli.Context, err error, _ bool) error {
	return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: firstToLower(err.Error()), Cure: helpFor(c)}
}

func helpFor(c *cli.Context) string {
	name := strings.TrimSpace(c.Command.HelpName)
	if name == "" {
		name = "lab"
	}
	return "see " + name + " --help"
}

// noCommand is the action of a command with subcommands: it shows help, or rejects an unknown subcommand.
func noCommand(c *cli.Context) error {
	if word := c.Args().First(); word != "" {
		e := &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("no such command: %q", word), Cure: helpFor(c)}
		commands := c.App.Commands
		if len(c.Command.Subcommands) > 0 {
			commands = c.Command.Subcommands
		}
		if near := cli.SuggestCommand(commands, word); near != "" {
			e.Cure = strings.TrimSuffix(firstToLower(near), "?")
		}
		return e
	}
	if len(c.Command.Subcommands) > 0 && c.Command.Name != c.App.Name {
		return cli.ShowSubcommandHelp(c)
	}
	return cli.ShowAppHelp(c)
}

func firstToLower(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}

// noArgs rejects arguments.
func noArgs(c *cli.Context) error {
	if c.Args().Present() {
		return usageError(c, fmt.Errorf("%s takes no argument, got %q", c.Command.HelpName, c.Args().First()), true)
	}
	return nil
}

// anyArgs accepts any arguments.
func anyArgs(*cli.Context) error { return nil }

// exactlyOne requires exactly one argument.
func exactlyOne(word, example string) func(*cli.Context) error {
	return func(c *cli.Context) error {
		if c.NArg() != 1 {
			return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: c.Command.HelpName + " takes " + word, Cure: c.Command.HelpName + " " + example}
		}
		return nil
	}
}

// oneOf requires a flag to have one of the given values.
func oneOf(c *cli.Context, flag string, words ...string) error {
	if v := c.String(flag); v != "" && !slices.Contains(words, v) {
		return usageError(c, fmt.Errorf("--%s takes %s, got %q", flag, strings.Join(words, " or "), v), true)
	}
	return nil
}

// examples formats the Description of a command, shown in its help below the usage.
func examples(lines ...string) string {
	var b strings.Builder
	b.WriteString("Examples:\n")
	for _, l := range lines {
		b.WriteString("  " + l + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}
