package cli

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/estate"
	"homelab/lab/supply"
	"homelab/lab/supply/charts"
	"homelab/lab/ui"
	"homelab/lab/workspace"
)

func (p *program) chartsCommand() *cli.Command {
	flags := []cli.Flag{nameFlag, estateFlag, outputFlag, engineFlag, versionFlag, imagesFlag}
	return &cli.Command{
		Name:  "charts",
		Usage: "the charts of other people's repositories that the estate names: list and pull them",
		Subcommands: []*cli.Command{
			{
				Name:  "ls",
				Usage: "list the charts, and whether they are on this machine",
				Description: "Those of Applications, of HelmReleases and of kustomizations, and dependencies that are not vendored. Makes no requests. Lab's own charts are in\n" +
					"lab bundle ls.\n\n" + examples("lab charts ls", "lab charts ls --engine flux", "lab charts ls -o json"),
				Flags: flags,
				Action: p.labAction(p.open, argv.NoArgs, func(c *cli.Context, ws *workspace.Workspace) error {
					s, uses, err := p.charts(c.Context, ws, originOf(c))
					if err != nil {
						return err
					}
					return p.ui.Charts(chartsResult(s, ws, uses))
				}),
			},
			{
				Name:  "pull",
				Usage: "pull the charts that are missing, so that lab render, lab explain and lab up know what is in them",
				Description: "This is the only command that contacts the repositories that the estate names. Charts are kept in lab's cache, by repository, name and version. A range such\n" +
					"as 1.x is asked for again each time. It uses no credentials, unless --credentials is given.\n\n" +
					examples("lab charts pull", "lab charts pull --all", "lab charts pull --registry-mirror registry.example.com", "lab charts pull -o json"),
				Flags: append(slices.Clone(flags), mirrorFlag,
					&cli.BoolFlag{Name: "all", Usage: "also pull those that are on this machine, to learn whether an archive has changed"},
					&cli.BoolFlag{Name: "credentials", Usage: "use those of docker login for registries"},
				),
				Action: p.labAction(p.open, argv.NoArgs, func(c *cli.Context, ws *workspace.Workspace) error {
					return p.pullCharts(c.Context, ws, originOf(c), c.Bool("all"), c.Bool("credentials"))
				}),
			},
		},
	}
}

// usedChart is a chart that the estate names.
type usedChart struct {
	lab.ChartUse
	err error // why it is not here
}

// key returns the chart without the place that names it.
func (u usedChart) key() lab.ChartUse {
	of := u.ChartUse
	of.At = lab.Position{}
	return of
}

// charts returns the charts of other people's repositories that the estate names, found by rendering all of it, in the order of repositories and names.
func (p *program) charts(ctx context.Context, ws *workspace.Workspace, from origin) (*supply.Supply, []usedChart, error) {
	options, err := supplyOptions(from)
	if err != nil {
		return nil, nil, err
	}
	s, err := supply.Local(ctx, options)
	if err != nil {
		return nil, nil, err
	}
	var uses []usedChart
	open := estate.WithChartFiles(func(use lab.ChartUse) (lab.ChartFiles, error) {
		files, err := s.Files(ctx, use)
		of := usedChart{use, err}
		if use.Repository != "" && !slices.ContainsFunc(uses, func(u usedChart) bool { return u.key() == of.key() }) {
			uses = append(uses, of)
		}
		return files, err
	})
	_, apps, err := ws.Desired(append(estate.Supplied(s), open)...)
	if err != nil {
		return nil, nil, err
	}
	for _, app := range apps {
		_, _ = app.Objects() // asks for charts; lab render reports problems
	}
	slices.SortFunc(uses, func(a, b usedChart) int {
		return cmp.Or(cmp.Compare(a.Repository, b.Repository), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	})
	return s, uses, nil
}

// pullCharts pulls charts, and then those that only these show: an Application in a chart may name more.
func (p *program) pullCharts(ctx context.Context, ws *workspace.Workspace, from origin, all, credentials bool) error {
	pulled := map[lab.ChartUse]charts.Pulled{}
	failed := map[lab.ChartUse]error{}
	var puller *charts.Puller
	for {
		s, uses, err := p.charts(ctx, ws, from)
		if err != nil {
			return err
		}
		if puller == nil {
			puller = s.Charts().NewPuller(charts.Options{Mirror: from.mirror, Credentials: credentials})
		}
		more := false
		for _, use := range uses {
			at := use.key()
			_, before := pulled[at]
			if before || failed[at] != nil || use.err == nil && !all && !charts.Floating(use.Version) {
				continue
			}
			err := p.ui.Narrate(func(progress lab.Progress) error {
				progress(strings.TrimSpace("pulling chart "+use.Name+" "+use.Version) + " of " + charts.Redacted(use.Repository))
				of, err := puller.Pull(ctx, use.ChartUse)
				if err == nil {
					pulled[at] = of
				}
				return err
			})
			if ctx.Err() != nil {
				return err
			}
			if err != nil {
				failed[at] = err
				continue
			}
			more = true
		}
		if !more {
			return p.pulledCharts(s, ws, uses, pulled, failed)
		}
	}
}

// pulledCharts reports what was pulled, and all that was not.
func (p *program) pulledCharts(s *supply.Supply, ws *workspace.Workspace, uses []usedChart, pulled map[lab.ChartUse]charts.Pulled, failed map[lab.ChartUse]error) error {
	res := chartsResult(s, ws, uses)
	var problems lab.Problems
	for i, use := range uses {
		at := use.key()
		of, ok := pulled[at]
		res.Charts[i].Pulled, res.Charts[i].Was = ok, of.Was
		if known := new(lab.Error); errors.As(failed[at], &known) {
			return known // a full disk
		}
		if failed[at] != nil {
			problems = append(problems, lab.Problem{Position: use.At, Message: failed[at].Error()})
		}
	}
	res.Problems = ui.RenderProblems(problems)
	if err := p.ui.Charts(res); err != nil || len(problems) == 0 {
		return err
	}
	if p.ui.WantsJSON() {
		return exitError{lab.ExitFailed}
	}
	return &lab.Error{Exit: lab.ExitFailed, Code: "not_pulled", Message: ui.Count(len(problems), "chart") + " not pulled", Problems: problems}
}

// chartsResult converts the charts that the estate names.
func chartsResult(s *supply.Supply, ws *workspace.Workspace, uses []usedChart) ui.ChartsResult {
	res := ui.ChartsResult{Lab: ws.Name}
	for _, use := range uses {
		of := ui.Chart{Repository: charts.Redacted(use.Repository), Name: use.Name, Wanted: use.Version, Present: use.err == nil, File: use.At.File, Line: use.At.Line}
		if r, ok := s.Charts().Lookup(use.ChartUse); ok && of.Present {
			of.Version, of.Digest, of.Since = r.Version, r.Digest, r.Pulled.Format(time.RFC3339)
		}
		res.Charts = append(res.Charts, of)
	}
	return res
}
