package cli

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"homelab/lab"
	"homelab/lab/plan"
	"homelab/lab/state"
	"homelab/lab/up"
)

// agree returns the plan, once what it would destroy was asked for: by a flag, or by an answer on a terminal. What was not asked for is kept.
func (w *world) agree(ctx context.Context, o *up.Options, seen *up.Seen) ([]lab.Step, error) {
	steps := w.Plan(ctx, *o, seen)
	if up.Allowed(*o, steps) != nil {
		remade := plan.Remade(steps)
		yes, err := w.ask(ctx, "spec.kind changed in "+strings.Join(remade, ", ")+": make it again, and lose what runs there?", steps)
		if err != nil {
			return nil, err
		}
		if yes {
			o.Recreate = append(slices.Clone(o.Recreate), remade...)
		}
	}
	if err := up.Allowed(*o, steps); err != nil {
		return nil, err
	}
	if left := w.Left(ctx, *o, seen); len(left) > 0 {
		pruned := *o
		pruned.Prune = true
		doomed := w.Plan(ctx, pruned, seen)
		yes, err := w.ask(ctx, "no longer in the estate: "+strings.Join(left, ", ")+": remove, and lose what runs there?", doomed)
		if err != nil {
			return nil, err
		}
		if yes {
			*o, steps = pruned, doomed
		} else {
			w.ui.Say("kept, though no longer in the estate: " + strings.Join(left, ", ") + "; " + w.onEstate("lab up --prune") + " removes")
		}
	}
	for _, s := range steps {
		if s.Loses != "" {
			w.ui.Say("losing " + s.Loses)
		}
	}
	return steps, nil
}

// ask puts a question where somebody can answer it; elsewhere the answer is no.
func (w *world) ask(ctx context.Context, question string, steps []lab.Step) (bool, error) {
	if w.ui.WantsJSON() || !term.IsTerminal(int(os.Stdin.Fd())) || !term.IsTerminal(int(w.Err.Fd())) {
		return false, nil
	}
	for _, s := range steps {
		if s.Loses != "" {
			w.ui.Say("would lose " + s.Loses)
		}
	}
	w.ui.Say(question + " yes or no:")
	answer := make(chan string, 1)
	go func() { // a read cannot be cancelled; the process ends with it
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		answer <- strings.TrimSpace(line)
	}()
	select {
	case line := <-answer:
		return strings.EqualFold(line, "yes"), nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// mourn names what went with the forge's volume, before anything else is done.
func (w *world) mourn(seen *up.Seen) {
	if !seen.Forge.Lost {
		return
	}
	if len(seen.Lost) == 0 {
		w.ui.Say("the forge's volume is gone; the working tree has every commit that lab knew of")
		return
	}
	w.ui.Say(fmt.Sprintf("the forge's volume is gone, and what only it held is lost: %d commits", len(seen.Lost)))
	for _, c := range seen.Lost {
		w.ui.Say(fmt.Sprintf("  %s %s %s (%s)", up.Abbreviate(c.Hash), c.When.Local().Format("2006-01-02 15:04"), c.Subject, c.Author))
	}
}

// setAside puts state files that cannot be read out of the way, so that a run goes on as after their loss.
func (s *session) setAside() error {
	files, err := s.dir.SetAside()
	for _, f := range files {
		s.ui.Say("cannot be read, and kept aside: " + f)
	}
	if err != nil {
		return err
	}
	if s.garbled != nil {
		s.garbled, s.record = nil, state.Record{Lab: s.name}
	}
	return nil
}
