// Package promote promotes an addon's version from one environment to a later one by changing its pin in the estate's
// files.
package promote

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"

	"homelab/lab"
	"homelab/lab/yamledit"
)

// Promotion is a planned change.
type Promotion struct {
	Addon, From, To string
	Was, Version    string // pinned version of To before and after
	File            string // path within the estate
	Before, After   []byte
}

// Plan computes a promotion without writing it. Its errors are *lab.Error.
func Plan(est *lab.Estate, addon, from, to string) (Promotion, error) {
	a, ok := est.Addon(addon)
	if !ok {
		return Promotion{}, refuse("the estate has no addon "+addon, oneOf(addonNames(est)))
	}
	if err := checkOrder(est, from, to); err != nil {
		return Promotion{}, err
	}
	version, at := a.Version(from)
	if version == "" {
		return Promotion{}, refuse(fmt.Sprintf("%s pins no version in %s", addon, a.File), "an addon whose chart is in the estate is the same in every environment")
	}
	pin, own := a.Positions["version."+to]
	if !own {
		return Promotion{}, refuse(fmt.Sprintf("%s has no version of its own in environment %s", addon, to),
			fmt.Sprintf("give it one in the generators of %s, as environment %s has at line %d", a.File, from, at.Line))
	}
	if pin.Column == 0 {
		return Promotion{}, refuse(fmt.Sprintf("the version of %s in %s comes out of a template, at %s", addon, to, pin), "change it by hand, where the template takes it from")
	}
	for _, env := range slices.Sorted(maps.Keys(a.Versions)) {
		if env != to && a.Positions[key(env)] == pin {
			return Promotion{}, refuse(fmt.Sprintf("%s and %s share one version of %s, at %s", to, env, addon, pin), "give "+to+" a version of its own there")
		}
	}
	p := Promotion{Addon: addon, From: from, To: to, Was: a.Versions[to], Version: version, File: pin.File}
	var err error
	if p.Before, err = fs.ReadFile(est.FS, p.File); err != nil {
		return Promotion{}, fmt.Errorf("promote %s: %w", addon, err)
	}
	if p.After, err = yamledit.ReplaceScalar(p.Before, pin.Line, pin.Column, version); err != nil {
		return Promotion{}, &lab.Error{
			Exit: lab.ExitFailed, Code: "edit", Message: fmt.Sprintf("the version at %s cannot be changed in place", pin),
			Cure: "write it on one line, without an anchor", Err: err,
		}
	}
	return p, nil
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
			return refuse(fmt.Sprintf("%q is no environment to promote between", name), oneOf(environmentNames(est)))
		}
		orders[name] = env.Order
	}
	if from == to {
		return refuse("from "+from+" to "+to+" is no promotion", oneOf(environmentNames(est)))
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

func addonNames(est *lab.Estate) []string {
	var names []string
	for _, a := range est.Addons {
		names = append(names, a.Name)
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

// Changes reports whether the version differs.
func (p Promotion) Changes() bool { return string(p.Before) != string(p.After) }

// Summary returns "staging: podinfo 6.9.1 -> 6.9.2".
func (p Promotion) Summary() string {
	if !p.Changes() {
		return fmt.Sprintf("%s: %s is at %s already, as %s", p.To, p.Addon, p.Version, p.From)
	}
	return fmt.Sprintf("%s: %s %s -> %s", p.To, p.Addon, p.Was, p.Version)
}

// Message returns the commit message.
func (p Promotion) Message() string {
	return fmt.Sprintf("promote %s %s from %s to %s", p.Addon, p.Version, p.From, p.To)
}

// Diff returns a unified diff, or "" without changes.
func (p Promotion) Diff() string { return Diff(p.File, p.Before, p.After) }

// Diff returns a unified diff of a file.
func Diff(file string, before, after []byte) string {
	const around = 3
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: difflib.SplitLines(string(before)), B: difflib.SplitLines(string(after)),
		FromFile: "a/" + file, ToFile: "b/" + file, Context: around,
	})
	if err != nil { // cannot fail: it writes to memory
		return ""
	}
	return text
}

// Write changes the file on disk. dir is the estate's folder.
func (p Promotion) Write(dir string) error {
	if !p.Changes() {
		return nil
	}
	root, err := os.OpenRoot(dir) // symlinks must not leave the estate
	if err != nil {
		return fmt.Errorf("promote %s: %w", p.Addon, err)
	}
	defer root.Close()
	now, err := root.ReadFile(p.File)
	if err != nil {
		return fmt.Errorf("promote %s: %w", p.Addon, err)
	}
	if string(now) != string(p.Before) {
		return &lab.Error{Exit: lab.ExitFailed, Code: "changed", Message: p.File + " was changed meanwhile", Cure: "run it again"}
	}
	info, err := root.Stat(p.File)
	if err != nil {
		return fmt.Errorf("promote %s: %w", p.Addon, err)
	}
	temporary := p.File + ".lab-promote"
	if err := root.WriteFile(temporary, p.After, info.Mode().Perm()); err != nil {
		return fmt.Errorf("promote %s: %w", p.Addon, err)
	}
	if err := root.Rename(temporary, p.File); err != nil {
		return fmt.Errorf("promote %s: %w", p.Addon, err)
	}
	return nil
}

// Standing describes how the version does in From: ", as dev runs it (healthy)"; empty if nothing runs there.
func (p Promotion) Standing(est *lab.Estate, apps []lab.Application) string {
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
