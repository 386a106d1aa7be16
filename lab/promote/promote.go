// Package promote promotes an addon's version from one environment to a later one by changing its pin in the estate's
// files.
package promote

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"

	"homelab/lab"
	"homelab/lab/regular"
	"homelab/lab/yamledit"
)

// Promotion is a planned change.
type Promotion struct {
	Addon, From, To string
	Was, Version    string // pinned version of To before and after
	Edits           []Edit // the lab's engine first
	Notes           []string
}

// Edit is a change of one file.
type Edit struct {
	Engine        lab.EngineType // reader of the file
	File          string         // path in the estate
	Was           string         // version before
	Before, After []byte
}

func (e Edit) changes() bool { return string(e.Before) != string(e.After) }

// Plan computes a promotion without writing it. It also changes a pin for the other engine, or adds a note why it cannot.
// Errors are *lab.Error.
func Plan(est *lab.Estate, addon, from, to string) (Promotion, error) {
	a, ok := est.Addon(addon)
	if !ok {
		return Promotion{}, refuse("the estate has no addon "+addon, oneOf(addonNames(est)))
	}
	if err := checkOrder(est, from, to); err != nil {
		return Promotion{}, err
	}
	version, _ := a.Version(from)
	if version == "" {
		return Promotion{}, refuse(fmt.Sprintf("%s pins no version in %s", addon, a.File), "an addon with its chart in the estate is the same in every environment")
	}
	p := Promotion{Addon: addon, From: from, To: to, Version: version}
	engine, other := est.Hub().Engine.Type, lab.EngineFlux
	if engine == lab.EngineFlux {
		other = lab.EngineArgoCD
	}
	e, err := p.edit(est, a, engine)
	if err != nil {
		return Promotion{}, err
	}
	p.Was, p.Edits = e.Was, []Edit{e}
	if a.Elsewhere == nil {
		return p, nil
	}
	if e, err = p.edit(est, *a.Elsewhere, other); err != nil {
		p.Notes = append(p.Notes, fmt.Sprintf("not changed for %s: %v", other.Title(), err))
		return p, nil
	}
	p.Edits = append(p.Edits, e)
	if has, at := a.Elsewhere.Version(from); has != version {
		p.Notes = append(p.Notes, fmt.Sprintf("for %s, %s has %s %s, at %s", other.Title(), from, addon, orNone(has), at))
	}
	if e.Was != p.Was {
		p.Notes = append(p.Notes, fmt.Sprintf("for %s, %s had %s %s", other.Title(), to, addon, e.Was))
	}
	return p, nil
}

func orNone(version string) string { return cmp.Or(version, "no version") }

func (p Promotion) edit(est *lab.Estate, a lab.Addon, engine lab.EngineType) (Edit, error) {
	pin, own := a.Positions[key(p.To)]
	if !own {
		_, at := a.Version(p.From)
		cure := fmt.Sprintf("pin one in the generators of %s, like environment %s in line %d", a.File, p.From, at.Line)
		if engine == lab.EngineFlux {
			cure = fmt.Sprintf("pin one like environment %s at %s, and run lab generate", p.From, at)
		}
		return Edit{}, refuse(fmt.Sprintf("%s has no pinned version in environment %s", a.Name, p.To), cure)
	}
	if r, mounted := repositoryOf(est, pin.File); mounted {
		return Edit{}, refuse(fmt.Sprintf("the version of %s in %s is in repository %s, at %s, which lab does not write to", a.Name, p.To, r.URL, pin),
			"set it to "+p.Version+" there, and run lab up; or commit it to the mirror: lab git url "+lab.Quote(r.Name))
	}
	if pin.Column == 0 {
		return Edit{}, refuse(fmt.Sprintf("the version of %s in %s comes from a template, at %s", a.Name, p.To, pin), "change the template's input")
	}
	for _, env := range slices.Sorted(maps.Keys(a.Versions)) {
		if env != p.To && a.Positions[key(env)] == pin {
			return Edit{}, refuse(fmt.Sprintf("%s and %s share one version of %s, at %s", p.To, env, a.Name, pin), "pin a separate version for "+p.To+" there")
		}
	}
	e := Edit{Engine: engine, File: pin.File, Was: a.Versions[p.To]}
	var err error
	if e.Before, err = fs.ReadFile(est.FS, e.File); err != nil {
		return Edit{}, fmt.Errorf("promote %s: %w", a.Name, err)
	}
	if e.After, err = yamledit.ReplaceScalar(e.Before, pin.Line, pin.Column, p.Version); err != nil {
		return Edit{}, &lab.Error{
			Exit: lab.ExitFailed, Code: "edit", Message: fmt.Sprintf("the version at %s cannot be changed in place", pin),
			Cure: "write it on one line, without an anchor", Err: err,
		}
	}
	return e, nil
}

