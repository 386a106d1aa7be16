package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
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

// fixInotify raises limits that are too low, now and for the next boot.
func (d *Doctor) fixInotify(progress func(string)) error {
	var lines []string
	for _, limit := range []struct {
		name string
		want int
	}{{"fs.inotify.max_user_watches", inotifyWatches}, {"fs.inotify.max_user_instances", inotifyInstances}} {
		lines = append(lines, fmt.Sprintf("%s = %d", limit.name, limit.want))
		if got, ok := d.o.Host.number(limit.name); !ok || got >= limit.want {
			continue
		}
		progress(fmt.Sprintf("setting %s to %d", limit.name, limit.want))
		path := filepath.Join(d.o.Host.Proc, "sys", strings.ReplaceAll(limit.name, ".", "/"))
		if err := os.WriteFile(path, fmt.Appendln(nil, limit.want), 0o644); err != nil {
			return err
		}
	}
	if info, err := os.Stat(d.o.Host.Sysctl); err != nil || !info.IsDir() {
		return nil // no sysctl settings at boot
	}
	path := filepath.Join(d.o.Host.Sysctl, "60-lab.conf")
	progress("making them permanent in " + path)
	text := "# Written by lab doctor --fix: kind's nodes watch many files.\n" + strings.Join(lines, "\n") + "\n"
	return writeAtomic(path, []byte(text), 0o644)
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

// install installs Debian packages. Package lists are fetched if missing, and again if stale.
func (d *Doctor) install(ctx context.Context, progress func(string), packages []string) error {
	if len(packages) == 0 {
		return nil
	}
	slices.Sort(packages)
	packages = slices.Compact(packages)
	apt := func(args ...string) error {
		// A fresh machine may be running apt at boot.
		args = append([]string{"-o", "DPkg::Lock::Timeout=300"}, args...)
		_, err := d.o.Host.Run(ctx, []string{"DEBIAN_FRONTEND=noninteractive"}, "apt-get", args...)
		return err
	}
	lists, _ := filepath.Glob(filepath.Join(d.o.Host.AptLists, "*_Packages*"))
	fresh := len(lists) == 0
	if fresh {
		progress("fetching Debian's package lists: apt-get update")
		if err := apt("update"); err != nil {
			return err
		}
	}
	installing := append([]string{"install", "--yes", "--no-install-recommends"}, packages...)
	progress("installing " + strings.Join(packages, ", ") + " with apt-get")
	err := apt(installing...)
	if err == nil || fresh || ctx.Err() != nil {
		return err
	}
	progress("the package lists may be stale: apt-get update, then retrying")
	if updateErr := apt("update"); updateErr != nil {
		return errors.Join(err, updateErr)
	}
	return apt(installing...)
}

// writeAtomic replaces a file atomically. Mode and symlinks are preserved.
func writeAtomic(path string, data []byte, mode os.FileMode) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
		if info, err := os.Stat(path); err == nil {
			mode = info.Mode().Perm()
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
