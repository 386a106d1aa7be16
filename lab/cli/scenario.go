package cli

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/fieldpath"
	"homelab/lab/scenario"
	"homelab/lab/scenario/chainsaw"
	"homelab/lab/scenario/verb"
	"homelab/lab/ui"
	"homelab/lab/workspace"
	"homelab/lab/yamledit"
)

func (p *program) scenarioCommand() *cli.Command {
	return &cli.Command{
		Name:  "scenario",
		Usage: "stories played on the lab, with assertions: drift, promotion, an addon switched by a label",
		Subcommands: []*cli.Command{
			{
				Name:        "ls",
				Usage:       "list the estate's scenarios",
				Description: examples("lab scenario ls", "lab scenario ls -o json"),
				Flags:       []cli.Flag{nameFlag, estateFlag, outputFlag},
				Action: p.labAction(p.open, argv.NoArgs, func(c *cli.Context, ws *workspace.Workspace) error {
					return p.scenarioList(ws)
				}),
			},
			{
				Name:        "show",
				Usage:       "print the steps of a scenario",
				ArgsUsage:   "SCENARIO",
				Description: examples("lab scenario show drift", "lab scenario show drift -o json"),
				Flags:       []cli.Flag{nameFlag, estateFlag, outputFlag},
				Action: p.labAction(p.open, argv.ExactlyOne("the name of one scenario", "drift"), func(c *cli.Context, ws *workspace.Workspace) error {
					return p.scenarioShow(ws, c.Args().First())
				}),
			},
			p.scenarioRunCommand(),
			{
				Name: "new", Usage: "begin a scenario as a copy of another", ArgsUsage: "WORD",
				Description: "Copies the folder of a scenario of the estate to scenarios/WORD.\n\n" + examples("lab scenario new my-drift --from drift"),
				Flags: []cli.Flag{
					nameFlag, estateFlag, outputFlag,
					&cli.StringFlag{Name: "from", Usage: "`SCENARIO` to copy", Required: true},
				},
				Action: p.labAction(p.open, argv.ExactlyOne("the name of the new scenario", "my-drift"), func(c *cli.Context, ws *workspace.Workspace) error {
					return p.scenarioNew(ws, c.Args().First(), c.String("from"))
				}),
			},
			p.scenarioImportCommand(),
			p.scenarioRecordCommand(),
		},
	}
}

func (p *program) scenarioImportCommand() *cli.Command {
	return &cli.Command{
		Name:      "import",
		Usage:     "make a scenario of a test of Chainsaw",
		ArgsUsage: "FILE",
		Description: "Its steps apply, create, patch, delete, assert, error, wait and sleep become steps of scenarios/NAME. Scripts, commands and expressions are errors that\n" +
			"name them, and then nothing is written. Files are those of the test's folder.\n\n" +
			examples("lab scenario import tests/quota/chainsaw-test.yaml --cluster dev", "lab scenario import chainsaw-test.yaml --cluster dev --as quota"),
		Flags: []cli.Flag{
			nameFlag, estateFlag, outputFlag,
			&cli.StringFlag{Name: "cluster", Usage: "`CLUSTER` on which it plays", Required: true},
			&cli.StringFlag{Name: "as", Usage: "`WORD` as the scenario's name (default: the test's)"},
			&cli.StringFlag{Name: "namespace", Usage: "`WORD` as the namespace of what has none (default: the scenario's name)"},
		},
		Action: p.labAction(p.open, argv.ExactlyOne("the file of one test", "chainsaw-test.yaml"), func(c *cli.Context, ws *workspace.Workspace) error {
			return p.scenarioImport(ws, c.Args().First(), chainsaw.Options{Name: c.String("as"), Cluster: c.String("cluster"), Namespace: c.String("namespace")})
		}),
	}
}

func (p *program) scenarioNew(ws *workspace.Workspace, name, from string) error {
	if _, err := scenario.Load(ws.Estate.FS, from, verb.All()); err != nil {
		return err
	}
	files := map[string][]byte{}
	dir := path.Join(lab.ScenariosDir, from)
	err := fs.WalkDir(ws.Estate.FS, dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files[strings.TrimPrefix(file, dir+"/")], err = fs.ReadFile(ws.Estate.FS, file)
		return err
	})
	if err != nil {
		return err
	}
	if files["scenario.yaml"], err = yamledit.Set(files["scenario.yaml"], fieldpath.Of("metadata", "name"), name); err != nil {
		return err
	}
	return p.writeScenario(ws, name, files, nil)
}

