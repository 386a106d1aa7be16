package ui

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func difference() DiffResult {
	app := func(cluster, addon string) DiffApplication {
		return ShortApplication(cluster+"-"+addon, cluster, cluster+"-"+addon)
	}
	return DiffResult{
		Lab: "homelab", Engine: "argocd", Before: "main (3f2c1d90a7)", After: "the working tree", Applications: 11, Differ: 5,
		Read: DiffRead{Before: []ReadRevision{{Folder: ".", Revision: "main", Commit: "3f2c1d90a7b64e5f8c9d0e1f2a3b4c5d6e7f8091"}}, After: []ReadRevision{{Folder: "."}}},
		Changes: []DiffChange{
			{
				Addon: "identity", Applications: []DiffApplication{app("dev", "identity"), app("staging", "identity")}, Named: true, Change: "changed", Cluster: "dev", Kind: "ConfigMap", Namespace: "identity", Name: "cloud",
				Fields: []DiffField{
					{Path: "data.region", Change: "changed", Before: `"eu-north-1"`, After: `"eu-west-1"`},
					{Path: "data.script", Change: "changed", Before: `"a\nb\n"`, After: `"a\nc\n"`, Lines: []string{" a", "-b", "+c"}},
					{Path: "metadata.labels", Change: "added", Before: "null", After: `{"a":"b"}`},
				},
				Random: []string{"data.token"},
			},
			{Addon: "identity", Applications: []DiffApplication{app("dev", "identity")}, Change: "changed", Cluster: "dev", Kind: "Secret", Namespace: "identity", Name: "token", Fields: []DiffField{{Path: "data.token", Change: "changed", Before: `"***"`, After: `"***"`, Secret: true}}},
			{Addon: "identity", Applications: []DiffApplication{app("dev", "identity")}, Change: "removed", Cluster: "dev", Kind: "Namespace", Name: "old"},
			{Addon: "identity", Applications: []DiffApplication{app("dev", "identity")}, Change: "moved", Cluster: "hub", Kind: "Namespace", Name: "shared", From: "dev-podinfo"},
			{
				Addon: "podinfo", Applications: []DiffApplication{app("dev", "podinfo")}, Change: "changed", Group: "argoproj.io", Kind: "Application", Namespace: "argocd", Name: "dev-podinfo", Routine: true,
				Fields: []DiffField{{Path: "spec.sources[1].targetRevision", Change: "changed", Before: `"6.9.1"`, After: `"6.9.2"`}}, Bumps: []DiffBump{{"chart", "podinfo", "6.9.1", "6.9.2"}},
			},
		},
		Unknown: []DiffUnknown{{Addon: "podinfo", Applications: []DiffApplication{app("dev", "podinfo")}, After: "addons/podinfo/applicationset.yaml:31: chart podinfo 6.9.2 is not on this machine: lab bundle build podinfo-6.9.2"}},
	}
}

// wantsFile compares a text with a golden file.
func wantsFile(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || got != string(want) {
		t.Errorf("%v: differs from %s, go test -update writes it:\n%s", err, file, got)
	}
}

func TestDiff(t *testing.T) {
	environments := difference()
	environments.Before, environments.After, environments.Unknown, environments.Changes = "environment dev", "environment prod", nil, environments.Changes[:1]
	environments.Pairs = []DiffPair{{"identity", "dev", "prod", 2, 1}, {"podinfo", "dev", "", 1, 0}}
	for name, tc := range map[string]struct {
		res   DiffResult
		color bool
	}{"diff.txt": {res: difference()}, "diff-terminal.txt": {difference(), true}, "diff-environments.txt": {res: environments}, "diff-none.txt": {res: DiffResult{Before: "a", After: "b", Applications: 3}}} {
		var out, narration bytes.Buffer
		if err := New(Options{Out: &out, Err: &narration, OutColor: tc.color}).Diff(tc.res, false, "lab diff --rev main --all"); err != nil || narration.Len() > 0 {
			t.Errorf("%s: %v, %s", name, err, &narration)
		}
		wantsFile(t, name, out.String())
	}
	wantsFile(t, "diff.md", DiffMarkdown(difference(), "lab diff --rev main --all"))
	page, err := DiffHTML(difference())
	if err != nil {
		t.Fatal(err)
	}
	wantsFile(t, "diff.html", page)
}

// large has more than fits.
func large() DiffResult {
	r := difference()
	r.Changes = nil
	for i := range 400 {
		c := difference().Changes[0]
		c.Addon = "addon-" + strings.Repeat("x", i)
		for range 40 {
			c.Fields = append(c.Fields, DiffField{Path: "data.long", Change: "changed", Before: Raw(`"` + strings.Repeat("é", 300) + `"`), After: "1"})
		}
		r.Changes = append(r.Changes, c)
	}
	return r
}

