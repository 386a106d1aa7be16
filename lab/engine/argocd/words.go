package argocd

import (
	"regexp"
	"strings"
)

// width is the maximum length of a detail line: 80 columns less the narration's indent of two.
const width = 78

// wrapAt breaks a line at spaces into lines of at most at columns, and returns at least one. A single longer word is not broken.
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

// wrapping matches what Argo CD adds to a sync error: the kind of step and the next retry.
var wrapping = regexp.MustCompile(`(?:Failed last sync attempt to \S+: )?one or more [a-z ]+, reason: |\.? Retrying attempt #\d+ at \S+$`)

// cause returns a message of Argo CD without its wrapping, limited to messageLimit.
func cause(message string) string { return clip(wrapping.ReplaceAllString(message, ""), messageLimit) }

// elided marks a cut by clip.
const elided = " … "

// clip shortens a message to one line of at most n runes, cutting the middle: an error names the operation first, and the cause last.
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