func (p *program) scenarioImport(ws *workspace.Workspace, file string, o chainsaw.Options) error {
	est, err := ws.Load()
	if err != nil {
		return err
	}
	if err := hasCluster(est, o.Cluster); err != nil {
		return err
	}
	files, notes, err := chainsaw.Import(os.DirFS(filepath.Dir(file)), filepath.Base(file), &o)
	if err != nil {
		return err
	}
	return p.writeScenario(ws, o.Name, files, notes)
}

// writeScenario writes the files of a new scenario, which must be valid.
func (p *program) writeScenario(ws *workspace.Workspace, name string, files map[string][]byte, notes lab.Problems) error {
	if err := p.mayWrite(ws, name); err != nil {
		return err
	}
	root, err := os.OpenRoot(ws.Estate.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	dir := filepath.Join(lab.ScenariosDir, name)
	res := ui.ScenarioImport{Name: name, Notes: ui.RenderProblems(notes)}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		at := filepath.Join(dir, filepath.FromSlash(file))
		if err := errors.Join(root.MkdirAll(filepath.Dir(at), 0o755), root.WriteFile(at, files[file], 0o644)); err != nil {
			return err
		}
		res.Written = append(res.Written, path.Join(lab.ScenariosDir, name, file))
	}
	if _, err := scenario.Load(os.DirFS(ws.Estate.Dir), name, verb.All()); err != nil {
		return errors.Join(err, root.RemoveAll(dir))
	}
	return p.ui.ScenarioImported(res, ws.OnEstate("lab scenario run "+lab.Quote(name)))
}

func (p *program) scenarioRunCommand() *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "play scenarios on the running lab, and restore it",
		ArgsUsage: "SCENARIO...",
		Description: "Plays the named scenarios in turn, or with --all every one of the estate. Their changes are undone at the end, also after a failure or an\n" +
			"interrupt, and the lab is compared with its state before; if it differs, the others are not played. Each leaves a page with its timeline.\n\n" +
			examples("lab scenario run drift", "lab scenario run --pause promotion", "lab scenario run --all --junit scenarios.xml", "lab scenario run --fresh drift"),
		Flags: []cli.Flag{
			nameFlag, estateFlag, outputFlag, imagesFlag, mirrorFlag,
			&cli.BoolFlag{Name: "all", Usage: "play every scenario of the estate"},
			&cli.BoolFlag{Name: "pause", Usage: "wait for enter before each step, as on stage"},
			&cli.IntFlag{Name: "jobs", Usage: "play up to `N` scenarios side by side, if they have no common subjects; those that change Git or a whole cluster are played alone", Value: 1},
			&cli.IntFlag{Name: "step", Usage: "play only step `N`"},
			&cli.IntFlag{Name: "from", Usage: "play from step `N` on"},
			&cli.BoolFlag{Name: "fresh", Usage: "play on a temporary lab with just the clusters that the scenarios require"},
			&cli.StringFlag{Name: "junit", Usage: "write the results to `FILE` as JUnit XML, for CI"},
			&cli.StringFlag{Name: "report", Usage: "write the timelines to `DIR` (default: the lab's state folder; with --fresh lab's cache)"},
			&cli.DurationFlag{Name: "timeout", Usage: "`TIME` in which something must move until the applications have converged, with --fresh and after a switch of the engine", Value: 5 * time.Minute},
		},
		Action: p.labAction(p.open, argv.AnyArgs, func(c *cli.Context, ws *workspace.Workspace) error {
			o := playOptions{
				names: c.Args().Slice(), all: c.Bool("all"), fresh: c.Bool("fresh"), pause: c.Bool("pause"), pages: c.String("report"), junit: c.String("junit"),
				origin: originOf(c), player: scenario.Player{Only: c.Int("step"), From: c.Int("from")}, oneStep: c.IsSet("step"), fromStep: c.IsSet("from"), timeout: c.Duration("timeout"), jobs: c.Int("jobs"),
			}
			list, err := o.stories(ws)
			if err != nil {
				return err
			}
			if o.fresh {
				return p.playFresh(c.Context, ws, o, list)
			}
			if ws, err = workspace.Existing(p.aim(c)); err != nil {
				return err
			}
			return p.playHere(c.Context, ws, o, list)
		}),
	}
}

