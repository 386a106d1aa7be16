package ui

import (
	"fmt"
	"strings"
	"time"

	"homelab/lab"
)

// Log prints `lab git log`.
func (u *UI) Log(res LogResult) error {
	if u.opts.JSON {
		return u.JSON(res)
	}
	t := Table{}
	for _, c := range res.Commits {
		t.Rows = append(t.Rows, []string{lab.Abbreviate(c.Commit), c.Time.Local().Format(time.DateTime), c.Author, c.Message})
	}
	u.Table(t)
	return nil
}

// Pushed prints `lab git push`; changes is a summary for users.
func (u *UI) Pushed(res PushResult, changes string) error {
	if !res.Changed {
		return u.Result(res, "the forge has this tree already: "+lab.Abbreviate(res.Commit))
	}
	return u.Result(res, "pushed "+lab.Abbreviate(res.Commit)+": "+changes)
}

// Pulled prints `lab git pull`.
func (u *UI) Pulled(res PullResult) error {
	if u.opts.JSON {
		return u.JSON(res)
	}
	if len(res.Files) == 0 {
		u.Print("nothing to pull: the working tree has all that the forge has")
		return nil
	}
	commits, files := Table{}, Table{}
	for _, c := range res.Commits {
		subject, _, _ := strings.Cut(c.Message, "\n")
		commits.Rows = append(commits.Rows, []string{lab.Abbreviate(c.Commit), c.Author, subject})
	}
	for _, f := range res.Files {
		files.Rows = append(files.Rows, []string{f.Did, f.Path, f.remark()})
	}
	u.Table(commits)
	u.Print("")
	u.Table(files)
	u.Print("")
	switch {
	case res.DryRun:
		u.Print("dry run: nothing was written")
	case res.Committed != "":
		u.Print("committed " + lab.Abbreviate(res.Committed))
	case res.Reason != "":
		u.Print("not committed: " + res.Reason)
		if res.Next != "" {
			u.Print("  " + res.Next)
		}
	}
	return nil
}

// remark returns the note on a pulled file.
func (f PullFile) remark() string {
	switch {
	case f.Beside != "":
		return "theirs is in " + f.Beside + ": " + f.Note
	case len(f.Lines) == 1:
		return fmt.Sprintf("line %d", f.Lines[0])
	case len(f.Lines) > 1:
		return "lines " + strings.Trim(strings.ReplaceAll(fmt.Sprint([]int(f.Lines)), " ", ", "), "[]")
	}
	return f.Note
}
