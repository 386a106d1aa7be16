package forge

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing/format/index"
)

// unmerged returns an error for files with conflict markers during Git's own merge or rebase: a push would deliver them to every cluster. An edited file needs no
// git add.
func (t Tree) unmerged(up string) error {
	var details []string
	n := 0
	for _, name := range t.unmergedPaths() {
		text, err := fs.ReadFile(t.FS, name)
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

// unmergedPaths returns the estate's files that are unmerged in the index of its repository, if readable.
func (t Tree) unmergedPaths() []string {
	top := t.repository()
	if top == "" {
		return nil
	}
	repo, err := git.PlainOpenWithOptions(top, &git.PlainOpenOptions{EnableDotGitCommonDir: true})
	if err != nil {
		return nil
	}
	staged, err := repo.Storer.Index()
	if err != nil {
		return nil
	}
	within, err := t.within(top)
	if err != nil {
		return nil
	}
	prefix := path.Join(within...)
	if prefix != "" {
		prefix += "/"
	}
	var names []string
	for _, e := range staged.Entries {
		if name, ok := strings.CutPrefix(e.Name, prefix); ok && e.Stage != index.Merged {
			names = append(names, name)
		}
	}
	return slices.Compact(names) // sorted, one entry for each side
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