// repositoryOf returns the mounted repository of a file, at any revision.
func repositoryOf(est *lab.Estate, file string) (lab.Repository, bool) {
	for _, r := range est.Repositories {
		if r.Dir != "." && (strings.HasPrefix(file, r.Dir+"/") || strings.HasPrefix(file, r.Dir+"@")) {
			return r, true
		}
	}
	return lab.Repository{}, false
}

func key(env string) string {
	if env == "" {
		return "version"
	}
	return "version." + env
}

// checkOrder checks that to is a later environment than from.
func checkOrder(est *lab.Estate, from, to string) error {
	orders := map[string]int{}
	for _, name := range []string{from, to} {
		env, ok := est.Environment(name)
		if !ok || name == lab.DefaultEnvironment {
			return refuse(fmt.Sprintf("%q is not an environment to promote between", name), oneOf(environmentNames(est)))
		}
		orders[name] = env.Order
	}
	if from == to {
		return refuse("cannot promote from "+from+" to "+to, oneOf(environmentNames(est)))
	}
	if orders[from] >= orders[to] {
		return refuse(fmt.Sprintf("promotion goes upwards: %s has order %d, %s has %d", from, orders[from], to, orders[to]),
			"to go back, pin the older version in "+to)
	}
	return nil
}

func refuse(message, cure string) error {
	return &lab.Error{Exit: lab.ExitInvalid, Code: "promotion", Message: message, Cure: cure}
}

func oneOf(names []string) string { return "there are: " + strings.Join(names, ", ") }

// addonNames returns the addons that a cluster has.
func addonNames(est *lab.Estate) []string {
	var names []string
	for _, a := range est.Addons {
		if slices.ContainsFunc(est.Clusters, func(c lab.Cluster) bool { return c.Has(a.Name) }) {
			names = append(names, a.Name)
		}
	}
	return names
}

// environmentNames returns the environments with clusters, in the order of promotion.
func environmentNames(est *lab.Estate) []string {
	envs := slices.Clone(est.Environments)
	slices.SortStableFunc(envs, func(a, b lab.Environment) int { return a.Order - b.Order })
	var names []string
	for _, e := range envs {
		if e.Name != lab.DefaultEnvironment {
			names = append(names, e.Name)
		}
	}
	return names
}

// Changes reports whether any file is changed.
func (p Promotion) Changes() bool { return slices.ContainsFunc(p.Edits, Edit.changes) }

// Changed returns the new content of changed files, by path.
func (p Promotion) Changed() map[string][]byte {
	files := map[string][]byte{}
	for _, e := range p.Edits {
		if e.changes() {
			files[e.File] = e.After
		}
	}
	return files
}

// Summary returns "staging: podinfo 6.9.1 -> 6.9.2".
func (p Promotion) Summary() string {
	switch {
	case !p.Changes():
		return fmt.Sprintf("%s: %s is already at %s, like %s", p.To, p.Addon, p.Version, p.From)
	case !p.Edits[0].changes():
		return fmt.Sprintf("%s: %s is already at %s, like %s, now for %s too", p.To, p.Addon, p.Version, p.From, p.Edits[1].Engine.Title())
	}
	return fmt.Sprintf("%s: %s %s -> %s", p.To, p.Addon, p.Was, p.Version)
}

// Message returns the commit message.
func (p Promotion) Message() string {
	return fmt.Sprintf("promote %s %s from %s to %s", p.Addon, p.Version, p.From, p.To)
}

// Diff returns a unified diff, or "" without changes.
func (p Promotion) Diff() string {
	var diff string
	for _, e := range p.Edits {
		diff += Diff(e.File, e.Before, e.After)
	}
	return diff
}

// Diff returns a unified diff of a file.
func Diff(file string, before, after []byte) string {
	const around = 3
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: lines(before), B: lines(after),
		FromFile: "a/" + file, ToFile: "b/" + file, Context: around,
	})
	if err != nil { // cannot fail: it writes to memory
		return ""
	}
	return text
}

