package doctor

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// Go programs, which a cluster's own are, ask for no huge pages. Where a hypervisor translates addresses once more, small ones cost them dearly: with "always",
// go build took 108 and 123 s of processor time instead of 178 and 179, and lab up of two clusters 207 s instead of 239, on two virtual cores.

// always is the mode in which the kernel gives huge pages to every program.
const always = "always"

// hugePages is the kernel's file of the mode.
func (h Host) hugePages() string {
	return filepath.Join(h.Sys, "kernel", "mm", "transparent_hugepage", "enabled")
}

// selected matches the mode in hugePages: "always [madvise] never".
var selected = regexp.MustCompile(`\[(\w+)\]`)

// hugePagesMode returns the mode, or "" on a machine where it hardly matters: one that is not virtual, or a kernel without huge pages.
func (h Host) hugePagesMode() string {
	cpus, _ := os.ReadFile(filepath.Join(h.Proc, "cpuinfo"))
	modes, _ := os.ReadFile(h.hugePages())
	m := selected.FindSubmatch(modes)
	if m == nil || !bytes.Contains(cpus, []byte(" hypervisor ")) {
		return ""
	}
	return string(m[1])
}

// hugepages reports the mode; false where it hardly matters.
func (d *Doctor) hugepages(s seen) (Check, bool) {
	c := Check{ID: CheckHugePages, Title: "huge pages"}
	if !s.local {
		return c, false
	}
	switch mode := d.o.Host.hugePagesMode(); mode {
	case "":
		return c, false
	case always:
		return c.ok("always"), true
	default:
		return c.warn(mode+": with always, labs in virtual machines are faster", "echo always >"+d.o.Host.hugePages(), true), true
	}
}

// fixHugePages selects the mode, now and for the next boot. Where that is not allowed, as in a container, a lab is only slower.
func (d *Doctor) fixHugePages(say func(string)) error {
	path := d.o.Host.hugePages()
	say("giving huge pages to every program: always in " + path)
	if err := os.WriteFile(path, []byte(always), 0o644); err != nil {
		say("which is not possible here: " + err.Error())
		return nil
	}
	if info, err := os.Stat(d.o.Host.Tmpfiles); err != nil || !info.IsDir() {
		return nil // no systemd-tmpfiles at boot
	}
	conf := filepath.Join(d.o.Host.Tmpfiles, "lab.conf")
	say("keeping it over a reboot in " + conf)
	text := fmt.Sprintf("# Written by lab doctor --fix: clusters in virtual machines are faster with huge pages.\nw %s - - - - %s\n", path, always)
	return writeAtomic(conf, []byte(text), 0o644)
}
