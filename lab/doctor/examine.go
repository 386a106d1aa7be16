package doctor

import (
	"context"

	"homelab/lab"
)

// Examine runs the checks and, with fix, the safe fixes. The results of an interrupted run are discarded.
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
