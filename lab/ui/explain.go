package ui

import (
	"fmt"
	"strings"

	"homelab/lab"
)

// ExplainResult is `lab explain -o json`.
type ExplainResult struct {
	Lab         string                `json:"lab"`
	Application string                `json:"application"` // empty if the cluster does not have it
	Absent      string                `json:"absent"`      // addon or application that the cluster does not have; empty if it has it
	Cluster     string                `json:"cluster"`
	Why         List[ExplainedReason] `json:"why"` // the cluster has it, or not; empty with PATH
	File        string                `json:"file"`
	Line        int                   `json:"line"`
	Objects     List[ExplainedObject] `json:"objects"`
	Problems    List[RenderProblem]   `json:"problems"`  // why something is not explained
	Revisions   List[ReadRevision]    `json:"revisions"` // what was read with --rev; empty without
}

// ExplainedReason is why a cluster has an application, or why not.
type ExplainedReason struct {
	Text string `json:"text"`
	File string `json:"file"`
	Line int    `json:"line"` // 0 for the whole file
}

// ExplainedObject is an object in ExplainResult.
type ExplainedObject struct {
	Kind    string               `json:"kind"`
	Name    string               `json:"name"`
	Cluster string               `json:"cluster"` // that gets it
	Release string               `json:"release"` // HelmRelease, NAMESPACE/NAME; empty for others
	File    string               `json:"file"`
	Line    int                  `json:"line"` // 0 if unknown
	Fields  List[ExplainedField] `json:"fields"`
}

// ExplainedField is a field of an object, without fields of its own.
type ExplainedField struct {
	Path  string               `json:"path"`
	Value string               `json:"value"`
	File  string               `json:"file"` // where it is written: in a template, a manifest or a patch
	Line  int                  `json:"line"` // 0 if unknown
	From  List[ExplainedValue] `json:"from"` // values that decide it; empty for what is written in file

	Random bool `json:"random"` // it differs each time that it is rendered
}

// ExplainedValue is a value that decides a field.
type ExplainedValue struct {
	Path      string               `json:"path"` // in its file, or in the options of the source
	Value     string               `json:"value"`
	File      string               `json:"file"` // empty if unknown
	Line      int                  `json:"line"`
	By        List[ExplainedPlace] `json:"by"`        // what set it: parameters of a set
	Overrides List[ExplainedPlace] `json:"overrides"` // values of earlier layers, the last one first
}

// ExplainedPlace is a place with a value.
type ExplainedPlace struct {
	File  string `json:"file"`
	Line  int    `json:"line"`
	Value string `json:"value"`
}

// Explained prints `lab explain`.
func (u *UI) Explained(res ExplainResult) error {
	if u.opts.JSON {
		return u.JSON(res)
	}
	if res.Absent != "" {
		u.Print(fmt.Sprintf("%s does not have %s", res.Cluster, res.Absent))
	} else {
		u.Print(fmt.Sprintf("%s   %s", res.Application, lab.Position{File: res.File, Line: res.Line}))
	}
	why := Table{}
	for _, r := range res.Why {
		why.Rows = append(why.Rows, []string{"  " + r.Text, lab.Position{File: r.File, Line: r.Line}.String()})
	}
	u.Table(why)
	for _, o := range res.Objects {
		u.Print("")
		u.Print(fmt.Sprintf("%s %s   %s", o.Kind, o.Name, lab.Position{File: o.File, Line: o.Line}))
		t := Table{}
		for _, f := range o.Fields {
			t.Rows = append(t.Rows, []string{"  " + f.Path, short(f.Value), f.origin()})
			for _, from := range f.From {
				for _, over := range from.Overrides {
					t.Rows = append(t.Rows, []string{"", "", fmt.Sprintf("  overrides %s of %s", short(over.Value), lab.Position{File: over.File, Line: over.Line})})
				}
			}
		}
		u.Table(t)
	}
	return nil
}

// origin describes where a field comes from.
func (f ExplainedField) origin() string {
	var from []string
	for _, v := range f.From {
		text := strings.TrimSpace(lab.Position{File: v.File, Line: v.Line}.String() + " " + v.Path)
		for _, by := range v.By {
			text += ", set by " + lab.Position{File: by.File, Line: by.Line}.String()
		}
		from = append(from, text)
	}
	switch {
	case f.Random:
		return "differs each time: " + lab.Position{File: f.File, Line: f.Line}.String()
	case len(from) > 0:
		return strings.Join(from, "; ")
	case f.Line > 0:
		return lab.Position{File: f.File, Line: f.Line}.String()
	}
	return "unknown"
}

// short returns the first line of a value.
func short(value string) string {
	const most = 40
	line, _, more := strings.Cut(value, "\n")
	if r := []rune(line); len(r) > most {
		line, more = string(r[:most]), true
	}
	if more {
		line += "…"
	}
	return line
}
