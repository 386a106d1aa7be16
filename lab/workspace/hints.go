package workspace

import (
	"cmp"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"homelab/lab"
)

// Command returns a command line about this lab, as typed here.
func (w *Workspace) Command(line string) string {
	if w.builtin && strings.HasPrefix(line, "lab up") {
		line += " --builtin"
	}
	if w.Name == w.here {
		return line
	}
	return line + " --name " + lab.Quote(w.Name)
}

// OnEstate is like Command for commands that also take the estate.
func (w *Workspace) OnEstate(line string) string {
	if w.named == "" {
		return w.Command(line)
	}
	line += " -C " + lab.Quote(w.named)
	if w.Name != cmp.Or(w.around, w.Estate.Name) {
		line += " --name " + lab.Quote(w.Name)
	}
	return line
}

// ToEdit returns the path of an estate file, relative to the working folder if below it.
func (w *Workspace) ToEdit(file string) string {
	file = filepath.Join(w.Estate.Dir, filepath.FromSlash(file))
	wd, err := os.Getwd()
	if err != nil {
		return file
	}
	if rel, err := filepath.Rel(wd, file); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return file
}

// Next suggests what to try on a running lab: values to edit, a scenario to run.
func (w *Workspace) Next(est *lab.Estate, stories []string) string {
	var ideas []string
	for _, e := range slices.SortedFunc(slices.Values(est.Environments), func(a, b lab.Environment) int { return cmp.Compare(a.Order, b.Order) }) {
		values, err := fs.Glob(est.FS, path.Join(lab.EnvironmentsDir, e.Name, lab.AddonsDir, "*", "values.yaml"))
		if err == nil && len(values) > 0 && e.Order > 0 {
			if w.Estate.Dir == "" { // a folder named like the lab is its estate
				ideas = append(ideas, "lab init "+lab.Quote(w.Name)+" && cd "+lab.Quote(w.Name)+", edit "+values[0]+" and run lab up")
			} else {
				ideas = append(ideas, "edit "+w.ToEdit(values[0])+" and run "+w.OnEstate("lab up"))
			}
			break
		}
	}
	if len(stories) > 0 {
		story := stories[0]
		if slices.Contains(stories, "drift") {
			story = "drift"
		}
		ideas = append(ideas, "play a story: "+w.OnEstate("lab scenario run "+lab.Quote(story)))
	}
	return strings.Join(ideas, ", or ")
}
