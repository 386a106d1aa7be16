package argocd

import (
	"regexp"
	"strings"
)

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

// wrapping is what Argo CD puts around what a sync failed by: which kind of step it was, and when it is tried again.
var wrapping = regexp.MustCompile(`(?:Failed last sync attempt to \S+: )?one or more [a-z ]+, reason: |\.? Retrying attempt #\d+ at \S+$`)

// cause is a message of Argo CD without its wrapping, at most messageLimit long.
func cause(message string) string { return clip(wrapping.ReplaceAllString(message, ""), messageLimit) }

// elided stands for what clip took out.
const elided = " … "

// clip shortens a long message of another program to one line of at most n runes. It takes from the middle: an error says first what failed, and last why.
func clip(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	keep := max(n-len([]rune(elided)), 2)
	head, tail := string(r[:keep/2]), string(r[len(r)-(keep-keep/2):])
	if i := strings.LastIndexByte(head, ' '); i > 0 {
		head = head[:i]
	}
	if i := strings.IndexByte(tail, ' '); i >= 0 {
		tail = tail[i+1:]
	}
	return head + elided + tail
}
