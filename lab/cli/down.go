package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"homelab/lab"
	"homelab/lab/doctor"
	"homelab/lab/ui"
)

func (p *program) downCommand() *cli.Command {
	return &cli.Command{
		Name:  "down",
		Usage: "remove the lab: its clusters, forge, network, volumes and files, and nothing else",
		Description: "What other labs, kind and you yourself made stays. Images and charts stay in the cache for the next lab up, and snapshots for lab up --from.\n\n" +
			examples("lab down", "lab down --snapshots", "lab down --name demo", "lab down -o json"),
		Flags: []cli.Flag{nameFlag, estateFlag, outputFlag, &cli.BoolFlag{Name: "snapshots", Usage: "remove its snapshots, too"}},
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			s, err := p.open(c)
			if err != nil {
				return err
			}
			return s.locked(c.Context, func(ctx context.Context) error { return s.down(ctx, c.Bool("snapshots")) })
		},
	}
}

func (s *session) down(ctx context.Context, snapshots bool) error {
	began := time.Now()
	existed := s.dir.Exists()
	if err := s.setAside(); err != nil {
		return err
	}
	w, err := s.openWorld(nil, doctor.Traits{})
	if err != nil {
		return err
	}
	if _, err := w.docker.Info(ctx); err != nil {
		if !existed { // no lab, no engine: nothing is left to remove
			return s.downResult(nil, nil, began, w.dir.Remove())
		}
		return &lab.Error{
			Exit: lab.ExitFailed, Code: "no_engine", Message: "the docker engine does not answer, so the lab's containers cannot be removed",
			Cure: "start it and run lab down again", Err: err,
		}
	}
	removed, err := w.Down(ctx, s.ui.Say)
	if err != nil {
		return err
	}
	kept, err := w.snapshots(ctx)
	if err != nil {
		return err
	}
	if snapshots && len(kept) > 0 {
		if err := w.Snapshots.Remove(ctx, kept...); err != nil {
			return err
		}
		for _, name := range kept {
			removed = append(removed, "snapshot "+name)
		}
		kept = nil
	}
	if existed {
		removed = append(removed, "folder "+s.dir.Path)
	}
	return s.downResult(removed, kept, began, s.dir.Remove())
}

func (s *session) downResult(removed, kept []string, began time.Time, err error) error {
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	took := time.Since(began)
	if len(kept) > 0 {
		s.ui.Say("kept: snapshot " + strings.Join(kept, ", ") + "; " + s.onEstate("lab up --from "+kept[0]) + " begins with it, " + s.command("lab down --snapshots") + " removes")
	}
	if s.ui.WantsJSON() {
		return s.ui.JSON(ui.DownResult{Lab: s.name, Removed: removed, Kept: kept, Seconds: ui.Seconds(took)})
	}
	if len(removed) == 0 {
		s.ui.Print(fmt.Sprintf("there is no lab %s: nothing was removed", s.name))
		return nil
	}
	s.ui.Print(fmt.Sprintf("lab %s is gone: %d things removed   %s", s.name, len(removed), ui.Duration(took)))
	return nil
}
