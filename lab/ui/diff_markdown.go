package ui

import (
	"fmt"
	"strings"
)

// maxMarkdown is the longest comment of GitHub; GitLab takes longer ones.
const maxMarkdown = 65536

// DiffMarkdown returns the comparison as Markdown for a comment. Everything that comes from the files is in code, in which Markdown, HTML and mentions have no meaning. It has
// at most 65,536 bytes: what does not fit is left out, and said first.
func DiffMarkdown(r DiffResult, seeAll string) string {
	head := "### lab diff\n\n" + codeSpan(r.Before) + " to " + codeSpan(r.After) + ": " + r.Summary() + ".\n"
	for _, p := range r.Pairs {
		if p.Before != "" && p.After != "" {
			head += fmt.Sprintf("- %s: %s (of %d) and %s (of %d)\n", codeSpan(p.Addon), codeSpan(p.Before), p.BeforeClusters, codeSpan(p.After), p.AfterClusters)
		}
	}
	const room = 1000 // for what is left out
	head = clip(head, maxMarkdown/2)
	var body strings.Builder
	left, cut := 0, false
	for _, s := range r.sections(false) {
		text := s.markdown()
		if len(head)+body.Len()+len(text) > maxMarkdown-room {
			left++
			continue
		}
		body.WriteString(text)
		cut = cut || strings.Contains(text, "…")
	}
	switch {
	case left > 0:
		head += fmt.Sprintf("\n**Cut: %s left out, as a comment has at most 65,536 characters.** All of it: %s\n", sectionsAre(left), codeSpan(seeAll))
	case cut:
		head += fmt.Sprintf("\n**Cut: long values and objects are shortened (…).** All of it: %s\n", codeSpan(seeAll))
	}
	return head + body.String()
}

func sectionsAre(n int) string {
	if n == 1 {
		return "1 section is"
	}
	return fmt.Sprintf("%d sections are", n)
}

// clip cuts a text of whole lines.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:strings.LastIndexByte(text[:most], '\n')+1]
}

func (s diffSection) markdown() string {
	var b strings.Builder
	for _, line := range s.lines {
		sign := line.sign
		if sign == "~" || sign == ">" {
			sign = "!" // orange in diff highlighting
		}
		b.WriteString(sign + " " + line.text + "\n")
	}
	if s.more != "" {
		b.WriteString("  " + s.more + "\n")
	}
	fence := strings.Repeat("`", max(3, longestRun(b.String())+1))
	return "\n#### " + codeSpan(s.title) + "\n\n" + fence + "diff\n" + b.String() + fence + "\n"
}

// codeSpan returns a text as code within a line.
func codeSpan(text string) string {
	text = clean(text)
	if text == "" {
		return "` `"
	}
	ticks := strings.Repeat("`", longestRun(text)+1)
	return ticks + " " + text + " " + ticks
}

// longestRun returns the length of the longest run of backticks.
func longestRun(text string) (longest int) {
	n := 0
	for _, r := range text {
		if n++; r != '`' {
			n = 0
		}
		longest = max(longest, n)
	}
	return longest
}
