package pulls

import (
	"path"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
)

func TestCheckBranch(t *testing.T) {
	for _, name := range []string{"a", "pr/three-replicas", "renovate/podinfo-6.x", "JIRA-1_fix", "a+b", "fix#3"} {
		if err := CheckBranch(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{
		"", "-f", "--upload-pack=x", "a/-b", "../x", "a/../b", "a//b", "/a", "a/", ".a", "a/.b", "a.lock", "a.lock/b", "a.", "HEAD", "refs/heads/x", "a b", "a~1", "a^", "a:b", "a?", "a*", "a[b", `a\b`,
		"a@{0}", "a\x1b[31m", "a\n", "à", "\u202ea", strings.Repeat("a", branchLimit+1),
	} {
		if CheckBranch(name) == nil {
			t.Errorf("%q is accepted", name)
		}
	}
}

func FuzzCheckBranch(f *testing.F) {
	for _, name := range []string{"a", "pr/x", "-f", "../x", "a.lock", "refs/x", "@", "a@{1}"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if CheckBranch(name) != nil {
			return
		}
		if err := plumbing.NewBranchReferenceName(name).Validate(); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if path.Clean(name) != name || strings.HasPrefix(name, "-") || strings.HasPrefix(name, "/") || strings.Contains(name, "..") {
			t.Errorf("%q is accepted", name)
		}
	})
}

func TestCheckProposal(t *testing.T) {
	good := Proposal{Title: "three replicas", Body: "two\nlines\tof text", Head: "pr/x", Base: "main"}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for what, change := range map[string]func(p *Proposal){
		"needs a title":               func(p *Proposal) { p.Title = " \t" },
		"the title has 256":           func(p *Proposal) { p.Title = strings.Repeat("é", 256) },
		"title has control":           func(p *Proposal) { p.Title = "a\x1b[2Jb" },
		"title has control char":      func(p *Proposal) { p.Title = "a\u202eb" },
		"body has control characters": func(p *Proposal) { p.Body = "a\x00" },
		"body has 65001 bytes":        func(p *Proposal) { p.Body = strings.Repeat("a", TextLimit+1) },
		"into itself":                 func(p *Proposal) { p.Head = "main" },
		"not a valid branch name":     func(p *Proposal) { p.Base = "--x" },
	} {
		p := good
		if change(&p); p.Check() == nil || !strings.Contains(p.Check().Error(), what) {
			t.Errorf("%s: %v", what, p.Check())
		}
	}
	err := (Proposal{Title: "", Head: "-a", Base: "-b"}).Check()
	if n := len(err.(interface{ Unwrap() []error }).Unwrap()); n < 2 {
		t.Errorf("%d problems, want all: %v", n, err)
	}
}

func TestClean(t *testing.T) {
	for text, want := range map[string]string{"a\nb\tc": "a\nb\tc", "a\x1b[2Jb": "a [2Jb", "a\xffb": "a?b", "a\u202eb": "a b"} {
		if got := Clean(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	long := "head\n#### one\n" + strings.Repeat("a", TextLimit/2) + "\n#### two\n" + strings.Repeat("b\x00", TextLimit)
	if got := Clean(long); len(got) > TextLimit || strings.Contains(got, "two") || !strings.Contains(got, "#### one") || checkText("it", got) != nil {
		t.Errorf("cut to %d bytes", len(got))
	}
}

func TestCheckStatus(t *testing.T) {
	good := Status{Context: "lab/diff", State: Success, Description: "2 objects change", URL: "http://127.0.0.1:8080/x"}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	for what, change := range map[string]func(s *Status){
		"name of a check":     func(s *Status) { s.Context = "" },
		"is not a valid name": func(s *Status) { s.Context = "a\nb" },
		"not a state":         func(s *Status) { s.State = "fine" },
		"description":         func(s *Status) { s.Description = strings.Repeat("a", 300) },
		"not an address":      func(s *Status) { s.URL = "javascript:alert(1)" },
	} {
		s := good
		if change(&s); s.check() == nil || !strings.Contains(s.check().Error(), what) {
			t.Errorf("%s: %v", what, s.check())
		}
	}
}
