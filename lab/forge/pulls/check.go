package pulls

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"homelab/lab"
)

// Limits of what is sent: titles and names are columns of 255 characters, and comments as long as GitHub's.
const (
	TitleLimit  = 255
	TextLimit   = 65_000
	branchLimit = 200
)

func invalid(message, cure string) error {
	return &lab.Error{Exit: lab.ExitInvalid, Code: "invalid_request", Message: message, Cure: cure}
}

// Check returns all that is wrong with a proposal.
func (p Proposal) Check() error {
	err := errors.Join(CheckTitle(p.Title), CheckBranch(p.Head), CheckBranch(p.Base))
	if p.Body != "" {
		err = errors.Join(err, checkText("the body", p.Body))
	}
	if p.Head == p.Base && p.Head != "" {
		err = errors.Join(err, invalid("a pull request from "+p.Head+" into itself", "name another branch"))
	}
	return err
}

// CheckTitle returns what is wrong with the title of a pull request.
func CheckTitle(title string) error {
	switch {
	case strings.TrimSpace(title) == "":
		return invalid("a pull request needs a title", "give it one: --title TITLE")
	case utf8.RuneCountInString(title) > TitleLimit:
		return invalid(fmt.Sprintf("the title has %d characters", utf8.RuneCountInString(title)), fmt.Sprintf("%d at most; the rest belongs in the body", TitleLimit))
	case !utf8.ValidString(title) || strings.ContainsFunc(title, lab.Unprintable):
		return invalid("the title has control characters", "one line of text")
	}
	return nil
}

// checkText returns what is wrong with a body or a comment.
func checkText(what, text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return invalid(what+" is empty", "write one")
	case len(text) > TextLimit:
		return invalid(fmt.Sprintf("%s has %d bytes", what, len(text)), fmt.Sprintf("%d at most", TextLimit))
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && r != '\r' && lab.Unprintable(r) }):
		return invalid(what+" has control characters", "text and Markdown")
	}
	return nil
}

// CheckBranch returns what is wrong with the name of a branch. It is stricter than Git: no program may take it for an option, a path elsewhere or a pattern.
func CheckBranch(name string) error {
	bad := name == "" || len(name) > branchLimit || name == "HEAD" || strings.HasPrefix(name, "refs/") || strings.Contains(name, "..")
	for part := range strings.SplitSeq(name, "/") {
		bad = bad || part == "" || strings.HasPrefix(part, "-") || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".") || strings.HasSuffix(part, ".lock")
	}
	bad = bad || strings.ContainsFunc(name, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./+#=,", r)
	})
	if bad {
		return invalid(fmt.Sprintf("%q is not a valid branch name", lab.Brief(name)), "letters, digits, -, _, . and /; no part begins with - or .")
	}
	return nil
}

// check returns all that is wrong with a status.
func (s Status) check() error {
	var err error
	if s.Context == "" || utf8.RuneCountInString(s.Context) > TitleLimit || strings.ContainsFunc(s.Context, lab.Unprintable) {
		err = invalid(fmt.Sprintf("%q is not a valid name of a check", lab.Brief(s.Context)), fmt.Sprintf("one line of at most %d characters, like lab/diff", TitleLimit))
	}
	if !slices.Contains(Verdicts(), s.State) {
		err = errors.Join(err, invalid(fmt.Sprintf("%q is not a state of a check", lab.Brief(string(s.State))), "pending, success, failure, error or warning"))
	}
	if utf8.RuneCountInString(s.Description) > TitleLimit || strings.ContainsFunc(s.Description, lab.Unprintable) {
		err = errors.Join(err, invalid("the description is too long, or has control characters", fmt.Sprintf("one line of at most %d characters", TitleLimit)))
	}
	if u, perr := url.Parse(s.URL); s.URL != "" && (perr != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		err = errors.Join(err, invalid(fmt.Sprintf("%q is not an address", lab.Brief(s.URL)), "http or https"))
	}
	return err
}

// Clean returns a text without what Open and Comment refuse, cut to what they take: at the beginning of a section of Markdown, if there is one.
func Clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && lab.Unprintable(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	const note = "\n\n**Cut: the rest is too long.**\n"
	if len(text) <= TextLimit {
		return text
	}
	text = strings.ToValidUTF8(text[:TextLimit-len(note)], "")
	if cut := strings.LastIndex(text, "\n#### "); cut > 0 {
		text = text[:cut]
	}
	return text + note
}

// oneLine returns a server's message as a line.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if lab.Unprintable(r) {
			return ' '
		}
		return r
	}, s)
	return strings.TrimSpace(lab.Clip(s, 300))
}
