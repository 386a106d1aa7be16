package ui

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"homelab/lab"
)

// Result prints a result: as JSON, or one line for users.
func (u *UI) Result(v any, line string) error {
	if u.opts.JSON {
		return u.JSON(v)
	}
	u.Print(line)
	return nil
}

// CA prints `lab ca`: the certificate as a file.
func (u *UI) CA(r CAResult) error {
	if u.opts.JSON {
		return u.JSON(r)
	}
	u.Raw(r.Certificate)
	return nil
}

// Bridge prints `lab bridge show`: labels and annotations with their origins.
func (u *UI) Bridge(labName string, list []lab.Registration) error {
	if u.opts.JSON {
		return u.JSON(NewBridgeResult(labName, list))
	}
	for i, r := range list {
		if i > 0 {
			u.Print("")
		}
		u.Print(fmt.Sprintf("%s   %s", r.Cluster, r.Server))
		t := Table{}
		for _, part := range []struct {
			kind   string
			values map[string]lab.Value
		}{{"label", r.Labels}, {"annotation", r.Annotations}} {
			for _, key := range slices.Sorted(maps.Keys(part.values)) {
				v := part.values[key]
				from := v.Origin
				if v.At.File != "" {
					from = v.At.String()
				}
				t.Rows = append(t.Rows, []string{part.kind, key, v.Value, from})
			}
		}
		u.Table(t)
	}
	return nil
}

// Bundle prints `lab bundle ls`.
func (u *UI) Bundle(res BundleResult) error {
	if u.opts.JSON {
		return u.JSON(res)
	}
	t := Table{Head: []string{"KIND", "NAME", "REF", "ORIGIN", "SIZE"}}
	for _, i := range res.Items {
		size := "-"
		if i.AtHand {
			size = Size(i.Bytes)
		}
		t.Rows = append(t.Rows, []string{i.Kind, i.Name, i.Ref, i.Origin, size})
	}
	u.Table(t)
	return nil
}

// Creds prints `lab creds`.
func (u *UI) Creds(res CredsResult) error {
	if u.opts.JSON {
		return u.JSON(res)
	}
	for _, c := range res.Credentials {
		u.Print(fmt.Sprintf("%-8s %s   user %s   password %s", c.Service, c.URL, c.User, c.Password))
	}
	return nil
}

// Doctor prints `lab doctor`.
func (u *UI) Doctor(rows []Row) error {
	if u.opts.JSON {
		return u.JSON(NewDoctorResult(rows))
	}
	u.Report(rows)
	return nil
}

// Undone prints the result of `lab doctor --undo`, whose changes users have seen already.
func (u *UI) Undone(res DoctorUndoResult) error {
	if u.opts.JSON {
		return u.JSON(res)
	}
	left := 0
	for _, c := range res.Changes {
		if !c.Undone {
			left++
			u.Print("left: " + c.What + ": " + c.Note)
		}
	}
	if len(res.Changes) == 0 {
		u.Print("nothing to revert: lab doctor --fix has recorded no changes here")
	} else if left == 0 {
		u.Print("all changes of lab doctor --fix are reverted")
	}
	return nil
}

// Up prints the result of a run as JSON; users have seen it already.
func (u *UI) Up(labName string, changed []string, took time.Duration, steps []lab.StepResult, upgrade Upgrade) error {
	if !u.opts.JSON {
		return nil
	}
	return u.JSON(NewUpResult(labName, changed, took, steps, upgrade))
}

// Down prints `lab down`.
func (u *UI) Down(res DownResult, took time.Duration) error {
	res.Seconds = Seconds(took)
	if len(res.Removed) == 0 {
		return u.Result(res, fmt.Sprintf("there is no lab %s: nothing was removed", res.Lab))
	}
	return u.Result(res, fmt.Sprintf("lab %s is removed: %d resources   %s", res.Lab, len(res.Removed), Duration(took)))
}

// SnapshotSaved prints `lab snapshot save`; next is the command to restore it.
func (u *UI) SnapshotSaved(labName string, s Snapshot, took time.Duration, next string) error {
	if u.opts.JSON {
		return u.JSON(SnapshotSaveResult{Lab: labName, Snapshot: s, Seconds: Seconds(took)})
	}
	u.Print(fmt.Sprintf("snapshot %s of lab %s: %s, %s   %s", s.Name, labName, Count(len(s.Clusters), "cluster"), Size(s.Bytes), Duration(took)))
	u.Println("next: " + next)
	return nil
}

