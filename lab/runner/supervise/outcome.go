package supervise

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"homelab/lab"
	"homelab/lab/review"
	"homelab/lab/runner/job"
	"homelab/lab/runner/work"
)

// Marker begins the runner's comment.
const Marker = "<!-- lab runner -->"

// outcome is what a check says on the forge.
type outcome struct {
	check   job.Check
	state   State
	summary string // one line
	said    string
	text    string // Markdown, of lab diff
	sarif   []byte // of lab lint
	took    time.Duration
}

// outcome judges a result. All of it may be made up by a worker that a request has taken over.
func (s *Supervisor) outcome(r work.Result) outcome {
	o := outcome{check: r.Check, state: Failure, said: plain(r.Said), took: r.Took}
	first, _, _ := strings.Cut(strings.TrimSpace(o.said), "\n")
	switch {
	case r.Ended != "":
		o.state, o.summary = Error, plain(r.Ended)
		o.said = strings.TrimSpace(o.summary + "\n" + o.said)
		return o
	case r.Exit == 0:
		o.state = Success
	}
	switch o.check.Kind {
	case job.Lint:
		o.sarif = r.Out
		if errors, warnings, ok := counted(r.Out); ok {
			o.summary = fmt.Sprintf("errors: %d, warnings: %d", errors, warnings)
			return o
		}
	case job.Diff:
		if r.Exit != 0 {
			break
		}
		of, err := s.Describe(r.Out)
		if err == nil {
			if o.text, o.summary = of.Markdown, of.Summary; of.Unknown {
				o.state = Error
			}
			return o
		}
		o.state, o.said = Error, "lab diff prints what cannot be read"
		first = o.said
	default:
		if r.Exit == 0 {
			o.summary = lab.Clip(plain(string(r.Out)), 1<<10)
			return o
		}
	}
	if o.summary = first; first == "" {
		o.summary = fmt.Sprintf("lab exits with %d", r.Exit)
	}
	if r.Exit == 0 && o.check.Kind == job.Lint { // it says nothing that it should
		o.state = Error
	}
	return o
}

// counted returns the numbers of errors and warnings of lab lint.
func counted(sarif []byte) (errors, warnings int, ok bool) {
	var log struct {
		Runs []struct{ Results []struct{ Level string } }
	}
	if err := json.Unmarshal(sarif, &log); err != nil || len(log.Runs) != 1 {
		return 0, 0, false
	}
	for _, r := range log.Runs[0].Results {
		switch r.Level {
		case "error":
			errors++
		case "warning":
			warnings++
		}
	}
	return errors, warnings, true
}

// comment returns the comment of a request. What comes from the repository is in code.
func comment(r Request, of []outcome) string {
	p := review.Parts{Marker: Marker, NoDiff: true, NoLint: true}
	for _, o := range of {
		switch {
		case o.check.Kind == job.Lint && o.state != Error:
			p.NoLint, p.Lint, p.LintSaid = false, o.sarif, o.said
		case o.check.Kind == job.Diff && o.text != "":
			p.NoDiff, p.Diff, p.DiffSaid = false, o.text, o.said
		default:
			said := o.said
			if said == "" {
				said = o.summary
			}
			p.Otherwise = append(p.Otherwise, review.Section{Title: fmt.Sprintf("%s: %s", o.check, o.state), Said: said})
		}
	}
	return review.Text(p) + "\nof " + r.Head + "\n"
}

// unusable returns the comment of a request whose checks are unknown.
func unusable(e *lab.Error) string {
	said := e.Message
	if e.Cure != "" {
		said += ": " + e.Cure
	}
	for _, p := range e.Problems {
		said += "\n" + p.String()
	}
	return review.Text(review.Parts{Marker: Marker, NoDiff: true, NoLint: true, Otherwise: []review.Section{{Title: "lab runner: nothing was checked", Said: plain(said)}}})
}
