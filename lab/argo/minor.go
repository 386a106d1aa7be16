package argo

import (
	"fmt"
	"strings"
)

// Minor is a minor version of Argo CD 3, 4 for 3.4. Zero is Default. What lab models is a minor's last patch: fixes that upstream carries back to a minor are
// taken as its own.
type Minor int

// The minors whose behaviour lab models.
const (
	Oldest  Minor = 2
	Newest  Minor = 6
	Default       = Newest // that of lab's own recipe
)

// ParseMinor returns the minor of a version, "3.4" or "v3.4.13", or the nearest that lab models and false.
func ParseMinor(version string) (Minor, bool) {
	var major, minor int
	n, _ := fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d.%d", &major, &minor)
	switch m := Minor(minor); {
	case n != 2 || major > 3 || major == 3 && m > Newest:
		return Newest, false
	case major < 3 || m < Oldest:
		return Oldest, false
	default:
		return m, true
	}
}

// Minors returns those that lab models, the oldest first.
func Minors() []Minor {
	var list []Minor
	for m := Oldest; m <= Newest; m++ {
		list = append(list, m)
	}
	return list
}

// Has reports whether what came with a minor is in m.
func (m Minor) Has(since Minor) bool { return m.known() >= since }

func (m Minor) known() Minor {
	if m == 0 {
		return Default
	}
	return m
}

// String returns "3.4".
func (m Minor) String() string {
	return fmt.Sprintf("3.%d", int(m.known()))
}
