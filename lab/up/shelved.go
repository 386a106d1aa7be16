package up

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"homelab/lab"
	"homelab/lab/forge"
	"homelab/lab/snapshot"
)

// RemoveSnapshots removes snapshots. Without consent, it touches nothing if one has something of others that nothing else has.
func (l *Lab) RemoveSnapshots(ctx context.Context, names []string, c Consent, p lab.Progress) error {
	if err := l.mayRemove(ctx, names, c, p); err != nil {
		return err
	}
	return l.Snapshots.Remove(ctx, names...)
}

// mayRemove returns an error unless nothing of others is lost with the snapshots, or the user agrees to it.
func (l *Lab) mayRemove(ctx context.Context, names []string, c Consent, p lab.Progress) error {
	lines, err := l.Shelved(ctx, names...)
	if err != nil || len(lines) == 0 {
		return err
	}
	agreed := c.Given
	if !agreed && c.Ask != nil {
		if agreed, err = c.Ask(ctx, "lose what exists only in the snapshots?", lines); err != nil {
			return err
		}
	}
	if !agreed {
		e := &lab.Error{
			Exit: lab.ExitInvalid, Code: "would_lose", Message: "snapshots have what others put into the forge, and nothing else has it",
			Cure: "lab snapshot restore brings it back; to lose all of it, " + c.By,
		}
		for _, line := range lines {
			e.Details = append(e.Details, "would lose "+line)
		}
		e.Details = append(e.Details, "nothing was touched")
		return e
	}
	for _, line := range lines {
		p("losing " + line)
	}
	return nil
}

// Shelved describes what others put into the forge and only the named snapshots, or all, have. It reads what was recorded when they were saved: no forge is started. What the
// forge has now, other snapshots or a clone is not lost with them.
func (l *Lab) Shelved(ctx context.Context, names ...string) ([]string, error) {
	all, err := l.Snapshots.List(ctx)
	if err != nil {
		return nil, err
	}
	elsewhere := map[string]bool{}
	var doomed []snapshot.Snapshot
	for _, s := range all {
		if len(names) == 0 || slices.Contains(names, s.Name) {
			doomed = append(doomed, s)
		} else if s.Foreign != nil {
			for id := range s.Foreign.Items {
				elsewhere[id] = true
			}
		}
	}
	if !slices.ContainsFunc(doomed, func(s snapshot.Snapshot) bool {
		return s.Foreign == nil || s.Foreign.Unknown != "" || len(s.Foreign.Items) > 0
	}) {
		return nil, nil
	}
	now, err := l.Losing(ctx, false)
	if err != nil {
		return nil, err
	}
	for id := range now.held().Items {
		elsewhere[id] = true
	}
	trees := []forge.Tree{l.Files}
	if l.Estate != nil {
		trees = []forge.Tree{l.Tree()}
		for _, r := range l.Estate.Repositories {
			trees = append(trees, forge.MirrorOf(r).Tree)
		}
	}
	for _, t := range trees {
		maps.Copy(elsewhere, t.Reached())
	}
	var lines []string
	for _, s := range doomed {
		unknown := cmp.Or(s.Unreadable, "it was not recorded when the snapshot was saved")
		if s.Foreign != nil {
			unknown = s.Foreign.Unknown
			var own []string
			for id, what := range s.Foreign.Items {
				if !elsewhere[id] {
					own = append(own, fmt.Sprintf("%s, in snapshot %s", what, s.Name))
				}
				elsewhere[id] = true // said once
			}
			lines = append(lines, slices.Sorted(slices.Values(own))...)
		}
		if unknown != "" {
			lines = append(lines, fmt.Sprintf("whatever others had put into the forge of snapshot %s: %s", s.Name, unknown))
		}
	}
	return lines, nil
}

// held is what a snapshot of the forge records.
func (o Losing) held() *snapshot.Foreign {
	f := &snapshot.Foreign{Unknown: o.Unknown, Items: map[string]string{}}
	for _, c := range o.Commits {
		f.Items[c.Hash] = commitLine(c)
	}
	o.Commits = nil
	if o.Unknown == "" {
		for _, line := range o.Lines() {
			f.Items[line] = line
		}
	}
	return f
}
