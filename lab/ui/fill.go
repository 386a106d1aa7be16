package ui

import (
	"fmt"
	"slices"
)

// FillResult is `lab fill -o json`.
type FillResult struct {
	Set  List[FilledValue] `json:"set"`
	Open List[OpenValue]   `json:"open"` // still
}

// FilledValue is a value that was set.
type FilledValue struct {
	Key  string `json:"key"`
	File string `json:"file"` // within the estate
	Line int    `json:"line"`
}

// OpenValue is a placeholder in an estate's files.
type OpenValue struct {
	Key    string `json:"key"`
	Type   string `json:"type"` // of the field that takes it: text, integer, port, ...
	File   string `json:"file"` // within the estate
	Line   int    `json:"line"`
	ReadBy string `json:"read_by"` // FILE:LINE; empty if unknown
}

// Filled prints what `lab fill` did, and what is still open.
func (u *UI) Filled(res FillResult, next string) error {
	if u.opts.JSON {
		return u.JSON(res)
	}
	for _, v := range res.Set {
		u.Print(fmt.Sprintf("set  %s  %s:%d", v.Key, v.File, v.Line))
	}
	if len(res.Open) == 0 {
		u.Print("no value is open")
		u.Println("next: " + next)
		return nil
	}
	table := Table{Head: []string{"OPEN", "TYPE", "IN", "READ BY"}}
	for _, v := range res.Open {
		table.Rows = append(table.Rows, []string{v.Key, v.Type, fmt.Sprintf("%s:%d", v.File, v.Line), v.ReadBy})
	}
	u.Table(table)
	u.Println("next: lab fill KEY=VALUE")
	return nil
}

// few is how many names or reasons are shown at most, and longest how long they are together.
const (
	few     = 10
	longest = 90
)

// OpenLine summarises open values on a line, or returns "".
func OpenLine(open []OpenValue) string {
	var keys []string
	for _, v := range open {
		if !slices.Contains(keys, v.Key) {
			keys = append(keys, v.Key)
		}
	}
	if len(keys) == 0 {
		return ""
	}
	return fmt.Sprintf("%d open: %s", len(keys), Some(keys))
}

// Some lists the first names, and counts the others.
func Some(names []string) string {
	text := ""
	for i, name := range names {
		if i == few || i > 0 && len(text)+len(name) > longest {
			return fmt.Sprintf("%s and %d more", text, len(names)-i)
		}
		if i > 0 {
			text += ", "
		}
		text += name
	}
	return text
}
