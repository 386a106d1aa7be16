package doctor

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"homelab/lab"
)

// Fix applies the safe fixes of a report and announces each to progress. It stops at the first error and skips fixes
// already applied. A new report shows the result.
func (d *Doctor) Fix(ctx context.Context, r Report, progress func(string)) error {
	if !r.Fixable() {
		return nil
	}
	if d.o.Host.OS != "linux" || !*d.o.Host.Root {
		return &lab.Error{
			Exit: lab.ExitFailed, Code: "needs_root",
			Message: "only root on Linux can change the host", Cure: "run it with sudo, or apply the cures of lab doctor manually",
		}
	}
	if c := r.Check(CheckDocker); c.Status == StatusFail && c.Fixable {
		if err := d.fixEngine(ctx, progress); err != nil {
			return fixError("start a docker engine", err)
		}
		r = d.Run(ctx) // the engine was missing for some checks
	}
	if wanted(r, CheckPrivileged) {
		if err := d.fixRuntime(ctx, progress); err != nil {
			return fixError("register the trimmed runtime", err)
		}
	}
	if wanted(r, CheckInotify) {
		if err := d.fixInotify(progress); err != nil {
			return fixError("set the inotify limits", err)
		}
	}
	if wanted(r, CheckBuild) {
		if err := d.fixBuild(ctx, progress); err != nil {
			return fixError("install the build tools", err)
		}
	}
	return nil
}

func wanted(r Report, id string) bool {
	c := r.Check(id)
	return c.Fixable && (c.Status == StatusFail || c.Status == StatusWarn)
}

func fixError(what string, err error) error {
	var labErr *lab.Error
	if errors.As(err, &labErr) {
		return err
	}
	return &lab.Error{Exit: lab.ExitFailed, Code: "not_cured", Message: "could not " + what, Err: err}
}

// fixBuild installs the packages of unmet needs.
func (d *Doctor) fixBuild(ctx context.Context, progress func(string)) error {
	var packages []string
	for _, n := range d.o.Needs {
		if n.Package != "" && d.unmet(ctx, n) != "" {
			packages = append(packages, n.Package)
		}
	}
	return d.install(ctx, progress, packages)
}

// install installs Debian packages and records those that were missing. Package lists are fetched if missing, and again if stale.
func (d *Doctor) install(ctx context.Context, progress func(string), packages []string) error {
	if len(packages) == 0 {
		return nil
	}
	slices.Sort(packages)
	packages = slices.Compact(packages)
	fresh, err := d.lists(ctx, progress)
	if err != nil {
		return err
	}
	installing := append([]string{"install", "--yes", "--no-install-recommends"}, packages...)
	progress("installing " + strings.Join(packages, ", ") + " with apt-get")
	if err := d.o.Host.note(change{Kind: changedPackages, What: strings.Join(packages, " ")}); err != nil {
		return err
	}
	err = d.aptGet(ctx, installing...)
	if err == nil || fresh || ctx.Err() != nil {
		return err
	}
	progress("the package lists may be stale: apt-get update, then retrying")
	if updateErr := d.aptGet(ctx, "update"); updateErr != nil {
		return errors.Join(err, updateErr)
	}
	return d.aptGet(ctx, installing...)
}

// lists fetches Debian's package lists if there are none, as on a fresh machine. Without them, apt knows no package.
func (d *Doctor) lists(ctx context.Context, progress func(string)) (fetched bool, err error) {
	if lists, _ := filepath.Glob(filepath.Join(d.o.Host.AptLists, "*_Packages*")); len(lists) > 0 {
		return false, nil
	}
	progress("fetching Debian's package lists: apt-get update")
	return true, d.aptGet(ctx, "update")
}

func (d *Doctor) aptGet(ctx context.Context, args ...string) error {
	// A fresh machine may be running apt at boot.
	args = append([]string{"-o", "DPkg::Lock::Timeout=300"}, args...)
	_, err := d.o.Host.Run(ctx, []string{"DEBIAN_FRONTEND=noninteractive"}, "apt-get", args...)
	return err
}
