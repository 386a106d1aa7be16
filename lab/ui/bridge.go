package ui

import (
	"cmp"
	"fmt"

	"homelab/lab"
)

// BridgeImportResult is `lab bridge import -o json`.
type BridgeImportResult struct {
	Cluster string             `json:"cluster"`
	From    string             `json:"from"` // what was read: the kind of file, and the Secret in it
	Written bool               `json:"written"`
	Changes List[BridgeChange] `json:"changes"`
	Left    List[BridgeLeft]   `json:"left"`
}

// BridgeChange is a value that production gives to a field of a document.
type BridgeChange struct {
	File   string `json:"file"` // within the estate
	Line   int    `json:"line"` // after the change
	Field  string `json:"field"`
	Key    string `json:"key"`    // of production
	Before string `json:"before"` // empty if the document lacked it
	After  string `json:"after"`
}

// BridgeLeft is a value of production that is not taken over.
type BridgeLeft struct {
	Key    string `json:"key"`
	Reason string `json:"reason"`
}

// BridgeDiffResult is `lab bridge diff -o json`.
type BridgeDiffResult struct {
	Cluster     string                 `json:"cluster"`
	From        string                 `json:"from"` // as in `lab bridge import`
	Differences List[BridgeDifference] `json:"differences"`
	Left        List[BridgeLeft]       `json:"left"`
}

// BridgeDifference is a key that only one side has, or whose values differ.
type BridgeDifference struct {
	Kind       string `json:"kind"` // label or annotation
	Key        string `json:"key"`
	In         string `json:"in"` // production, lab or both
	Lab        string `json:"lab"`
	Production string `json:"production"`
}

// BridgeImport prints `lab bridge import`.
func (u *UI) BridgeImport(res BridgeImportResult) error {
	if u.opts.JSON {
		return u.JSON(res)
	}
	t := Table{Head: []string{"FIELD", "VALUE", "BEFORE", "FROM", "IN"}}
	for _, c := range res.Changes {
		t.Rows = append(t.Rows, []string{c.Field, c.After, cmp.Or(c.Before, "-"), c.Key, fmt.Sprintf("%s:%d", c.File, c.Line)})
	}
	if len(t.Rows) > 0 {
		u.Table(t)
	}
	u.left(res.Left)
	switch {
	case len(res.Changes) == 0:
		u.Println(fmt.Sprintf("cluster %s has it all", res.Cluster))
	case res.Written:
		u.Println("next: lab bridge show --cluster " + lab.Quote(res.Cluster))
	}
	return nil
}

// BridgeDiff prints `lab bridge diff`.
func (u *UI) BridgeDiff(res BridgeDiffResult) error {
	if u.opts.JSON {
		return u.JSON(res)
	}
	t := Table{Head: []string{"KIND", "KEY", "LAB", "PRODUCTION"}}
	for _, d := range res.Differences {
		ours, theirs := d.Lab, d.Production
		switch d.In {
		case "production":
			ours = "-"
		case "lab":
			theirs = "-"
		}
		t.Rows = append(t.Rows, []string{d.Kind, d.Key, ours, theirs})
	}
	if len(t.Rows) > 0 {
		u.Table(t)
	} else {
		u.Println("no differences")
	}
	u.left(res.Left)
	return nil
}

func (u *UI) left(list []BridgeLeft) {
	for _, l := range list {
		u.Println("left: " + l.Key + ": " + l.Reason)
	}
}
