package cli

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/scenario"
	"homelab/lab/scenario/verb"
	"homelab/lab/ui"
)

func (p *program) scenarioCommand() *cli.Command {
	return &cli.Command{
		Name:  "scenario",
		Usage: "stories on the lab: drift, promotion, what a label brings, each with its expectations",
		Subcommands: []*cli.Command{
			{
				Name:        "ls",
				Usage:       "list the estate's scenarios",
				Description: examples("lab scenario ls", "lab scenario ls -o json"),
				Flags:       []cli.Flag{nameFlag, estateFlag, outputFlag},
				Action: func(c *cli.Context) error {
					if err := noArgs(c); err != nil {
						return err
					}
					return p.scenarioList(c)
				},
			},
			{
				Name:        "show",
				Usage:       "print what a scenario does, step by step",
				ArgsUsage:   "SCENARIO",
				Description: examples("lab scenario show drift", "lab scenario show drift -o json"),
				Flags:       []cli.Flag{nameFlag, estateFlag, outputFlag},
				Action:      p.scenarioShow,
			},
			p.scenarioRunCommand(),
		},
	}
}

func (p *program) scenarioRunCommand() *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "play scenarios on the running lab, and leave it as it was",
		ArgsUsage: "SCENARIO...",
		Description: "Plays the named scenarios one after another, all of the estate with --all. What they change is put back at the end, also after a failure or an\n" +
			"interrupt, and the lab is compared with how it was found. Each leaves a page with its timeline.\n\n" +
			examples("lab scenario run drift", "lab scenario run --pause promotion", "lab scenario run --all --junit scenarios.xml", "lab scenario run --fresh drift"),
		Flags: []cli.Flag{
			nameFlag, estateFlag, outputFlag, imagesFlag, mirrorFlag,
			&cli.BoolFlag{Name: "all", Usage: "every scenario of the estate"},
			&cli.BoolFlag{Name: "pause", Usage: "wait for enter before each step: for the stage"},
			&cli.IntFlag{Name: "step", Usage: "play step `N` alone"},
			&cli.IntFlag{Name: "from", Usage: "play from step `N` on"},
			&cli.BoolFlag{Name: "fresh", Usage: "on a lab that is made for it and removed again, with the clusters that the scenarios require"},
			&cli.StringFlag{Name: "junit", Usage: "write the results to `FILE` as JUnit XML, for CI"},
			&cli.StringFlag{Name: "report", Usage: "write the timelines to `DIR` (default: the lab's state folder; with --fresh lab's cache)"},
			&cli.DurationFlag{Name: "timeout", Usage: "with --fresh: `TIME` for the applications to converge", Value: 5 * time.Minute},
		},
		Action: p.scenarioRun,
	}
}

// stories reads scenarios, and tells the problems of all of them at once.
func (s *session) stories(names []string) ([]*scenario.Scenario, error) {
	var list []*scenario.Scenario
	var problems lab.Problems
	for _, name := range names {
		one, err := scenario.Load(s.estate.fsys, name, verb.All())
		var told *lab.Error
		if errors.As(err, &told) && len(told.Problems) > 0 {
			problems = append(problems, told.Problems...)
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	if len(problems) == 0 {
		return list, nil
	}
	what := "1 problem"
	if len(problems) > 1 {
		what = fmt.Sprintf("%d problems", len(problems))
	}
	return nil, &lab.Error{Exit: lab.ExitInvalid, Code: "invalid_scenario", Message: what + " in the scenarios, nothing was touched", Problems: problems}
}

func (p *program) scenarioList(c *cli.Context) error {
	s, err := p.open(c)
	if err != nil {
		return err
	}
	names, err := scenario.List(s.estate.fsys)
	if err != nil {
		return err
	}
	list, err := s.stories(names)
	if err != nil {
		return err
	}
	if p.ui.WantsJSON() {
		var out ui.ScenarioList
		for _, one := range list {
			out.Scenarios = append(out.Scenarios, ui.ScenarioSummary{Name: one.Name, Title: one.Title, Teaches: one.Teaches, Steps: len(one.Steps) + len(one.Always)})
		}
		return p.ui.JSON(out)
	}
	if len(list) == 0 {
		p.ui.Print("the estate has no scenarios: they are in " + lab.ScenariosDir + "/NAME/scenario.yaml")
		return nil
	}
	t := ui.Table{Head: []string{"SCENARIO", "STEPS", "STORY"}}
	for _, one := range list {
		t.Rows = append(t.Rows, []string{one.Name, fmt.Sprint(len(one.Steps) + len(one.Always)), one.Title})
	}
	p.ui.Table(t)
	return nil
}

func (p *program) scenarioShow(c *cli.Context) error {
	s, err := p.open(c)
	if err != nil {
		return err
	}
	if c.NArg() != 1 {
		return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: "lab scenario show takes the name of one scenario", Cure: "lab scenario ls"}
	}
	list, err := s.stories(c.Args().Slice())
	if err != nil {
		return err
	}
	one := list[0]
	if p.ui.WantsJSON() {
		return p.ui.JSON(shown(one))
	}
	p.ui.Print(one.Name + ": " + one.Title)
	p.ui.Print(one.Teaches)
	p.ui.Print("")
	t := ui.Table{}
	for _, step := range shown(one).Steps {
		title := step.Title
		if step.Always {
			title += " (always)"
		}
		t.Rows = append(t.Rows, []string{fmt.Sprintf("%2d", step.Number), step.Verb, title})
	}
	p.ui.Table(t)
	p.ui.Print("")
	p.ui.Print(one.File + "; play it: lab scenario run " + one.Name)
	return nil
}

func shown(one *scenario.Scenario) ui.ScenarioShow {
	out := ui.ScenarioShow{
		Name: one.Name, Title: one.Title, Teaches: one.Teaches, File: one.File, Engines: one.Requires.Engine, Clusters: one.Requires.Clusters,
	}
	for i, step := range slices.Concat(one.Steps, one.Always) {
		out.Steps = append(out.Steps, ui.ScenarioStep{
			Number: step.Number, ID: step.ID, Title: step.Title, Verb: step.Verb, Always: i >= len(one.Steps), Line: step.At.Line,
		})
	}
	return out
}
