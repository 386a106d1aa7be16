package cli

import (
	"context"
	"errors"
	"time"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/cluster"
	"homelab/lab/docker"
	"homelab/lab/doctor"
	"homelab/lab/state"
	"homelab/lab/supply/source"
	"homelab/lab/ui"
	"homelab/lab/workspace"
)

func (p *program) doctorCommand() *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "check this machine, and fix it with --fix",
		Description: "Without --fix nothing on the host changes. With it, as root on Linux, safe cures are applied, each announced first and recorded; limits are " +
			"only raised. --undo reverts the recorded changes, except installed packages and what has been changed since.\n\n" +
			examples("lab doctor", "lab doctor --fix", "lab doctor --undo", "lab doctor -o json"),
		Flags: []cli.Flag{
			nameFlag, estateFlag, outputFlag, imagesFlag, mirrorFlag,
			&cli.BoolFlag{Name: "fix", Usage: "apply the cures that are safe"},
			&cli.BoolFlag{Name: "undo", Usage: "revert what --fix changed"},
		},
		Action: func(c *cli.Context) error {
			if c.Bool("undo") {
				return p.undo(c)
			}
			return p.labAction(p.open, argv.NoArgs, func(c *cli.Context, ws *workspace.Workspace) error {
				return p.doctor(c.Context, ws, originOf(c), c.Bool("fix"))
			})(c)
		},
	}
}

// undo puts the machine back. It concerns no lab and no estate.
func (p *program) undo(c *cli.Context) error {
	if err := argv.NoArgs(c); err != nil {
		return err
	}
	if err := p.output(c); err != nil {
		return err
	}
	if c.Bool("fix") {
		return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: "--undo reverts what --fix changes", Cure: "use one of them"}
	}
	list, err := doctor.New(doctor.Options{Docker: docker.New()}).Undo(c.Context, p.ui.Println)
	if err != nil {
		return err
	}
	return p.ui.Undone(undoResult(list))
}

func (p *program) doctor(ctx context.Context, ws *workspace.Workspace, from origin, fix bool) error {
	est, err := ws.Load()
	if err != nil {
		return err
	}
	s, err := openSupply(ctx, from)
	if wrong := (*lab.Error)(nil); err != nil && (!errors.As(err, &wrong) || wrong.Exit != lab.ExitFailed) {
		return err
	}
	o := doctorOptions(err == nil && s.Builds(), ws, est, est.Clusters)
	o.Images = err // reported like other findings
	if o.Ending, err = cluster.Ending(ws.Dir.Lab, ws.Dir.Kubeconfigs(), time.Now()); err != nil {
		return err
	}
	report, err := doctor.New(o).Examine(ctx, fix, p.ui.Println)
	if err != nil {
		return err
	}
	if err := p.ui.Doctor(machineRows(report)); err != nil {
		return err
	}
	if report.Count(doctor.StatusFail) > 0 {
		return exitError{lab.ExitFailed}
	}
	return nil
}

// doctorOptions returns the checks for some clusters of a lab, or for the machine alone without an estate. Running clusters already use their memory.
func doctorOptions(build bool, ws *workspace.Workspace, est *lab.Estate, scope []lab.Cluster) doctor.Options {
	clusters, memory := 0, int64(0)
	if est != nil {
		clusters = ws.ToCreate(scope)
		if own, _ := engines.Of(ws.Record, est); ws.Record.Type == "" || own.Everywhere() {
			memory = own.Needs(clusters)
		}
	}
	cache, _ := state.CacheRoot() // empty without a home directory
	return doctor.Options{
		Docker: docker.New(), Clusters: clusters, Engines: memory, BuildFromSource: build, Needs: buildNeeds(), CacheDir: cache,
	}
}

// buildNeeds lists the programs required to build images from source.
func buildNeeds() []doctor.Need {
	var needs []doctor.Need
	for _, n := range source.Needs() {
		needs = append(needs, doctor.Need{Program: n.Program, Package: n.Package})
	}
	return needs
}

// machineRows converts the results of the machine's checks.
func machineRows(report doctor.Report) []ui.Row {
	symbols := map[doctor.Status]ui.Symbol{
		doctor.StatusOK: ui.SymbolOK, doctor.StatusWarn: ui.SymbolWarning, doctor.StatusFail: ui.SymbolFailed, doctor.StatusSkip: ui.SymbolWaiting,
	}
	rows := make([]ui.Row, 0, len(report.Checks))
	for _, c := range report.Checks {
		rows = append(rows, ui.Row{Symbol: symbols[c.Status], Title: c.Title, Text: c.Found, Cure: c.Cure})
	}
	return rows
}

// undoResult converts what became of the machine's recorded changes.
func undoResult(list []doctor.Undone) ui.DoctorUndoResult {
	var res ui.DoctorUndoResult
	for _, u := range list {
		res.Changes = append(res.Changes, ui.DoctorUndone{What: u.What, When: u.When, Undone: u.Done, Note: u.Note})
	}
	return res
}
