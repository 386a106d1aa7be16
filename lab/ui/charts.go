package ui

import "cmp"

// ChartsResult is `lab charts ls|pull -o json`.
type ChartsResult struct {
	Lab      string              `json:"lab"`
	Charts   List[Chart]         `json:"charts"`
	Problems List[RenderProblem] `json:"problems"` // why charts were not pulled
}

// Chart is a chart in ChartsResult.
type Chart struct {
	Repository string `json:"repository"`
	Name       string `json:"name"`
	Wanted     string `json:"wanted"`  // as in the estate: a version, a range, a tag or a digest
	Version    string `json:"version"` // that it stood for when it was pulled; empty if it is not present
	Digest     string `json:"digest"`  // of the archive, likewise
	Since      string `json:"since"`   // when it was pulled, likewise
	Present    bool   `json:"present"`
	Pulled     bool   `json:"pulled"` // by this command
	Was        string `json:"was"`    // digest of another archive that the version had before
	File       string `json:"file"`   // that names it
	Line       int    `json:"line"`
}

// Charts prints `lab charts`.
func (u *UI) Charts(res ChartsResult) error {
	if u.opts.JSON {
		return u.JSON(res)
	}
	if len(res.Charts) == 0 {
		u.Print("the estate names no charts of other people's repositories")
		return nil
	}
	t := Table{Head: []string{"CHART", "WANTED", "HERE", "REPOSITORY"}}
	for _, c := range res.Charts {
		t.Rows = append(t.Rows, []string{c.Name, cmp.Or(c.Wanted, "*"), cmp.Or(c.Version, "-"), c.Repository})
	}
	u.Table(t)
	for _, c := range res.Charts {
		if c.Was != "" {
			u.Println("warning: the archive of " + c.Name + " " + c.Version + " of " + c.Repository + " has changed: it was " + c.Was + ", and is " + c.Digest)
		}
	}
	return nil
}