// Rehearsed prints `lab rehearse upgrade`, whose report users have seen already. idle says that there was nothing to do.
func (u *UI) Rehearsed(res RehearseResult, idle bool) error {
	if u.opts.JSON {
		return u.JSON(res)
	}
	took := time.Duration(res.Seconds * float64(time.Second))
	if idle {
		u.Print(fmt.Sprintf("lab %s already has this version and these values   %s", res.Lab, Duration(took)))
	} else {
		u.Print(fmt.Sprintf("rehearsed; lab %s is restored   %s", res.Lab, Duration(took)))
	}
	return nil
}

// Snapshots prints `lab snapshot ls`; save is the command to create one.
func (u *UI) Snapshots(res SnapshotListResult, save string) error {
	if u.opts.JSON {
		return u.JSON(res)
	}
	if len(res.Snapshots) == 0 {
		u.Print("lab " + res.Lab + " has no snapshot: " + save + " makes one")
		return nil
	}
	t := Table{Head: []string{"SNAPSHOT", "TAKEN", "SIZE", "CLUSTERS"}, Right: []int{2}}
	for _, s := range res.Snapshots {
		taken := cmp.Or(s.Taken, "-")
		if at, err := time.Parse(time.RFC3339, s.Taken); err == nil {
			taken = at.Local().Format("2006-01-02 15:04")
		}
		clusters := strings.Join(s.Clusters, ", ")
		switch {
		case len(s.Pruned) > 0:
			clusters = "cannot be restored: its images were removed"
		case s.Unreadable != "":
			clusters = "cannot be restored: " + s.Unreadable
		}
		t.Rows = append(t.Rows, []string{s.Name, taken, Size(s.Bytes), clusters})
	}
	u.Table(t)
	return nil
}

// Scenarios prints `lab scenario ls`.
func (u *UI) Scenarios(res ScenarioList) error {
	if u.opts.JSON {
		return u.JSON(res)
	}
	if len(res.Scenarios) == 0 {
		u.Print("the estate has no scenarios: they are in " + lab.ScenariosDir + "/NAME/scenario.yaml")
		return nil
	}
	t := Table{Head: []string{"SCENARIO", "STEPS", "STORY"}}
	for _, s := range res.Scenarios {
		t.Rows = append(t.Rows, []string{s.Name, fmt.Sprint(s.Steps), s.Title})
	}
	u.Table(t)
	return nil
}

// Scenario prints `lab scenario show`.
func (u *UI) Scenario(res ScenarioShow) error {
	if u.opts.JSON {
		return u.JSON(res)
	}
	u.Print(res.Name + ": " + res.Title)
	u.Print(res.Teaches)
	u.Print("")
	t := Table{}
	for _, step := range res.Steps {
		title := step.Title
		if step.Always {
			title += " (always)"
		}
		if len(step.Engines) > 0 {
			title += " (" + strings.Join(step.Engines, ", ") + ")"
		}
		t.Rows = append(t.Rows, []string{fmt.Sprintf("%2d", step.Number), step.Verb, title})
	}
	u.Table(t)
	u.Print("")
	u.Print(res.File + "; play it: lab scenario run " + lab.Quote(res.Name))
	return nil
}

// Promotion prints what `lab promote` is about to change; summary is the line below the diff.
func (u *UI) Promotion(res PromoteResult, summary string) {
	if u.opts.JSON {
		return
	}
	u.Raw(res.Diff)
	if res.Diff != "" {
		u.Print("")
	}
	u.Print(summary)
	for _, note := range res.Notes {
		u.Print("note: " + note)
	}
}

// Promoted prints `lab promote`; next is the command to apply a change that was only written.
func (u *UI) Promoted(res PromoteResult, next string) error {
	switch {
	case u.opts.JSON:
		return u.JSON(res)
	case res.Commit != "":
		u.Print("pushed " + lab.Abbreviate(res.Commit))
	case res.Written:
		u.Print("next: " + next)
	}
	return nil
}

// RegistryPushed prints `lab registry push`.
func (u *UI) RegistryPushed(res RegistryPushResult) error {
	c := res.Pushed
	return u.Result(res, fmt.Sprintf("%s %s\n%s", c.Kind, c.Name, c.Digest))
}

// Registry prints `lab registry ls`; push is the command to fill it.
func (u *UI) Registry(res RegistryListResult, push string) error {
	if u.opts.JSON {
		return u.JSON(res)
	}
	if len(res.Contents) == 0 {
		u.Print("the registry of lab " + res.Lab + " is empty: " + push + " fills it")
		return nil
	}
	t := Table{Head: []string{"NAME", "KIND", "SIZE", "DIGEST"}, Right: []int{2}}
	for _, c := range res.Contents {
		size := "-"
		if c.Bytes > 0 {
			size = Size(c.Bytes)
		}
		t.Rows = append(t.Rows, []string{c.Name, c.Kind, size, c.Digest})
	}
	u.Table(t)
	return nil
}
