// Package words fits engines' messages into the lines of a terminal.
package words

import (
	"fmt"
	"strings"
)

// Width is the maximum length of a detail line: 80 columns less the narration's indent of two.
const Width = 78

// Wrap breaks a line at spaces into lines of at most at columns, at least one. A longer word is not broken.
func Wrap(s string, at int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		switch {
		case line == "":
			line = word
		case len([]rune(line))+1+len([]rune(word)) > at:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// elided marks Clip's cut.
const elided = " … "

// Clip shortens a message to one line of at most n runes, cutting the middle: errors start with the operation and end with the cause.
func Clip(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	keep := max(n-len([]rune(elided)), 2)
	head, tail := string(r[:keep/2]), string(r[len(r)-(keep-keep/2):])
	if i := strings.LastIndexByte(head, ' '); i > 0 {
		head = head[:i]
	}
	if i := strings.IndexByte(tail, ' '); i >= 0 {
		tail = tail[i+1:]
	}
	return head + elided + tail
}

// Row is a row of a table of pending applications.
type Row struct {
	Name, State string
	Reasons     []string // most specific first
}

// Table returns the lines of a table, none longer than Width.
func Table(rows []Row) []string {
	wide, wideState := 0, 0
	for _, r := range rows {
		wide, wideState = max(wide, len(r.Name)), max(wideState, len(r.State))
	}
	var out []string
	for _, r := range rows {
		first := fmt.Sprintf("%-*s   %-*s   ", wide, r.Name, wideState, r.State)
		indent := strings.Repeat(" ", wide+3)
		if len(r.Reasons) == 0 {
			out = append(out, strings.TrimRight(first, " "))
			continue
		}
		lines := Wrap(r.Reasons[0], Width-len(first))
		out = append(out, first+lines[0])
		for _, l := range lines[1:] {
			out = append(out, strings.Repeat(" ", len(first))+l)
		}
		for _, more := range r.Reasons[1:] {
			for _, l := range Wrap(more, Width-len(indent)) {
				out = append(out, indent+l)
			}
		}
	}
	return out
}
