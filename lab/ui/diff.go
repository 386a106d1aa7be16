package ui

import (
	"fmt"
	"slices"
	"strings"
)

// DiffResult is `lab diff -o json`.
type DiffResult struct {
	Lab          string              `json:"lab"`
	Engine       string              `json:"engine"`
	Before       string              `json:"before"` // what is compared: "main (1a2b3c4d5e)", "environment dev"
	After        string              `json:"after"`
	Read         DiffRead            `json:"read"`
	Pairs        List[DiffPair]      `json:"pairs"`        // of environments; empty for revisions
	Applications int                 `json:"applications"` // compared
	Differ       int                 `json:"differ"`       // of them
	Changes      List[DiffChange]    `json:"changes"`
	Unknown      List[DiffUnknown]   `json:"unknown"` // what cannot be compared, and why
	Problems     List[RenderProblem] `json:"problems"`
}

// DiffRead are the revisions that were read.
type DiffRead struct {
	Before List[ReadRevision] `json:"before"`
	After  List[ReadRevision] `json:"after"`
}

// DiffPair are the clusters by which environments are compared in an addon.
type DiffPair struct {
	Addon          string `json:"addon"`
	Before         string `json:"before"` // cluster; empty if the environment does not have the addon
	After          string `json:"after"`
	BeforeClusters int    `json:"before_clusters"` // that have the addon
	AfterClusters  int    `json:"after_clusters"`
}

// DiffApplication is an application that has a change.
type DiffApplication struct {
	Name    string `json:"name"`
	Cluster string `json:"cluster"`
	Short   string `json:"-"` // its cluster, with its name if that does not follow
}

// DiffChange is a difference of an object, in all applications that have it.
type DiffChange struct {
	Addon        string                `json:"addon"`
	Applications List[DiffApplication] `json:"applications"`
	Named        bool                  `json:"named"`   // they differ by names of clusters and by hashes in names; those here are of the first one
	Change       string                `json:"change"`  // added, removed, changed, moved or renamed
	Cluster      string                `json:"cluster"` // that gets the object; empty for the Application or Kustomization itself
	Group        string                `json:"group"`
	Kind         string                `json:"kind"`
	Namespace    string                `json:"namespace"`
	Name         string                `json:"name"`
	From         string                `json:"from"` // application that had a moved object, NAMESPACE/NAME of a renamed one
	Fields       List[DiffField]       `json:"fields"`
	Random       List[string]          `json:"random"`  // paths whose values differ at each rendering
	Routine      bool                  `json:"routine"` // it is a newer version of images and charts alone
	Bumps        List[DiffBump]        `json:"bumps"`
}

// DiffField is a difference within an object.
type DiffField struct {
	Path   string       `json:"path"`
	Change string       `json:"change"` // added, removed, changed or reordered
	Before Raw          `json:"before"` // null if there is none
	After  Raw          `json:"after"`
	Secret bool         `json:"secret"` // the values are masked
	Lines  List[string] `json:"lines"`  // of a longer text, with " ", "-", "+", or "@@" for lines that are left out
}

// DiffBump is a newer version.
type DiffBump struct {
	What string `json:"what"` // image, chart, or version of a label
	Name string `json:"name"`
	From string `json:"from"`
	To   string `json:"to"`
}

// DiffUnknown is the reason that applications cannot be compared.
type DiffUnknown struct {
	Addon        string                `json:"addon"`
	Applications List[DiffApplication] `json:"applications"`
	Release      string                `json:"release"` // HelmRelease, NAMESPACE/NAME; empty for others
	Before       string                `json:"before"`  // why it cannot be rendered; empty if it can
	After        string                `json:"after"`
}

// Fails reports whether something cannot be rendered in the later state, which may be anything.
func (r DiffResult) Fails() bool {
	return slices.ContainsFunc(r.Unknown, func(u DiffUnknown) bool { return u.After != "" })
}

// Differs reports whether there is a difference.
func (r DiffResult) Differs() bool {
	return len(r.Changes) > 0 || slices.ContainsFunc(r.Unknown, func(u DiffUnknown) bool { return u.Before == "" || u.After == "" }) ||
		slices.ContainsFunc(r.Pairs, func(p DiffPair) bool { return p.Before == "" || p.After == "" })
}

// diffLine is a line of a comparison: its sign decides the color.
type diffLine struct {
	sign string // "+", "-", "~", ">", or " "
	text string
}

// diffSection is what some applications have in common.
type diffSection struct {
	title string
	lines []diffLine
	more  string // what was left out
}

// Limits of a section and of an object in it, unless everything is printed.
const (
	sectionLines = 60
	objectLines  = 16
	lineWidth    = 160
)

