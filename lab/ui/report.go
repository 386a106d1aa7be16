package ui

import (
	"fmt"
	"strings"
	"time"

	"homelab/lab"
)

// Row is a line of a report: a check, its finding and a cure.
type Row struct {
	Symbol Symbol
	Title  string
	Text   string
	Cure   string // possibly several lines
}

// Report prints checks and the number of failures as data.
func (u *UI) Report(rows []Row) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.write(u.opts.Out, reportText(rows, u.outWidth(), paint(u.opts.OutColor)))
}

func reportText(rows []Row, columns int, p paint) string {
	titles := 16
	for _, r := range rows {
		titles = max(titles, width(clean(r.Title))+2)
	}
	var b strings.Builder
	failures, warnings := 0, 0
	for _, r := range rows {
		switch r.Symbol {
		case SymbolFailed:
			failures++
		case SymbolWarning:
			warnings++
		}
		prefix := " " + string(r.Symbol) + " " + pad(clean(r.Title), titles)
		text := hang(prefix, clean(r.Text), columns)
		b.WriteString(" " + p.text(r.Symbol.style(), string(r.Symbol)) + text[1+len(r.Symbol):] + "\n")
		if r.Cure == "" {
			continue
		}
		for cure := range strings.SplitSeq(r.Cure, "\n") {
			b.WriteString(hang(spaces(width(prefix)), clean(cure), columns) + "\n")
		}
	}
	var counts []string
	if failures > 0 {
		counts = append(counts, Count(failures, "failure"))
	}
	if warnings > 0 {
		counts = append(counts, Count(warnings, "warning"))
	}
	if len(counts) == 0 {
		counts = append(counts, "ready")
	}
	b.WriteString(strings.Join(counts, ", ") + "\n")
	return trimLines(b.String())
}

// Summary is the last screen of `lab up`.
type Summary struct {
	Lab          string
	Took         time.Duration
	Longest      []Leg // see LongestWay
	Clusters     []StatusCluster
	Applications []lab.Application
	Addons       []string // order of the columns; others follow by name
	Endpoints    []Entry
	Next         string // suggested command, without "next:"
}

// Entry is a fact: "forge", its address, and a note.
type Entry struct {
	Name, Text, Note string
}

// Summary prints the last screen of `lab up`; with -o json nothing, as the result is UpResult.
func (u *UI) Summary(s Summary) {
	if u.opts.JSON {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.write(u.opts.Out, summaryText(s, u.outWidth(), paint(u.opts.OutColor)))
}

func summaryText(s Summary, columns int, p paint) string {
	var b strings.Builder
	first := fmt.Sprintf("lab %s is up in %s", s.Lab, Duration(s.Took))
	b.WriteString(p.text(bold, first))
	var legs []string
	for _, l := range s.Longest {
		if l.Took >= time.Second {
			legs = append(legs, l.Title+" "+lab.WholeSeconds(l.Took))
		}
	}
	if len(legs) > 0 {
		way := "(critical path: " + strings.Join(legs, ", ") + ")"
		if columns > 0 && width(first)+3+width(way) > columns {
			b.WriteString("\n" + hang("", way, columns))
		} else {
			b.WriteString("   " + way)
		}
	}
	b.WriteString("\n\n" + matrix(s.Clusters, s.Applications, s.Addons, false, columns, p))
	if len(s.Endpoints) > 0 {
		b.WriteString("\n" + entriesText(s.Endpoints, p))
	}
	if s.Next != "" {
		b.WriteString("\n" + hang("next: ", s.Next, columns) + "\n")
	}
	return b.String()
}

func entriesText(list []Entry, p paint) string {
	t := Table{}
	for _, l := range list {
		cells := []string{l.Name, l.Text}
		if l.Note != "" {
			cells = append(cells, l.Note)
		}
		t.Rows = append(t.Rows, cells)
	}
	return t.render(0, p)
}

// Entries prints aligned entries.
func (u *UI) Entries(list []Entry) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.write(u.opts.Out, entriesText(list, paint(u.opts.OutColor)))
}

// UpToDate reports that nothing had to be done; with -o json nothing.
func (u *UI) UpToDate(labName string, clusters, applications int, took time.Duration) {
	if u.opts.JSON {
		return
	}
	u.Print(fmt.Sprintf("lab %s is up to date: %s, %s in sync   %s",
		labName, Count(clusters, "cluster"), Count(applications, "application"), Duration(took)))
}

// Status prints `lab status`: JSON, or the matrix with problems below.
func (u *UI) Status(s Status) error {
	if u.opts.JSON {
		return u.JSON(s)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.write(u.opts.Out, statusText(s, u.outWidth(), paint(u.opts.OutColor)))
	return nil
}

func statusText(s Status, columns int, p paint) string {
	var b strings.Builder
	head := "lab " + s.Lab
	if s.Engine != "" {
		head += " · " + s.Engine
	}
	if s.Revision != "" {
		head += " · revision " + s.Revision[:min(7, len(s.Revision))]
	}
	b.WriteString(p.text(bold, head) + "\n\n" + matrix(s.Clusters, s.Applications, nil, true, columns, p))
	t := Table{}
	for _, a := range s.Applications {
		switch {
		case a.Converged():
		case a.LeftOut != "":
			t.Rows = append(t.Rows, []string{a.Name, "left out", a.LeftOut})
		default:
			t.Rows = append(t.Rows, []string{a.Name, a.Sync + ", " + a.Health, a.Message})
		}
	}
	if len(t.Rows) > 0 {
		b.WriteString("\n")
		for l := range strings.Lines(t.render(0, p)) {
			b.WriteString(hangLast(strings.TrimSuffix(l, "\n"), columns) + "\n")
		}
	}
	if len(s.Off) > 0 {
		b.WriteString("\n" + hang("off: ", strings.Join(s.Off, ", "), columns) + "\n" + hang("", s.Starts+" starts it without data loss", columns) + "\n")
	}
	if s.OnlyInForge.Summary != "" && s.OnlyInForge.Unknown == "" {
		b.WriteString("\n" + hang("only in the forge: ", s.OnlyInForge.Summary+"; "+s.OnlyInForge.ListedBy+" lists it", columns) + "\n")
	}
	for _, c := range s.Clusters {
		if c.Ending != "" {
			b.WriteString("\n" + hang("cluster "+c.Name+": ", c.Ending, columns) + "\n")
		}
	}
	if len(s.Untrusted) > 0 {
		b.WriteString("\nnot trusted yet; lab up asks\n")
		for _, t := range s.Untrusted {
			of := ""
			if t.Cluster != "" {
				of = "cluster " + t.Cluster + ": "
			}
			b.WriteString(hang("  ", clean(fmt.Sprintf("%s:%d: %s%s %s: %s", t.File, t.Line, of, t.Kind, t.What, t.Gives)), columns) + "\n")
		}
	}
	if len(s.Endpoints) > 0 {
		var list []Entry
		for _, e := range s.Endpoints {
			l := Entry{Name: e.Name, Text: e.URL}
			if e.User != "" {
				l.Note = fmt.Sprintf("user %s, password: %s", e.User, e.PasswordBy)
			}
			list = append(list, l)
		}
		b.WriteString("\n" + entriesText(list, p))
	}
	return b.String()
}