// playOptions are the flags for playing scenarios.
type playOptions struct {
	names             []string
	all, fresh, pause bool
	oneStep, fromStep bool // --step and --from were given
	player            scenario.Player
	pages, junit      string
	origin            origin
	timeout           time.Duration // of up, for the applications to converge
	jobs              int           // stories side by side
}

// stories returns the scenarios to play, after checking that all of them are playable.
func (o *playOptions) stories(ws *workspace.Workspace) ([]*scenario.Scenario, error) {
	names := o.names
	var err error
	if o.all {
		if names, err = scenario.List(ws.Estate.FS); err != nil {
			return nil, err
		}
	}
	if err := o.check(names); err != nil {
		return nil, err
	}
	list, err := scenario.LoadAll(ws.Estate.FS, names, verb.All())
	if err != nil {
		return nil, err
	}
	for _, one := range list {
		if err := o.player.Has(one); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// check reports flags that exclude each other.
func (o *playOptions) check(names []string) error {
	usage := func(message, cure string) error {
		return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: message, Cure: cure}
	}
	switch {
	case len(names) == 0:
		return usage("lab scenario run takes the names of scenarios, or --all", "lab scenario ls")
	case o.all && len(o.names) > 0:
		return usage("both --all and names", "one of them")
	case (o.oneStep || o.fromStep) && len(names) > 1:
		return usage("--step and --from are for one scenario", "name one")
	case o.oneStep && o.fromStep:
		return usage("both --step and --from", "one of them")
	case o.oneStep && o.player.Only < 1 || o.fromStep && o.player.From < 1:
		return usage("steps count from 1", "lab scenario show "+lab.Quote(names[0]))
	case o.jobs < 1:
		return usage("--jobs is at least 1", "1 plays them in turn")
	case o.pause && o.jobs > 1:
		return usage("both --pause and --jobs", "one of them")
	case o.pause && !term.IsTerminal(int(os.Stdin.Fd())):
		return usage("--pause waits for enter, but standard input is not a terminal", "leave it out")
	}
	return nil
}

func (p *program) scenarioList(ws *workspace.Workspace) error {
	names, err := scenario.List(ws.Estate.FS)
	if err != nil {
		return err
	}
	list, err := scenario.LoadAll(ws.Estate.FS, names, verb.All())
	if err != nil {
		return err
	}
	return p.ui.Scenarios(scenarioList(list))
}

func (p *program) scenarioShow(ws *workspace.Workspace, name string) error {
	list, err := scenario.LoadAll(ws.Estate.FS, []string{name}, verb.All())
	if err != nil {
		return err
	}
	return p.ui.Scenario(scenarioShow(list[0]))
}

// scenarioList lists stories.
func scenarioList(list []*scenario.Scenario) ui.ScenarioList {
	var out ui.ScenarioList
	for _, one := range list {
		out.Scenarios = append(out.Scenarios, ui.ScenarioSummary{Name: one.Name, Title: one.Title, Teaches: one.Teaches, Steps: len(one.Steps) + len(one.Always)})
	}
	return out
}

// scenarioShow converts a story and its steps.
func scenarioShow(one *scenario.Scenario) ui.ScenarioShow {
	out := ui.ScenarioShow{
		Name: one.Name, Title: one.Title, Teaches: one.Teaches, File: one.File, Engines: lab.EngineNames(one.Requires.Engine), Clusters: one.Requires.Clusters,
	}
	for i, step := range slices.Concat(one.Steps, one.Always) {
		out.Steps = append(out.Steps, ui.ScenarioStep{
			Number: step.Number, ID: step.ID, Title: step.Title, Engines: lab.EngineNames(step.Engines), Verb: step.Verb, Always: i >= len(one.Steps), Line: step.At.Line,
		})
	}
	return out
}
