package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/argv"
	"homelab/lab/scenario"
	"homelab/lab/scenario/record"
	"homelab/lab/workspace"
)

func (p *program) scenarioRecordCommand() *cli.Command {
	return &cli.Command{
		Name:      "record",
		Usage:     "write a scenario from what is done to the running lab",
		ArgsUsage: "WORD",
		Description: "Commits on the engines' branch, promotions, changes of clusters' labels, and what is changed with kubectl become steps of scenarios/WORD, each\n" +
			"followed by an expectation of what was seen to follow. It ends with ctrl-c, or after --for. Read the file before you share it.\n\n" +
			examples("lab scenario record my-morning", "lab scenario record my-morning --for 10m"),
		Flags: []cli.Flag{
			nameFlag, estateFlag, outputFlag,
			&cli.DurationFlag{Name: "for", Usage: "end after `TIME`"},
		},
		Action: p.labAction(p.existing, argv.ExactlyOne("the name of the new scenario", "my-morning"), func(c *cli.Context, ws *workspace.Workspace) error {
			return p.scenarioRecord(c.Context, ws, c.Args().First(), c.Duration("for"))
		}),
	}
}

func (p *program) scenarioRecord(ctx context.Context, ws *workspace.Workspace, name string, long time.Duration) error {
	if err := p.mayWrite(ws, name); err != nil {
		return err
	}
	if err := ws.Ours(); err != nil {
		return err
	}
	est, err := ws.Load()
	if err != nil {
		return err
	}
	l, err := assemble(ws, parts{estate: est})
	if err != nil {
		return err
	}
	w, err := p.world(ctx, ws, playOptions{}, l)
	if err != nil {
		return err
	}
	if long > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, long)
		defer cancel()
	}
	r, err := record.Watch(ctx, w, p.ui.Println)
	if err != nil {
		return err
	}
	files, err := r.Files(name)
	if err != nil {
		return err
	}
	if files == nil {
		return &lab.Error{Exit: lab.ExitFailed, Code: "nothing_recorded", Message: "nothing was seen to be done, nothing was written"}
	}
	return p.writeScenario(ws, name, files, nil)
}

// mayWrite reports whether a scenario of that name can be written.
func (p *program) mayWrite(ws *workspace.Workspace, name string) error {
	if ws.Estate.Dir == "" {
		return &lab.Error{Exit: lab.ExitInvalid, Code: "no_estate", Message: "the built-in estate is read-only", Cure: "lab init DIR writes it out"}
	}
	if !scenario.IsName(name) {
		return &lab.Error{Exit: lab.ExitInvalid, Code: "usage", Message: fmt.Sprintf("%q cannot be the name of a scenario", name), Cure: "lower-case letters, digits and hyphens"}
	}
	dir := filepath.Join(lab.ScenariosDir, name)
	if _, err := os.Lstat(filepath.Join(ws.Estate.Dir, dir)); err == nil {
		return &lab.Error{Exit: lab.ExitInvalid, Code: "exists", Message: dir + " exists", Cure: "name the scenario differently"}
	}
	return nil
}
