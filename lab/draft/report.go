package draft

import (
	"fmt"
	"slices"
	"strings"

	"homelab/lab"
)

// ReportFile is the file of an estate with all that its draft found.
const ReportFile = "init.md"

// Report returns all that a draft found, with files and lines, as Markdown.
func (d *Draft) Report() string {
	var b strings.Builder
	b.WriteString("# What lab init found\n\nPaths are relative to this folder. `lab fill` lists what is open and sets it; nothing reads this file.\n")
	open := func(k Key) bool { return k.How == Open }
	key := func(k Key) []string { return []string{k.Kind() + " " + k.Name, code(k.Value), k.At.String()} }
	section(&b, "Open", "key | placeholder | read by", slices.DeleteFunc(slices.Clone(d.Keys), func(k Key) bool { return !open(k) }), key)
	section(&b, "Choices", "of | taken | among | read by", d.Choices, func(c Choice) []string {
		return []string{c.About, c.Took, strings.Join(c.Of, ", "), c.At.String()}
	})
	section(&b, "Left out", "why | where", d.Left(), func(l Left) []string { return []string{l.Why, l.At.String()} })
	section(&b, "Addons", "addon |  | selected by", d.Addons, func(a Switch) []string {
		if a.On {
			return []string{a.Addon, "on", a.At.String()}
		}
		return []string{a.Addon, "off: " + a.Why, a.At.String()}
	})
	section(&b, "Roots", "where", d.Roots, func(at lab.Position) []string { return []string{at.String()} })
	section(&b, "Found", "key | value | read by", slices.DeleteFunc(slices.Clone(d.Keys), open), key)
	section(&b, "Clusters", "cluster | file", d.Clusters, func(name string) []string { return []string{name, lab.ClusterFile(name)} })
	section(&b, "Repositories", "address | folder | branch", d.Repositories, func(r lab.Repository) []string { return []string{r.URL, r.Dir, r.Branch} })
	return b.String()
}

// section writes a table, unless it is empty.
func section[T any](b *strings.Builder, title, head string, list []T, row func(T) []string) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(b, "\n## %s\n\n| %s |\n|%s\n", title, head, strings.Repeat("---|", strings.Count(head, "|")+1))
	for _, of := range list {
		cells := row(of)
		for i := range cells {
			cells[i] = strings.ReplaceAll(strings.ReplaceAll(cells[i], "|", `\|`), "\n", " ")
		}
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

// Kind returns what a key is: a label, an annotation, or what it is in.
func (k Key) Kind() string {
	switch {
	case k.In != "":
		return k.In
	case k.Label:
		return "label"
	}
	return "annotation"
}

// Left returns all that the draft leaves out.
func (d *Draft) Left() []Left {
	list := slices.Clone(d.Without)
	for _, at := range d.Beside {
		list = append(list, Left{At: at, Why: "nothing leads to it"})
	}
	return list
}
