package doctor

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// sysctlFile is lab's own file among the kernel's settings at boot.
const sysctlFile = "60-lab.conf"

// limit is an inotify limit of the kernel.
type limit struct {
	setting, unit    string
	want             int
	live             int
	configured, ours int // at boot, by others' files and by lab's; 0 if none
}

// limits reads the limits; false if the kernel does not report them.
func (h Host) limits() ([]limit, bool) {
	list := []limit{
		{setting: "fs.inotify.max_user_watches", unit: "watches", want: inotifyWatches},
		{setting: "fs.inotify.max_user_instances", unit: "instances", want: inotifyInstances},
	}
	own := filepath.Join(h.Sysctl, sysctlFile)
	for i := range list {
		l := &list[i]
		live, ok := h.number(l.setting)
		if !ok {
			return nil, false
		}
		l.live, l.ours = live, settingIn(own, l.setting)
		for _, place := range append([]string{h.Sysctl}, h.Sysctls...) {
			files, _ := filepath.Glob(filepath.Join(place, "*.conf"))
			for _, file := range append(files, place) {
				if file != own {
					l.configured = max(l.configured, settingIn(file, l.setting))
				}
			}
		}
	}
	return list, true
}

// settingIn returns the highest value that a file of sysctl.d(5) gives to a setting, or 0.
func settingIn(file, setting string) int {
	data, _ := os.ReadFile(file) // a folder, or missing
	highest := 0
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, "=")
		name = strings.ReplaceAll(strings.TrimPrefix(strings.TrimSpace(name), "-"), "/", ".")
		if n, err := strconv.Atoi(strings.TrimSpace(value)); err == nil && name == setting {
			highest = max(highest, n)
		}
	}
	return highest
}

// low reports whether the limit must be raised now.
func (l limit) low() bool { return l.live < l.want }

// lowered reports whether lab's own file would lower the limit at the next boot, as those of versions up to 0.1 may.
func (l limit) lowered() bool { return l.ours > 0 && l.ours < max(l.live, l.configured) }

// target is the value to set: never below the current value or that of the next boot.
func (l limit) target() int { return max(l.live, l.want, l.configured, l.ours) }

func (d *Doctor) inotify(_ context.Context, s seen) Check {
	c := Check{ID: CheckInotify, Title: "inotify"}
	if c, ok := c.skipRemote(s); ok {
		return c
	}
	limits, ok := d.o.Host.limits()
	if !ok {
		return c.skip("the kernel does not report its limits")
	}
	var is, low, want, lowered []string
	for _, l := range limits {
		is = append(is, fmt.Sprintf("%d %s", l.live, l.unit))
		if l.low() {
			low = append(low, fmt.Sprintf("%d %s", l.live, l.unit))
			want = append(want, strconv.Itoa(l.want))
		}
		if l.lowered() {
			lowered = append(lowered, fmt.Sprintf("%d %s", l.ours, l.unit))
		}
	}
	switch {
	case len(low) == 1:
		i := 0
		if !limits[0].low() {
			i = 1
		}
		return c.warn(fmt.Sprintf("%s, kind wants %s: pods may run out of watches", low[0], want[0]), fmt.Sprintf("sysctl %s=%d", limits[i].setting, limits[i].target()), true)
	case len(low) > 1:
		return c.warn(fmt.Sprintf("%s, kind wants %s", strings.Join(low, ", "), strings.Join(want, " and ")), "lab doctor --fix sets both", true)
	case len(lowered) > 0:
		return c.warn(fmt.Sprintf("%s lowers it to %s at boot", sysctlFile, strings.Join(lowered, ", ")), "lab doctor --fix raises it there", true)
	}
	return c.ok(strings.Join(is, ", "))
}

// fixInotify raises limits that are too low, now and for the next boot. A limit that is high enough is left to others.
func (d *Doctor) fixInotify(progress func(string)) error {
	h := d.o.Host
	limits, _ := h.limits()
	var lines []string
	for _, l := range limits {
		if l.low() || l.ours > 0 {
			lines = append(lines, fmt.Sprintf("%s = %d", l.setting, l.target()))
		}
		if !l.low() {
			continue
		}
		progress(fmt.Sprintf("setting %s to %d", l.setting, l.target()))
		before := strconv.Itoa(l.live)
		if err := h.note(change{Kind: changedSetting, What: l.setting, Before: &before, After: strconv.Itoa(l.target())}); err != nil {
			return err
		}
		if err := os.WriteFile(h.setting(l.setting), fmt.Appendln(nil, l.target()), 0o644); err != nil {
			return err
		}
	}
	if info, err := os.Stat(h.Sysctl); err != nil || !info.IsDir() || len(lines) == 0 {
		return nil // no sysctl settings at boot
	}
	path := filepath.Join(h.Sysctl, sysctlFile)
	progress("making it permanent in " + path)
	text := "# Written by lab doctor --fix: kind's nodes watch many files. lab doctor --undo removes this file.\n" + strings.Join(lines, "\n") + "\n"
	return h.replace(changedFile, path, []byte(text), 0o644)
}

// setting returns the file of a kernel setting.
func (h Host) setting(name string) string {
	return filepath.Join(h.Proc, "sys", filepath.FromSlash(strings.ReplaceAll(name, ".", "/")))
}

// number reads a kernel setting; false if missing.
func (h Host) number(setting string) (int, bool) {
	data, err := os.ReadFile(h.setting(setting))
	n, parseErr := strconv.Atoi(strings.TrimSpace(string(data)))
	return n, cmp.Or(err, parseErr) == nil
}
