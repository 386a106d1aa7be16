package up

import (
	"context"

	"homelab/lab"
)

// Deleting is what the engine deletes, with contents that are not in Git, once the forge has the working tree.
type Deleting struct {
	Foresee func(context.Context) (loses []string, unknown string) // nil if it need not be known; unknown is the reason why it is not
	Given   bool                                                   // consent, on the command line
	By      string                                                 // command line that gives it
}

// mayDelete returns an error if the engine deletes such contents, unless the user agrees. Without ask, he does not.
func (l *Lab) mayDelete(ctx context.Context, d *Deleting, say lab.Progress, ask func(ctx context.Context, question string, loses []string) (bool, error)) error {
	if d.Foresee == nil || d.Given {
		return nil
	}
	say("reading what the engine would delete")
	loses, unknown := d.Foresee(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if unknown != "" {
		say("what the engine will delete is unknown: " + unknown)
	}
	agreed := len(loses) == 0
	if !agreed && ask != nil {
		var err error
		if agreed, err = ask(ctx, "let the engine delete contents that are not in Git?", loses); err != nil {
			return err
		}
	}
	if !agreed {
		return undeleted(loses, d.By)
	}
	d.Given = true
	return nil
}

func undeleted(loses []string, by string) error {
	e := &lab.Error{
		Exit: lab.ExitInvalid, Code: "would_lose", Message: "the engine would delete, with contents that are not in Git: " + Summary(loses),
		Cure: "lab up --dry-run says how to keep them; to delete them, " + by,
	}
	for _, what := range loses {
		e.Details = append(e.Details, "would lose "+what)
	}
	e.Details = append(e.Details, "nothing was pushed")
	return e
}
