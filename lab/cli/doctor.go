package cli

import (
	"context"
	"errors"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/bundle/source"
	"homelab/lab/docker"
	"homelab/lab/doctor"
	"homelab/lab/ui"
)

func (p *program) doctorCommand() *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "check this machine, and cure it with --fix",
		Description: "Without --fix nothing on the host is changed. With it, as root on Linux, what can be cured safely is cured, and said before it is done.\n\n" +
			examples("lab doctor", "lab doctor --fix", "lab doctor -o json"),
		Flags: []cli.Flag{
			nameFlag, estateFlag, outputFlag, imagesFlag, mirrorFlag,
			&cli.BoolFlag{Name: "fix", Usage: "apply the cures that are safe"},
		},
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			s, err := p.open(c)
			if err != nil {
				return err
			}
			est, err := s.load()
			if err != nil {
				return err
			}
			s.supply, err = s.openSupply(c.Context, docker.New(), c)
			if wrong := (*lab.Error)(nil); err != nil && (!errors.As(err, &wrong) || wrong.Exit != lab.ExitFailed) {
				return err
			}
			o := s.doctorOptions(s.toMake(est), err == nil && s.supply.Builds())
			o.Images = err // a finding like others
			report, err := s.examine(c.Context, doctor.New(o), c.Bool("fix"))
			if err != nil {
				return err
			}
			return p.showReport(report)
		},
	}
}

func (p *program) showReport(report doctor.Report) error {
	rows := reportRows(report)
	if p.ui.WantsJSON() {
		if err := p.ui.JSON(ui.NewDoctorResult(rows)); err != nil {
			return err
		}
	} else {
		p.ui.Report(rows)
	}
	if report.Count(doctor.StatusFail) > 0 {
		return exitError{lab.ExitFailed}
	}
	return nil
}

func reportRows(report doctor.Report) []ui.Row {
	symbols := map[doctor.Status]ui.Symbol{
		doctor.StatusOK: ui.SymbolOK, doctor.StatusWarn: ui.SymbolWarning, doctor.StatusFail: ui.SymbolFailed, doctor.StatusSkip: ui.SymbolWaiting,
	}
	rows := make([]ui.Row, 0, len(report.Checks))
	for _, c := range report.Checks {
		rows = append(rows, ui.Row{Symbol: symbols[c.Status], Title: c.Title, Text: c.Found, Cure: c.Cure})
	}
	return rows
}

// doctor is set for what is still to be made: clusters that run hold their memory already.
func (s *session) doctor(clusters int, build bool) *doctor.Doctor {
	return doctor.New(s.doctorOptions(clusters, build))
}

func (s *session) doctorOptions(clusters int, build bool) doctor.Options {
	return doctor.Options{
		Docker: docker.New(), Clusters: clusters, Engine: clusters > 0, BuildFromSource: build, Needs: buildNeeds(), CacheDir: s.cacheDir(),
	}
}

// toMake counts the clusters that are still to be made: those of a lab that was up hold their memory already.
func (s *session) toMake(est *lab.Estate) int {
	if s.record.Engine != "" {
		return 0
	}
	return len(est.Clusters)
}

// preflight makes the checks that come before anything is touched.
func (s *session) preflight(ctx context.Context, d *doctor.Doctor, fix bool) (doctor.Report, error) {
	report, err := s.examine(ctx, d, fix)
	if err != nil {
		return report, err
	}
	return report, report.Err()
}

// examine makes the checks, and with fix the cures that are safe. What an interrupt left unanswered says nothing about the machine.
func (s *session) examine(ctx context.Context, d *doctor.Doctor, fix bool) (doctor.Report, error) {
	report := d.Run(ctx)
	if ctx.Err() == nil && fix && report.Fixable() {
		if err := d.Fix(ctx, report, s.ui.Say); err != nil {
			return report, err
		}
		report = d.Run(ctx)
	}
	return report, context.Cause(ctx)
}

// buildNeeds are the programs that building images from source takes.
func buildNeeds() []doctor.Need {
	var needs []doctor.Need
	for _, n := range source.Needs() {
		needs = append(needs, doctor.Need{Program: n.Program, Package: n.Package})
	}
	return needs
}