// lines splits a file; difflib.SplitLines adds a line.
func lines(data []byte) []string {
	return slices.Collect(strings.Lines(strings.TrimSuffix(string(data), "\n") + "\n"))
}

// Write changes the files on disk, or none of them if one was changed meanwhile. dir is the estate's folder.
func (p Promotion) Write(dir string) error {
	if !p.Changes() {
		return nil
	}
	root, err := os.OpenRoot(dir) // symlinks must not leave the estate
	if err != nil {
		return fmt.Errorf("promote %s: %w", p.Addon, err)
	}
	defer root.Close()
	for _, e := range p.Edits {
		now, err := regular.In(root, e.File)
		if err != nil {
			return fmt.Errorf("promote %s: %w", p.Addon, err)
		}
		if string(now) != string(e.Before) {
			return &lab.Error{Exit: lab.ExitFailed, Code: "changed", Message: e.File + " has changed meanwhile", Cure: "run it again"}
		}
	}
	if err := p.replace(root); err != nil {
		return fmt.Errorf("promote %s: %w", p.Addon, err)
	}
	return nil
}

// replace writes all temporary files first, so that a full disk changes nothing.
func (p Promotion) replace(root *os.Root) (err error) {
	defer func() {
		for _, e := range p.Edits {
			if rerr := root.Remove(e.temporary()); !errors.Is(rerr, fs.ErrNotExist) {
				err = errors.Join(err, rerr)
			}
		}
	}()
	for _, e := range p.Edits {
		if e.changes() {
			if err := e.write(root); err != nil {
				return err
			}
		}
	}
	for _, e := range p.Edits {
		if e.changes() {
			if err := root.Rename(e.temporary(), e.File); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e Edit) temporary() string { return e.File + ".lab-promote" }

func (e Edit) write(root *os.Root) error {
	info, err := root.Stat(e.File)
	if err != nil {
		return err
	}
	f, err := root.OpenFile(e.temporary(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = f.Write(e.After)
	return errors.Join(err, f.Sync(), f.Close())
}

// Verdict is what the gate says about a promotion: whether every cluster of From with the addon runs the version, in sync and healthy.
type Verdict struct {
	Open bool
	Seen string // one line
}

// Gate judges what runs.
func (p Promotion) Gate(est *lab.Estate, apps []lab.Application) Verdict {
	var runs []string
	for _, c := range est.Clusters {
		if c.Environment != p.From || !c.Has(p.Addon) {
			continue
		}
		found := false
		for _, a := range apps {
			if a.Cluster != c.Name || a.Addon != p.Addon {
				continue
			}
			if found = true; a.Version != p.Version {
				return Verdict{Seen: fmt.Sprintf("%s runs %s %s", c.Name, p.Addon, orNone(a.Version))}
			}
			if !a.Converged() {
				return Verdict{Seen: fmt.Sprintf("%s %s is %s and %s in %s", p.Addon, p.Version, a.Sync, a.Health, c.Name)}
			}
		}
		if !found {
			return Verdict{Seen: fmt.Sprintf("%s does not have %s yet", c.Name, p.Addon)}
		}
		runs = append(runs, c.Name)
	}
	if len(runs) == 0 {
		return Verdict{Seen: fmt.Sprintf("no cluster of %s has %s", p.From, p.Addon)}
	}
	return Verdict{Open: true, Seen: fmt.Sprintf("%s %s in sync and healthy in %s", p.Addon, p.Version, strings.Join(runs, ", "))}
}

// Evidence describes the state of the version in From: ", as dev runs it (healthy)". It is empty if nothing runs there.
func (p Promotion) Evidence(est *lab.Estate, apps []lab.Application) string {
	for _, c := range est.Clusters {
		if c.Environment != p.From || !c.Has(p.Addon) {
			continue
		}
		for _, a := range apps {
			switch {
			case a.Cluster != c.Name || a.Addon != p.Addon:
			case a.Version != p.Version:
				return fmt.Sprintf(", while %s still runs %s", c.Name, a.Version)
			case !a.Converged():
				return fmt.Sprintf(", while %s is %s and %s there", c.Name, a.Sync, a.Health)
			default:
				return fmt.Sprintf(", as %s runs it (healthy)", c.Name)
			}
		}
	}
	return ""
}
