package lab

import (
	"regexp"
	"strings"
	"unicode"
)

// plainWord matches what a shell takes as it is.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// Quote returns words as a POSIX shell reads them back. Every path and name in a command that is printed passes through it.
func Quote(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		if quoted[i] = word; !plainWord.MatchString(word) {
			quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// Unprintable reports control characters and marks of direction, which falsify what a reader sees.
func Unprintable(r rune) bool {
	return unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// Clip cuts a text after at most most bytes, and marks the cut by an ellipsis.
func Clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// Brief cuts a wrong value for a message.
func Brief(value string) string { return Clip(value, 80) }
