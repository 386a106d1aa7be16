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
	section := func(title string, head []string, rows [][]string) {
		if len(rows) == 0 {
			return
		}
		fmt.Fprintf(&b, "\n## %s\n\n| %s |\n|%s\n", title, strings.Join(head, " | "), strings.Repeat("---|", len(head)))
		for _, row := range rows {
			for i := range row {
				row[i] = strings.ReplaceAll(strings.ReplaceAll(row[i], "|", `\|`), "\n", " ")
			}
			b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		}
	}
	var repositories, clusters, roots, open, found, addons, choices, left [][]string
	for _, r := range d.Repositories {
		repositories = append(repositories, []string{r.URL, r.Dir, r.Branch})
	}
	for _, name := range d.Clusters {
		clusters = append(clusters, []string{name, lab.ClusterFile(name)})
	}
	for _, at := range d.Roots {
		roots = append(roots, []string{at.String()})
	}
	for _, k := range d.Keys {
		row := []string{k.Kind() + " " + k.Name, code(k.Value), k.At.String()}
		if k.How == Open {
			open = append(open, row)
		} else {
			found = append(found, row)
		}
	}
	for _, a := range d.Addons {
		state := "on"
		if !a.On {
			state = "off: " + a.Why
		}
		addons = append(addons, []string{a.Addon, state, a.At.String()})
	}
	for _, c := range d.Choices {
		choices = append(choices, []string{c.About, c.Took, strings.Join(c.Of, ", "), c.At.String()})
	}
	for _, l := range d.Left() {
		left = append(left, []string{l.Why, l.At.String()})
	}
	section("Open", []string{"key", "placeholder", "read by"}, open)
	section("Choices", []string{"of", "taken", "among", "read by"}, choices)
	section("Left out", []string{"why", "where"}, left)
	section("Addons", []string{"addon", "", "selected by"}, addons)
	section("Roots", []string{"where"}, roots)
	section("Found", []string{"key", "value", "read by"}, found)
	section("Clusters", []string{"cluster", "file"}, clusters)
	section("Repositories", []string{"address", "folder", "branch"}, repositories)
	return b.String()
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
