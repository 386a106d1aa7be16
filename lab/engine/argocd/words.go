package argocd

import "strings"

// width is the longest line of a detail: the terminal's 80 columns less the two that the narration indents by.
const width = 78

// wrapAt breaks a line at spaces so that none is longer than at, and returns at least one line. A single word may still be longer.
func wrapAt(s string, at int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		switch {
		case line == "":
			line = word
		case len([]rune(line))+1+len([]rune(word)) > at:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// clip shortens a long message of another program to one line of at most n runes.
func clip(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
