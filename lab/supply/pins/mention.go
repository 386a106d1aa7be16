package main

import (
	"context"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"homelab/lab"
)

// support is the page of what was tested. In a row, the pin's name is followed by its versions and by what was tested, which a new pin does not change.
const support = "docs/support.md"

// mentions changes the documents, scripts and addons that name a changed pin and its version on a line, and lists the other files that do.
func (c *change) mentions(ctx context.Context) error {
	if len(c.files) == 0 {
		return nil
	}
	tracked, err := run(ctx, c.root, nil, "git", "ls-files")
	if err != nil {
		return err
	}
	skipped := []string{"CHANGELOG.md", imagesFile, recipesFile, chartsFile, frontMod, frontSum}
	for file := range strings.FieldsSeq(string(tracked)) {
		info, err := fs.Stat(c.FS, file)
		if err != nil || !info.Mode().IsRegular() || slices.Contains(skipped, file) || isGoMod(file) || path.Ext(file) == ".sum" || strings.HasPrefix(file, "lab/supply/pins/") {
			continue
		}
		data, err := c.ReadFile(file)
		if err != nil {
			return err
		}
		lines := strings.SplitAfter(string(data), "\n")
		first, stay := 0, 0
		for i, line := range lines {
			now := c.renamed(file, line)
			switch {
			case now == line:
			case follows(file):
				lines[i] = now
				c.tell("%s: %s", lab.Position{File: file, Line: i + 1}, strings.TrimSpace(now))
			default:
				if stay++; stay == 1 {
					first = i + 1
				}
			}
		}
		if now := strings.Join(lines, ""); now != string(data) {
			c.files[file] = now
		}
		if stay > 0 {
			c.tell("%s: stays, look whether it should; lines: %d", lab.Position{File: file, Line: first}, stay)
		}
	}
	return nil
}

// follows reports whether people wrote a file that follows the pins: documents, scripts and addons, and no test. json.md has the examples of tests.
func follows(file string) bool {
	dir, _, deep := strings.Cut(file, "/")
	return slices.Contains([]string{".ci", ".bench", "addons"}, dir) || path.Ext(file) == ".md" && (!deep || dir == "docs" && file != "docs/json.md")
}

// renamed returns a line with the new version if it names a chosen pin. What lies in an addon's folder need not name its chart.
func (c *change) renamed(file, line string) string {
	for _, p := range c.chosen {
		names := []string{p.Name, p.Source.Name}
		switch {
		case file == support:
			if cells := strings.SplitAfterN(line, "|", 6); len(cells) == 6 && strings.Contains(cells[2], "`"+p.Name+"`") {
				line = c.replaced(p, strings.Join(cells[:5], "")) + cells[5]
			}
		case p.What == Chart && strings.HasPrefix(file, "addons/"+p.Name+"/"),
			slices.ContainsFunc(names, func(n string) bool { return n != "" && strings.Contains(strings.ToLower(line), n) }):
			line = c.replaced(p, line)
		}
	}
	return line
}

// replaced replaces a pin's version as a whole, with or without the v: no part of a longer one.
func (c *change) replaced(p *Pin, line string) string {
	whole := regexp.MustCompile(`(^|[^0-9.])` + regexp.QuoteMeta(bare(p.Version)) + `([^0-9.-]|\.?$|\.\s|-[^0-9a-z]|\.[a-z])`)
	return whole.ReplaceAllString(line, "${1}"+bare(like(p.Version, c.version))+"${2}")
}
