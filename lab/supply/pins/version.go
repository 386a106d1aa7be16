package main

import (
	"regexp"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

var versionForm = regexp.MustCompile(`^v?[0-9]+\.[0-9]+(\.[0-9]+)?([-+][0-9A-Za-z.+-]+)?$`)

// bare is a version without the v that modules and some tags have.
func bare(version string) string { return strings.TrimPrefix(version, "v") }

// same reports whether two texts are the same version.
func same(a, b string) bool { return bare(a) == bare(b) }

// variant returns what a version has besides its numbers, "-alpine", and how many these are: others are not newer. Go's pseudo-versions have none.
func variant(version string) (suffix string, numbers int) {
	core, _, _ := strings.Cut(version, "-")
	if !isPseudo(version) {
		suffix = version[len(core):]
	}
	return suffix, 1 + strings.Count(core, ".")
}

func isPseudo(version string) bool { return module.IsPseudoVersion(version) }

// newest returns the newest of the served versions of a pinned one's form, and the newest of its minor; empty if there is none.
func newest(pinned string, served []string) (all, minor string) {
	suffix, numbers := variant(pinned)
	newer := func(a, b string) bool { return b == "" || semver.Compare("v"+bare(a), "v"+bare(b)) > 0 }
	for _, v := range served {
		s, n := variant(v)
		if !versionForm.MatchString(v) || s != suffix || n != numbers || isPseudo(v) && !isPseudo(pinned) {
			continue
		}
		if newer(v, all) {
			all = v
		}
		if semver.MajorMinor("v"+bare(v)) == semver.MajorMinor("v"+bare(pinned)) && newer(v, minor) {
			minor = v
		}
	}
	return all, minor
}

// like writes a version in the form of the one that it replaces.
func like(old, version string) string {
	version = bare(version)
	if suffix, _ := variant(old); !strings.Contains(version, "-") && !isPseudo("v"+version) {
		version += suffix
	}
	if strings.HasPrefix(old, "v") {
		version = "v" + version
	}
	return version
}