// What is too long is cut, which is said.
func TestDiffIsBounded(t *testing.T) {
	text := DiffMarkdown(large(), "lab diff --all")
	head, _, _ := strings.Cut(text, "```diff")
	if len(text) > maxMarkdown || len(text) < maxMarkdown/2 || !utf8.ValidString(text) || !strings.Contains(head, "sections are left out") || !strings.Contains(head, "` lab diff --all `") {
		t.Errorf("%d bytes\n%s", len(text), head)
	}
	var out, narration bytes.Buffer
	if err := New(Options{Out: &out, Err: &narration}).Diff(large(), false, "lab diff --all"); err != nil || strings.Count(out.String(), "\n") > maxDiffLines+100 {
		t.Errorf("%d lines, %v", strings.Count(out.String(), "\n"), err)
	}
	if got := narration.String(); got != "shortened: lab diff --all prints all\n" || !regexp.MustCompile(`(?m)^… \d+ more lines$`).MatchString(out.String()) {
		t.Errorf("%q", got)
	}
	out.Reset()
	if err := New(Options{Out: &out}).Diff(large(), true, ""); err != nil || strings.Contains(out.String(), "…") {
		t.Errorf("cut: %v", err)
	}
}

// hostile puts a text into every place of a comparison.
func hostile(text string) DiffResult {
	r := difference()
	r.Before, r.After = text, text
	for i := range r.Changes {
		c := &r.Changes[i]
		c.Addon, c.Kind, c.Namespace, c.Name, c.From = text, text, text, text, text
		c.Applications = []DiffApplication{ShortApplication(text, text, "")}
		c.Random = []string{text}
		for j := range c.Fields {
			f := &c.Fields[j]
			f.Path, f.Before, f.After = text, Raw(text), Raw(text)
			if f.Lines != nil {
				f.Lines = []string{"-" + text, "+" + text}
			}
		}
		for j := range c.Bumps {
			c.Bumps[j] = DiffBump{text, text, text, text}
		}
	}
	r.Unknown[0].Addon, r.Unknown[0].Release, r.Unknown[0].After = text, text, text
	r.Problems = []RenderProblem{{Message: text}}
	r.Pairs = []DiffPair{{text, text, text, 1, 1}, {text, "", text, 0, 1}}
	return r
}

// proseOf returns what of Markdown is neither in a code block nor in a code span.
func proseOf(t testing.TB, text string) string {
	t.Helper()
	var rest strings.Builder
	fence := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		opens := regexp.MustCompile("^(`{3,})diff$").FindStringSubmatch(line)
		switch {
		case fence == "" && opens != nil:
			fence = opens[1]
		case fence != "" && strings.Trim(line, "`") == "" && len(line) >= len(fence):
			fence = ""
		case fence == "":
			for line != "" {
				before, after, found := strings.Cut(line, "`")
				rest.WriteString(before)
				if !found {
					break
				}
				ticks := 1 + len(after) - len(strings.TrimLeft(after, "`"))
				if line, found = afterTicks(after[ticks-1:], ticks); !found {
					t.Fatalf("a code span does not end: %q", after)
				}
			}
			rest.WriteString("\n")
		}
	}
	if fence != "" {
		t.Fatal("a code block does not end")
	}
	return rest.String()
}

// afterTicks returns what follows the first run of exactly n backticks.
func afterTicks(text string, n int) (string, bool) {
	for text != "" {
		_, after, found := strings.Cut(text, "`")
		if !found {
			break
		}
		rest := strings.TrimLeft(after, "`")
		if 1+len(after)-len(rest) == n {
			return rest, true
		}
		text = rest
	}
	return "", false
}

// FuzzDiffMarkdown holds that nothing of a foreign text is outside of code.
func FuzzDiffMarkdown(f *testing.F) {
	for _, seed := range []string{
		"@everyone", "<img src=x onerror=alert(1)>", "```\n@me\n```", "`", "``` ```", "~~~", "\n\n# heading\n@me", "a|b", "[x](javascript:y)", "\x1b[31m", "/close", "\u202e", "-----", "` @me `", "\r@me", "`````````````", "\u2028@me", "",
	} {
		f.Add(seed)
	}
	plain := proseOf(f, DiffMarkdown(hostile("x"), "lab diff"))
	f.Fuzz(func(t *testing.T, text string) {
		got := DiffMarkdown(hostile(text), "lab diff")
		if len(got) > maxMarkdown {
			t.Fatalf("%d bytes", len(got))
		}
		if strings.Contains(got, "Cut:") || clean(text) == "" {
			return // other parts of it are left out
		}
		if rest := proseOf(t, got); rest != plain {
			t.Fatalf("%q: outside of code:\n%s", text, rest)
		}
	})
}

// A page has no element and no attribute of a foreign text.
func TestDiffPageIsEscaped(t *testing.T) {
	page, err := DiffHTML(hostile(`"><script>alert(1)</script>`))
	if err != nil || strings.Contains(page, "<script") || strings.Count(page, "script") < 10 {
		t.Errorf("%v\n%s", err, page)
	}
	if strings.Contains(page, "http://") || strings.Contains(page, "https://") || strings.Contains(page, "src=") {
		t.Error("the page refers to others")
	}
}
