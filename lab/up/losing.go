package up

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/forge"
	"homelab/lab/state"
)

// Losing is what is lost with the forge's volume: others' content that exists nowhere else.
type Losing struct {
	forge.Foreign
	Unknown string // why it is not known; the rest is empty then
}

// None reports whether it is certain that nothing is lost.
func (o Losing) None() bool { return o.Unknown == "" && o.Empty() }

// String counts what is lost: "2 commits, 1 pull request".
func (o Losing) String() string {
	if o.Unknown != "" {
		return "unknown content of the forge: " + o.Unknown
	}
	var parts []string
	for _, part := range []struct {
		n        int
		one, all string
	}{{len(o.Commits), "commit", "commits"}, {len(o.Requests), "pull request", "pull requests"}, {len(o.Items), "issue, release or wiki page", "issues, releases and wiki pages"}, {len(o.Repositories), "repository", "repositories"}} {
		switch part.n {
		case 0:
		case 1:
			parts = append(parts, "1 "+part.one)
		default:
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.all))
		}
	}
	return strings.Join(parts, ", ")
}

// Lines describes each item in a line; the files of a commit follow it.
func (o Losing) Lines() []string {
	if o.Unknown != "" {
		return []string{o.String()}
	}
	const most = 20
	var lines []string
	for i, c := range o.Commits {
		if i == most {
			lines = append(lines, fmt.Sprintf("%d more commits", len(o.Commits)-most))
			break
		}
		lines = append(lines, commitLine(c))
	}
	for _, r := range o.Requests {
		lines = append(lines, fmt.Sprintf("pull request %s#%d %s (%s)", r.Repository, r.Number, r.Title, r.Author))
	}
	for _, i := range o.Items {
		line := fmt.Sprintf("%s of %s: %s", i.Kind, i.Repository, i.Title)
		if i.Author != "" {
			line += " (" + i.Author + ")"
		}
		lines = append(lines, line)
	}
	for _, name := range o.Repositories {
		lines = append(lines, "repository "+name)
	}
	return lines
}

func commitLine(c forge.ForeignCommit) string {
	subject, _, _ := strings.Cut(c.Message, "\n")
	line := fmt.Sprintf("commit %s %s (%s), on %s of %s", lab.Abbreviate(c.Hash), subject, c.Author, c.Branch, c.Repository)
	if len(c.Files) > 0 {
		line += ": " + Summary(c.Files)
	}
	return line
}

// Consent is the user's consent to the loss of what exists only in the forge.
type Consent struct {
	Given bool                                                                     // on the command line
	Ask   func(ctx context.Context, question string, loses []string) (bool, error) // nil means no
	By    string                                                                   // command line that gives it
}

// Losing returns what would be lost with the forge. With wake, a stopped or paused forge is started for that.
func (l *Lab) Losing(ctx context.Context, wake bool) (Losing, error) {
	s, err := l.Forge.Observe(ctx)
	if err != nil {
		return Losing{}, err
	}
	return l.losing(ctx, s, wake)
}

func (l *Lab) losing(ctx context.Context, s forge.State, wake bool) (Losing, error) {
	switch {
	case !s.Exists && !s.Volume:
		return Losing{}, nil
	case !s.Exists:
		return Losing{Unknown: "its volume exists, but not its container"}, nil
	case s.Answers:
	case !wake && s.Running:
		return Losing{Unknown: "it does not answer"}, nil
	case !wake:
		return Losing{Unknown: "it does not run"}, nil
	default:
		awake, err := l.Forge.Wake(ctx)
		if err == nil && !awake {
			return Losing{}, nil
		}
		if err != nil {
			return Losing{Unknown: "it does not answer: " + err.Error()}, ctx.Err()
		}
	}
	tree := l.Files
	var mirrors []forge.Mirror
	if l.Estate != nil {
		tree = l.Tree()
		for _, r := range l.Estate.Repositories {
			mirrors = append(mirrors, forge.MirrorOf(r))
		}
	}
	f, err := l.Forge.Foreign(ctx, tree, mirrors)
	if err != nil {
		return Losing{Unknown: err.Error()}, ctx.Err()
	}
	return Losing{Foreign: f}, nil
}

// mayLose returns an error unless nothing of others is lost with the forge, or the user agrees to it. The result is recorded: a removal that was interrupted is
// completed without asking again, as the forge may be gone. Commits that the saved record of the forge has are in the snapshot.
func (l *Lab) mayLose(ctx context.Context, c Consent, p lab.Progress, saved ...[]byte) error {
	losing, err := l.Losing(ctx, !c.Given)
	if err != nil {
		return err
	}
	for _, record := range saved {
		losing.Commits = slices.DeleteFunc(losing.Commits, func(c forge.ForeignCommit) bool { return state.Records(record, c.Hash) })
	}
	if losing.Unknown != "" && l.Dir.Losing() {
		losing = Losing{}
	}
	if losing.None() {
		return l.Dir.SaveLosing(true)
	}
	lines := losing.Lines()
	agreed := c.Given
	if !agreed && c.Ask != nil {
		if agreed, err = c.Ask(ctx, "lose what exists only in the forge?", lines); err != nil {
			return err
		}
	}
	if !agreed {
		return refusal(losing, c.By)
	}
	for _, line := range lines {
		p("losing " + line)
	}
	return l.Dir.SaveLosing(true)
}

func refusal(o Losing, by string) error {
	e := &lab.Error{
		Exit: lab.ExitInvalid, Code: "would_lose", Message: "only in the forge: " + o.String() + " of others",
		Cure: "to keep commits, lab git pull, or fetch them with git; to discard them, " + by,
	}
	if o.Unknown != "" {
		e.Message, e.Cure = "others' content in the forge is unknown: "+o.Unknown, "lab up starts the forge; to discard its content, "+by
		e.Details = []string{"nothing was touched"}
		return e
	}
	for _, line := range o.Lines() {
		e.Details = append(e.Details, "would lose "+line)
	}
	e.Details = append(e.Details, "nothing was touched")
	return e
}
