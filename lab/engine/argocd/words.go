package argocd

import "strings"

// width is the longest line of a detail: the terminal's 80 columns less the two that the narration indents by.
const width = 78

// wrapLine breaks a line at spaces so that none is wider than a terminal; lines after the first begin with indent. A single word may still be wider.
func wrapLine(s, indent string) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		switch {
		case line == "":
			line = word
		case len([]rune(line))+1+len([]rune(word)) > width:
			lines = append(lines, line)
			line = indent + word
		default:
			line += " " + word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// clip shortens a long message of another program to one line of at most n runes.
func clip(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
