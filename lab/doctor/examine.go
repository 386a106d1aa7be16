package doctor

import (
	"context"

	"homelab/lab"
)

// Examine makes the checks, and with fix the cures that are safe. What an interrupt left unanswered says nothing about the machine.
func (d *Doctor) Examine(ctx context.Context, fix bool, p lab.Progress) (Report, error) {
	report := d.Run(ctx)
	if ctx.Err() == nil && fix && report.Fixable() {
		if err := d.Fix(ctx, report, p); err != nil {
			return report, err
		}
		report = d.Run(ctx)
	}
	return report, context.Cause(ctx)
}