// sections returns the comparison for readers, what is not known first and routine last.
func (r DiffResult) sections(all bool) (list []diffSection) {
	if unknown := r.unknownSection(); len(unknown.lines) > 0 {
		list = append(list, unknown)
	}
	for _, p := range r.Pairs {
		if p.Before == "" || p.After == "" {
			list = append(list, diffSection{title: p.Addon, lines: []diffLine{onlyIn(p, r)}})
		}
	}
	titles := map[string]int{}
	routine := diffSection{title: "routine"}
	for _, c := range r.Changes {
		if c.Routine {
			for _, line := range c.routine() {
				if !slices.Contains(routine.lines, line) {
					routine.lines = append(routine.lines, line)
				}
			}
			continue
		}
		title := clean(c.Addon) + "   " + where(c.Applications, c.Named)
		if i := slices.IndexFunc(r.Pairs, func(p DiffPair) bool { return p.Addon == c.Addon }); i >= 0 {
			title = clean(c.Addon + "   " + r.Pairs[i].Before + " -> " + r.Pairs[i].After)
		}
		i, known := titles[title]
		if !known {
			i = len(list)
			titles[title] = i
			list = append(list, diffSection{title: title})
		}
		s := &list[i]
		s.lines = append(s.lines, c.lines(all)...)
	}
	if len(routine.lines) > 0 {
		list = append(list, routine)
	}
	for i := range list {
		if s := &list[i]; !all && len(s.lines) > sectionLines {
			s.more = fmt.Sprintf("… %d more lines", len(s.lines)-sectionLines)
			s.lines = s.lines[:sectionLines]
		}
	}
	return list
}

func onlyIn(p DiffPair, r DiffResult) diffLine {
	if p.After == "" {
		return diffLine{"-", "only in " + r.Before + ": " + Count(p.BeforeClusters, "cluster")}
	}
	return diffLine{"+", "only in " + r.After + ": " + Count(p.AfterClusters, "cluster")}
}

func (r DiffResult) unknownSection() diffSection {
	s := diffSection{title: "not compared"}
	for _, u := range r.Unknown {
		text := clean(u.Addon) + "   " + where(u.Applications, false)
		if u.Release != "" {
			text += ", HelmRelease " + clean(u.Release)
		}
		switch {
		case u.Before == u.After:
			text += ": " + clean(u.Before)
		case u.Before == "":
			text += ": " + r.After + ": " + clean(u.After)
		case u.After == "":
			text += ": " + r.Before + ": " + clean(u.Before)
		default:
			text += ": " + r.Before + ": " + clean(u.Before) + "; " + r.After + ": " + clean(u.After)
		}
		s.lines = append(s.lines, diffLine{"!", text})
	}
	for _, p := range r.Problems {
		s.lines = append(s.lines, diffLine{"!", clean(p.Message)})
	}
	return s
}

// where returns the applications of a change: by cluster, and by name if that does not follow.
func where(apps []DiffApplication, named bool) string {
	const most = 5
	var names []string
	for _, a := range apps[:min(len(apps), most)] {
		names = append(names, clean(a.Short))
	}
	text := strings.Join(names, ", ")
	if len(apps) > most {
		text += fmt.Sprintf(" and %d more", len(apps)-most)
	}
	switch {
	case len(apps) == 1:
		return text
	case named:
		return fmt.Sprintf("the same but for names in %d: %s", len(apps), text)
	}
	return fmt.Sprintf("the same in %d: %s", len(apps), text)
}

// ShortApplication returns an application of a result, of an addon whose applications are called CLUSTER-ADDON.
func ShortApplication(name, cluster, usual string) DiffApplication {
	a := DiffApplication{Name: name, Cluster: cluster, Short: cluster}
	if name != usual {
		a.Short = cluster + " (" + name + ")"
	}
	return a
}

func (c DiffChange) routine() (lines []diffLine) {
	named := slices.ContainsFunc(c.Bumps, func(b DiffBump) bool { return b.What != "version" })
	for _, b := range c.Bumps {
		if named && b.What == "version" {
			continue
		}
		name := b.Name
		if name == "" {
			name = c.Kind + " " + c.id()
		}
		lines = append(lines, diffLine{"~", clean(fmt.Sprintf("%s   %s %s %s -> %s", c.Addon, b.What, name, b.From, b.To)) + "   " + where(c.Applications, c.Named)})
	}
	return lines
}

func (c DiffChange) id() string {
	if c.Namespace == "" {
		return c.Name
	}
	return c.Namespace + "/" + c.Name
}

var diffSigns = map[string]string{"added": "+", "removed": "-", "changed": "~", "moved": ">", "renamed": ">"}

