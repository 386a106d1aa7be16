package ui

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPulled(t *testing.T) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	brought := PullResult{
		Commit: commit, Commits: []LogCommit{{Commit: commit, Author: "ann", Message: "two replicas\n\nwhy"}},
		Files: []PullFile{
			{Path: "a", Did: "took"},
			{Path: "b", Did: "merged"},
			{Path: "c", Did: "conflict", Lines: []int{3, 17}},
			{Path: "d", Did: "conflict", Note: "it is ignored here", Beside: "d.forge"},
			{Path: "e", Did: "kept", Note: "changed here, removed in the forge"},
		},
	}
	const files = `  0123456   ann   two replicas

  took       a
  merged     b
  conflict   c   lines 3, 17
  conflict   d   theirs is in d.forge: it is ignored here
  kept       e   changed here, removed in the forge

`
	committed, refused := brought, brought
	committed.Committed = commit
	refused.Reason, refused.Next = "a has uncommitted changes", "git add a && git commit"
	for name, c := range map[string]struct {
		res  PullResult
		dry  bool
		want string
	}{
		"nothing":       {PullResult{}, false, "nothing to pull: the working tree has all that the forge has\n"},
		"into a folder": {brought, false, files},
		"dry":           {brought, true, files + "dry run: nothing was written\n"},
		"committed":     {committed, false, files + "committed 0123456\n"},
		"not committed": {refused, false, files + "not committed: a has uncommitted changes\n  git add a && git commit\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, narration bytes.Buffer
			c.res.DryRun = c.dry
			if err := New(Options{Out: &out, Err: &narration}).Pulled(c.res); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, out.String()); diff != "" || narration.Len() > 0 {
				t.Errorf("printed (-want +got):\n%s%s", diff, narration.String())
			}
		})
	}
}
