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
	"strings"

	"github.com/go-logr/logr"
	"github.com/urfave/cli/v2"
	"k8s.io/klog/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/doctor"
	"homelab/lab/state"
	"homelab/lab/supply"
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

	supplies map[origin]func() (*supply.Supply, error) // that were needed to read an estate
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
	p.setUI(argv.WantsJSON(env.Args)) // before parsing flags, so that usage errors are JSON, too
	if inside, is := p.inside(env.Args); is {
		return inside(ctx)
	}
	app := p.app()
	if n := len(env.Args) - 1; n > 0 && env.Args[n] == completeFlag {
		for _, word := range argv.Complete(app, env.Args[1:n], p.values) {
			p.ui.Raw(word + "\n")
		}
		return lab.ExitDone
	}
	err := app.RunContext(ctx, argv.FlagsFirst(app, env.Args))
	if err := state.HandOver(); err != nil {
		p.ui.Println("some of lab's files stay root's: " + err.Error())
	}
	if err == nil {
		return lab.ExitDone
	}
	var shown exitError
	if errors.As(err, &shown) {
		return shown.exit
	}
	return p.ui.Error(doctor.Cure(err))
}

// silence discards log output of libraries: client-go's watches log through klog, and Helm's value merging through the standard logger. They also return it
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

// exitError is an exit code whose outcome was already shown.
type exitError struct{ exit lab.Exit }

func (e exitError) Error() string { return fmt.Sprintf("exit %d", e.exit) }

func (p *program) app() *cli.App {
	app := &cli.App{
		Name:                   "lab",
		Usage:                  "a GitOps estate on one machine, behaving like the cloud",
		Version:                versionInfo().Version,
		HideVersion:            true,
		Suggest:                true,
		UseShortOptionHandling: true,
		Writer:                 p.env.Out,
		ErrWriter:              p.env.Err,
		ExitErrHandler:         func(*cli.Context, error) {}, // only main exits
		OnUsageError:           argv.UsageError,
		Action:                 argv.NoCommand,
		Commands: []*cli.Command{
			p.upCommand(), p.downCommand(), p.statusCommand(), p.kubeconfigCommand(), p.credsCommand(), p.gitCommand(), p.registryCommand(), p.runnerCommand(), p.caCommand(), p.openCommand(), p.bridgeCommand(),
			p.scenarioCommand(), p.snapshotCommand(), p.rehearseCommand(), p.promoteCommand(), p.addonCommand(), p.generateCommand(), p.planCommand(), p.renderCommand(), p.explainCommand(), p.lintCommand(), p.diffCommand(), p.chartsCommand(), p.bundleCommand(), p.doctorCommand(), p.diagnoseCommand(), p.initCommand(), p.fillCommand(), p.completionCommand(), p.versionCommand(),
		},
	}
	app.CustomAppHelpTemplate = cli.AppHelpTemplate + "\n" + exitStatus + "\n"
	argv.SetDefaults(app.Commands)
	return app
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
