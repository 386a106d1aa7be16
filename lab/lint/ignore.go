package lint

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/finding"
)

// comment matches one that ignores findings of a rule, in the same line or in the next.
var comment = regexp.MustCompile(`(?:^|\s)#\s*lab:ignore(?:\s+(\S+))?(?:\s+(\S.*))?$`)

// ignored is a comment that ignores findings.
type ignored struct {
	lab.Position
	rule string
	used bool
}

// comments returns the valid comments of a file, and what is wrong with others.
func comments(file, text string) (valid []*ignored, wrong []finding.Finding) {
	for i, line := range strings.Split(text, "\n") {
		m := comment.FindStringSubmatch(strings.TrimRight(line, " \t\r"))
		if m == nil {
			continue
		}
		at := lab.Position{File: file, Line: i + 1}
		_, known := finding.ByCode(m[1])
		switch {
		case m[1] == "":
			wrong = append(wrong, finding.Finding{Rule: finding.InvalidIgnore, Position: at, Message: "names no rule, and no reason"})
		case !known:
			wrong = append(wrong, finding.Finding{Rule: finding.InvalidIgnore, Position: at, Message: fmt.Sprintf("unknown rule %q", m[1])})
		case m[2] == "":
			wrong = append(wrong, finding.Finding{Rule: finding.InvalidIgnore, Position: at, Message: "gives no reason to ignore " + m[1]})
		default:
			valid = append(valid, &ignored{Position: at, rule: m[1]})
		}
	}
	return valid, wrong
}

// ignore removes what comments ignore, and adds what is wrong with these.
func (l *linter) ignore(found []finding.Finding) Result {
	var all []*ignored
	l.findings = nil
	l.walk(func(file, text string) {
		if ext := path.Ext(file); ext != ".yaml" && ext != ".yml" || !strings.Contains(text, "lab:ignore") {
			return
		}
		valid, wrong := comments(file, text)
		all = append(all, valid...)
		for _, f := range wrong {
			l.add(f)
		}
	})
	var res Result
	for _, f := range found {
		i := slices.IndexFunc(all, func(c *ignored) bool {
			return c.rule == f.Rule && c.File == f.File && (f.Line == c.Line || f.Line == c.Line+1)
		})
		if i < 0 {
			res.Findings = append(res.Findings, f)
			continue
		}
		all[i].used = true
	}
	res.Ignored = len(slices.DeleteFunc(slices.Clone(all), func(c *ignored) bool { return !c.used }))
	unknown := !l.whole || slices.ContainsFunc(l.apps, func(a application) bool { return !a.complete })
	for _, c := range all {
		if !c.used && !unknown {
			l.add(finding.Finding{Rule: finding.UnusedIgnore, Position: c.Position, Message: "no finding of " + c.rule + " on this line or the next"})
		}
	}
	res.Findings = append(res.Findings, l.findings...)
	return res
}
