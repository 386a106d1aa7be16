// Package review writes a review of a pull or merge request, and keeps it in one comment there.
package review

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"homelab/lab"
)

// most is the size of a comment, in bytes: GitHub takes 65,536 characters.
const most = 65_000

// lintRoom is what findings may take of it.
const lintRoom = 8_000

// sarif is what is read of lint.sarif.
type sarif struct {
	Runs []struct {
		Results []struct {
			Rule      string `json:"ruleId"`
			Level     string
			Message   struct{ Text string }
			Locations []struct {
				Physical struct {
					File   struct{ URI string } `json:"artifactLocation"`
					Region struct {
						Line int `json:"startLine"`
					}
				} `json:"physicalLocation"`
			}
		}
	}
}

// Parts are what a comment has.
type Parts struct {
	Marker    string // an HTML comment that identifies it
	Diff      string // of lab diff --markdown; empty if it failed
	DiffSaid  string // on stderr
	Lint      []byte // of lab lint -o sarif
	LintSaid  string // on stderr
	NoDiff    bool   // neither was wanted
	NoLint    bool
	Otherwise []Section
}

// Section is a further part of a comment.
type Section struct {
	Title string // plain text
	Said  string // from the repository
}

// text returns the comment of the files in a folder.
func text(folder, marker string) string {
	read := func(name string) string {
		data, _ := os.ReadFile(filepath.Join(folder, name)) // a missing file is empty
		return string(data)
	}
	return Text(Parts{Marker: marker, Diff: read("diff.md"), DiffSaid: read("diff.err"), Lint: []byte(read("lint.sarif")), LintSaid: read("lint.err")})
}

// Text returns a comment. All that comes from the repository is in code, in which Markdown, HTML and mentions have no meaning.
func Text(p Parts) string {
	lint := ""
	if !p.NoLint {
		lint = findings(p.Lint, p.LintSaid)
	}
	for _, s := range p.Otherwise {
		lint += "\n### " + s.Title + "\n\n" + block(s.Said, lintRoom/len(p.Otherwise))
	}
	diff := p.Diff
	switch {
	case p.NoDiff:
	case diff == "":
		diff = "### lab diff\n\nnot compared:\n" + block(p.DiffSaid, lintRoom)
	case p.DiffSaid != "":
		diff += "\n" + block(p.DiffSaid, lintRoom/2)
	}
	if room := most - len(p.Marker) - len(lint); len(diff) > room {
		cut := strings.LastIndex(diff[:room-100], "\n#### ") // of a section; no line within one begins so
		if cut < 0 {
			cut = 0
		}
		diff = diff[:cut] + "\n**Cut: lab diff prints all of it.**\n"
	}
	return p.Marker + "\n" + diff + "\n" + lint
}

// findings returns what lab lint found, errors first.
func findings(data []byte, said string) string {
	var log sarif
	if err := json.Unmarshal(data, &log); err != nil || len(log.Runs) != 1 {
		return "### lab lint\n\nfailed:\n" + block(said, lintRoom)
	}
	count := map[string]int{}
	var b strings.Builder
	for _, level := range []string{"error", "warning"} {
		for _, f := range log.Runs[0].Results {
			if f.Level != level {
				continue
			}
			if count[level]++; b.Len() > lintRoom {
				continue
			}
			at := ""
			if len(f.Locations) > 0 {
				p := f.Locations[0].Physical
				at = " " + span(fmt.Sprintf("%s:%d", p.File.URI, p.Region.Line))
			}
			fmt.Fprintf(&b, "- %s %s%s %s\n", level, span(f.Rule), at, span(lab.Clip(f.Message.Text, lintRoom/8)))
		}
	}
	return fmt.Sprintf("### lab lint\n\nerrors: %d, warnings: %d.\n\n%s", count["error"], count["warning"], b.String())
}

// block returns a text as a block of code.
func block(text string, most int) string {
	text = lab.Clip(strings.TrimRight(text, "\n"), most)
	ticks := "``" + ticks(text)
	return ticks + "\n" + text + "\n" + ticks + "\n"
}

// span returns a text as code within a line.
func span(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	return ticks(text) + " " + text + " " + ticks(text)
}

// ticks returns more backticks than a text has side by side.
func ticks(text string) string {
	longest := "`"
	for strings.Contains(text, longest) {
		longest += "`"
	}
	return longest
}
