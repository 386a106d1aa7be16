package forge

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"homelab/lab/gitcommand"
)

// unmerged returns an error for files with conflict markers during Git's own merge or rebase: a push would deliver them to every cluster. An edited file needs no
// git add.
func (t Tree) unmerged(up string) error {
	var details []string
	n := 0
	if t.Dir == "" {
		return nil
	}
	names, err := gitcommand.Unmerged(context.Background(), t.Dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := fs.ReadFile(t.disk(), name)
		if err != nil {
			continue // removed by one side
		}
		found := markersIn(string(text))
		if len(found) > 0 {
			n++
		}
		for _, line := range found {
			details = append(details, fmt.Sprintf("%s:%d", name, line))
		}
	}
	if n == 0 {
		return nil
	}
	return conflictError(count(n, "file")+" not merged yet", details, false, up)
}

// markersIn returns the line numbers, from 1, of the starts of Git's conflicts.
func markersIn(text string) []int {
	var found []int
	for i, line := range slices.Collect(strings.Lines(text)) {
		if strings.HasPrefix(line, "<<<<<<< ") {
			found = append(found, i+1)
		}
	}
	return found
}
