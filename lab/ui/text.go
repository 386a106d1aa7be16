package ui

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"

	"homelab/lab"
)

var escapes = regexp.MustCompile(`\x1b(\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)`)

// clean makes foreign text (a pod's message, a commit's subject) one printable line. It may contain newlines, escape
// sequences and direction marks, which break or falsify the screen.
func clean(s string) string {
	if strings.Contains(s, "\x1b") {
		s = escapes.ReplaceAllString(s, "")
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case lab.Unprintable(r):
			return -1
		}
		return r
	}, s)
}

// wide are the ranges of double-width characters (East Asian Width W and F, and emoji).
var wide = []struct{ from, to rune }{
	{0x1100, 0x115f},
	{0x231a, 0x231b},
	{0x23e9, 0x23ec},
	{0x2e80, 0x303e},
	{0x3041, 0x33ff},
	{0x3400, 0x4dbf},
	{0x4e00, 0x9fff},
	{0xa000, 0xa4cf},
	{0xac00, 0xd7a3},
	{0xf900, 0xfaff},
	{0xfe30, 0xfe6f},
	{0xff00, 0xff60},
	{0xffe0, 0xffe6},
	{0x1f300, 0x1f64f},
	{0x1f680, 0x1f6ff},
	{0x1f900, 0x1f9ff},
	{0x20000, 0x3fffd},
}

func runeWidth(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	for _, w := range wide {
		if r >= w.from && r <= w.to {
			return 2
		}
	}
	return 1
}

// width returns the number of columns of s.
func width(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// truncate cuts s to n columns, the last one being … if anything is missing.
func truncate(s string, n int) string {
	if width(s) <= n {
		return s
	}
	if n <= 0 {
		return ""
	}
	used := 0
	for i, r := range s {
		if w := runeWidth(r); used+w > n-1 {
			return strings.TrimRight(s[:i], " ") + "…"
		} else {
			used += w
		}
	}
	return s
}

func spaces(n int) string { return strings.Repeat(" ", max(0, n)) }

// pad pads s to n columns.
func pad(s string, n int) string { return s + spaces(n-width(s)) }

// wrap breaks s between words into lines of n columns; 0 does not wrap. Words longer than n are not cut: they are paths
// or commands to copy.
func wrap(s string, n int) []string {
	if n <= 0 || width(s) <= n {
		return []string{s}
	}
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(s) {
		switch {
		case line == "":
			line = word
		case width(line)+1+width(word) > n:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// hang writes text after prefix, wrapped to n columns with a hanging indent.
func hang(prefix, text string, n int) string {
	room := 0
	if n > 0 {
		room = max(20, n-width(prefix))
	}
	return prefix + strings.Join(wrap(text, room), "\n"+spaces(width(prefix)))
}

// hangLast wraps the last of a line's columns, which are separated by at least two spaces, with a hanging indent.
func hangLast(s string, n int) string {
	at := strings.LastIndex(s, "  ") + 2
	if at < 2 || width(s[:at]) > n-20 {
		at = len(s) - len(strings.TrimLeft(s, " "))
	}
	return hang(s[:at], s[at:], n)
}

// Duration formats a duration; it is lab.Duration.
func Duration(d time.Duration) string { return lab.Duration(d) }

// Size formats a file size in decimal units: 12 kB, 412 MB, 1.2 GB.
func Size(bytes int64) string {
	switch {
	case bytes < 1e3:
		return fmt.Sprintf("%d B", bytes)
	case bytes < 999_500:
		return fmt.Sprintf("%.0f kB", float64(bytes)/1e3)
	case bytes < 9_950_000:
		return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
	case bytes < 999_500_000:
		return fmt.Sprintf("%.0f MB", float64(bytes)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(bytes)/1e9)
}

// Memory formats an amount of memory or disk in binary units: 0.5 GiB, 21 GiB.
func Memory(bytes int64) string {
	g := float64(bytes) / (1 << 30)
	if g < 9.95 {
		return fmt.Sprintf("%.1f GiB", g)
	}
	return fmt.Sprintf("%.0f GiB", g)
}