// lines returns an object with its fields.
func (c DiffChange) lines(all bool) []diffLine {
	title := c.Kind + " " + c.id()
	if len(c.Applications) > 0 && c.Cluster != "" && c.Cluster != c.Applications[0].Cluster {
		title += " on " + c.Cluster
	}
	switch c.Change {
	case "moved":
		title += ", moved from application " + c.From
	case "renamed":
		title += ", renamed from " + c.From
	}
	lines := []diffLine{{diffSigns[c.Change], clean(title)}}
	for _, f := range c.Fields {
		lines = append(lines, f.lines()...)
	}
	if n := len(c.Random); n > 0 {
		lines = append(lines, diffLine{" ", clean("    differs at each rendering: " + strings.Join(c.Random, ", "))})
	}
	if !all {
		if n := len(lines) - objectLines; n > 1 {
			lines = append(lines[:objectLines], diffLine{" ", fmt.Sprintf("    … %d more lines", n)})
		}
		for i := range lines {
			lines[i].text = truncate(lines[i].text, lineWidth)
		}
	}
	return lines
}

func (f DiffField) lines() []diffLine {
	value := func(r Raw) string { return clean(strings.TrimSpace(string(r))) }
	path := "    " + clean(f.Path)
	if len(f.Lines) > 0 {
		lines := []diffLine{{" ", path}}
		for _, line := range f.Lines {
			sign, text := line[:1], line[1:]
			if line == "@@" {
				sign, text = " ", "…"
			}
			lines = append(lines, diffLine{sign, "      " + clean(text)})
		}
		return lines
	}
	switch {
	case f.Secret && f.Change == "changed":
		return []diffLine{{" ", path + "   changed, not shown"}}
	case f.Change == "added":
		return []diffLine{{"+", path + "   " + value(f.After)}}
	case f.Change == "removed":
		return []diffLine{{"-", path + "   " + value(f.Before)}}
	case f.Change == "reordered":
		return []diffLine{{" ", path + "   order " + value(f.Before) + " -> " + value(f.After)}}
	}
	const most = 100
	if line := path + "   " + value(f.Before) + " -> " + value(f.After); width(line) <= most {
		return []diffLine{{" ", line}}
	}
	return []diffLine{{" ", path}, {"-", "      " + value(f.Before)}, {"+", "      " + value(f.After)}}
}

// Summary returns the comparison in one line.
func (r DiffResult) Summary() string {
	text := fmt.Sprintf("differences in %d of %s", r.Differ, Count(r.Applications, "application"))
	if r.Differ == 0 {
		text = "no difference in " + Count(r.Applications, "application")
	}
	routine := 0
	for _, c := range r.Changes {
		if c.Routine {
			routine++
		}
	}
	if n := len(r.Changes); n > 0 {
		text += ": " + Count(n, "change")
	}
	if routine > 0 {
		text += fmt.Sprintf(", %d routine", routine)
	}
	missing := map[DiffApplication]bool{}
	for _, u := range r.Unknown {
		for _, a := range u.Applications {
			missing[a] = true
		}
	}
	var not []string
	if n := len(missing); n > 0 {
		not = append(not, Count(n, "application"))
	}
	if n := len(r.Problems); n > 0 {
		not = append(not, Count(n, "ApplicationSet"))
	}
	if len(not) == 0 {
		return text
	}
	if r.Differ == 0 {
		text = "unknown whether " + Count(r.Applications, "application") + " differ"
		if r.Applications == 1 {
			text += "s"
		}
	}
	return text + "; not compared: " + strings.Join(not, ", ")
}

// maxDiffLines limits what is printed unless everything is.
const maxDiffLines = 240

// Diff prints `lab diff`.
func (u *UI) Diff(r DiffResult, all bool, seeAll string) error {
	if u.opts.JSON {
		return u.JSON(r)
	}
	color := paint(u.opts.OutColor)
	styles := map[string]style{"+": green, "-": red, "~": yellow, ">": cyan, "!": yellow}
	u.Print(color.text(bold, clean(r.Before+" -> "+r.After)) + "   " + r.Summary())
	for _, p := range r.Pairs {
		if p.Before != "" && p.After != "" {
			u.Print(clean(fmt.Sprintf("  %s   %s (of %d) and %s (of %d)", p.Addon, p.Before, p.BeforeClusters, p.After, p.AfterClusters)))
		}
	}
	printed, left := 0, 0
	cut := false
	for _, s := range r.sections(all) {
		if !all && printed+len(s.lines) > maxDiffLines && printed > 0 {
			left += len(s.lines)
			continue
		}
		u.Print("")
		u.Print(color.text(bold, s.title))
		for _, line := range s.lines {
			u.Print("  " + color.text(styles[line.sign], strings.TrimRight(line.sign+" "+line.text, " ")))
			cut = cut || strings.Contains(line.text, "…")
		}
		if printed += len(s.lines); s.more != "" {
			u.Print("    " + s.more)
			cut = true
		}
	}
	if left > 0 {
		u.Print("")
		u.Print(fmt.Sprintf("… %d more lines", left))
	}
	if left > 0 || cut && !all {
		u.Println("shortened: " + seeAll + " prints all")
	}
	return nil
}
