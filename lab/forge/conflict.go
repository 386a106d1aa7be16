package forge

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"homelab/lab"
)

// Notes persists the state of a pull until it is complete and its conflicts are resolved. *state.Dir implements it.
type Notes interface {
	LoadPull(into any) error // leaves into unchanged if there is none
	SavePull(v any) error    // nil deletes it
}

// journal is written before a pull writes files.
type journal struct {
	Dir     string   `json:"dir"`  // of the estate
	Base    string   `json:"base"` // previous commit of the working tree; may be empty
	Head    string   `json:"head"` // commit to pull
	Over    bool     `json:"over"` // complete, except for conflicts
	Changes []change `json:"changes"`
}

// MarshalText formats an entry like `git ls-tree`.
func (e entry) MarshalText() ([]byte, error) {
	if e == (entry{}) {
		return nil, nil
	}
	return []byte(e.Mode + " " + e.Hash), nil
}

var entryText = regexp.MustCompile(`^0*([1-7][0-7]{4,5}) ([0-9a-f]{40})$`)

// UnmarshalText parses an entry.
func (e *entry) UnmarshalText(text []byte) error {
	*e = entry{}
	if len(text) == 0 {
		return nil
	}
	m := entryText.FindSubmatch(text)
	if m == nil {
		return fmt.Errorf("%q is not a tree entry", text)
	}
	e.Mode, e.Hash = string(m[1]), string(m[2])
	return nil
}

// journal returns the journal of the last pull into this folder, or nil.
func (r Remote) journal(tree Tree) (*journal, error) {
	if r.Notes == nil || tree.Dir == "" {
		return nil, nil
	}
	var j journal
	if err := r.Notes.LoadPull(&j); err != nil {
		return nil, err
	}
	if j.Head == "" || resolved(j.Dir) != resolved(tree.Dir) {
		return nil, nil
	}
	return &j, nil
}

func (r Remote) note(j *journal) error {
	if r.Notes == nil {
		return nil
	}
	if j == nil {
		return r.Notes.SavePull(nil)
	}
	return r.Notes.SavePull(j)
}

// forget deletes the journal of a pull whose conflicts are resolved.
func (r Remote) forget(tree Tree) error {
	j, err := r.journal(tree)
	if err != nil || j == nil {
		return err
	}
	return r.note(nil)
}

// resolved returns a path without symlinks, so that a folder has one name.
func resolved(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return dir
}

// settled returns an error with code "conflict" if a pull is incomplete or has unresolved conflicts, or if Git's are.
func (r Remote) settled(tree Tree) error {
	if err := tree.unmerged(r.up()); err != nil {
		return err
	}
	j, err := r.journal(tree)
	if err != nil || j == nil {
		return err
	}
	if err := j.unresolved(tree, r.up()); err != nil {
		return err
	}
	if !j.Over {
		return &lab.Error{Exit: lab.ExitFailed, Code: "conflict", Message: "a pull from the forge was interrupted", Cure: r.cure() + " completes it"}
	}
	return nil
}

// unresolved returns an error for conflicts in the working tree, or nil. Conflicts of an interrupted pull, unedited, do
// not count: the pull will be resumed.
func (j *journal) unresolved(tree Tree, up string) error {
	var details []string
	aside := false
	n := 0
	for _, c := range j.Changes {
		if c.Did != Conflict {
			continue
		}
		if c.Aside != "" {
			if _, err := fs.Lstat(tree.disk(), c.Aside); err == nil && j.Over {
				n, aside, details = n+1, true, append(details, c.Path+": theirs is in "+c.Aside)
			}
			continue
		}
		text, err := fs.ReadFile(tree.disk(), c.Path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !j.Over && blobHash(text) == c.Result.Hash {
			continue
		}
		if err != nil {
			return fmt.Errorf("conflict in %s: %w", c.Path, err)
		}
		found := conflictsIn(string(text))
		if len(found) > 0 {
			n++
		}
		for _, line := range found {
			details = append(details, fmt.Sprintf("%s:%d", c.Path, line))
		}
	}
	if n == 0 {
		return nil
	}
	return conflictError(count(n, "file")+" not merged yet", details, aside, up)
}

func conflictError(message string, details []string, aside bool, up string) *lab.Error {
	e := &lab.Error{Exit: lab.ExitFailed, Code: "conflict", Message: message, Cure: "edit them, then " + up, Details: details}
	if aside {
		e.Cure = "edit them, remove *" + asideSuffix + ", then " + up
	}
	return e
}

// Starts of the first and last line of a conflict, as in Git.
const (
	markOurs   = "<<<<<<< " + labelOurs
	markTheirs = ">>>>>>> " + labelTheirs

	labelOurs   = "working tree"
	labelTheirs = "forge "
)

// conflictsIn returns the line numbers, from 1, of a pull's conflict markers; that of an end marker if only that is
// left.
func conflictsIn(text string) []int {
	var found []int
	open := false
	for i, line := range slices.Collect(strings.Lines(text)) {
		switch {
		case strings.HasPrefix(line, markOurs):
			found, open = append(found, i+1), true
		case strings.HasPrefix(line, markTheirs):
			if !open {
				found = append(found, i+1)
			}
			open = false
		}
	}
	return found
}
