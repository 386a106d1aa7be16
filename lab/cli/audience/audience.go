// Package audience shows runs and stories while they last: it follows the core's events and has lab/ui draw them.
package audience

import (
	"context"
	"fmt"
	"strings"

	"homelab/lab"
	"homelab/lab/scenario"
	"homelab/lab/supply"
	"homelab/lab/ui"
	"homelab/lab/up"
	"homelab/lab/workspace"
)

// Run implements up.Audience.
type Run struct {
	*ui.UI
	Workspace *workspace.Workspace
	Lab       *up.Lab
	Supply    *supply.Supply
	Clusters  int // of the run
}

// Begin prints the header of a run: "lab homelab · ENGINE · 4 clusters · images from the registry".
func (a Run) Begin(seen *up.Seen, steps []lab.Step) (func(lab.Event), func()) {
	if a.Workspace.Estate.Dir == "" && a.Workspace.Record.Estate == "" {
		a.Println("the estate is the built-in one; lab init DIR writes it to a folder")
	}
	if len(seen.Missing) > 0 {
		a.Println(a.Supply.Why())
	}
	a.UI.Begin(fmt.Sprintf("lab %s · %s · %s · %s", a.Workspace.Name, a.Lab.Definition.Type, ui.Count(a.Clusters, "cluster"), originText(a.Supply.Origin())), steps)
	return a.Event, a.UI.End
}

// Stories implements series.Audience.
type Stories struct {
	UI  *ui.UI
	Lab string // its name
}

// Begin prints the title of a story and returns the handler of its steps.
func (a Stories) Begin(ctx context.Context, s *scenario.Scenario) func(scenario.StepResult) {
	a.UI.StoryBegin(s.Name+": "+s.Title, "lab "+a.Lab)
	return func(r scenario.StepResult) {
		since := r.Began + r.Took
		if r.Verdict == "" && len(r.Back) > 0 && ctx.Err() != nil {
			a.UI.StoryStep(toPutBack(r, since))
		}
		a.UI.StoryStep(storyLine(r, since))
	}
}

// Together prints which stories are played side by side.
func (a Stories) Together(list []*scenario.Scenario) {
	names := make([]string, len(list))
	for i, s := range list {
		names[i] = s.Name
	}
	a.UI.Println("side by side, each shown when it has ended: " + strings.Join(names, ", "))
}

// End prints the verdict.
func (a Stories) End(r *scenario.Result, page string) { a.UI.StoryEnd(verdict(r, page)) }

// originText briefly describes where images come from; supply.Supply.Why has the details.
func originText(o lab.Origin) string {
	return map[lab.Origin]string{
		lab.OriginEngine: "local images", lab.OriginBundle: "images from a bundle", lab.OriginRegistry: "images from registries", lab.OriginSource: "images from source",
	}[o]
}
