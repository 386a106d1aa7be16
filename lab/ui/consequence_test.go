package ui_test

import (
	"io"
	"strings"
	"testing"

	"homelab/lab/ui"
)

// A mounted repository that is read alike on both sides is named if nothing changes, as its changes are not seen.
func TestNotCompared(t *testing.T) {
	for commit, want := range map[string]bool{"": true, "1a2b3c": false} {
		var text strings.Builder
		u := ui.New(ui.Options{Out: io.Discard, Err: &text})
		res := ui.ConsequenceResult{Before: ui.List[ui.ReadRevision]{{Folder: ".", Commit: "1a"}, {Folder: "../apps", Commit: commit}}, After: ui.List[ui.ReadRevision]{{Folder: "."}, {Folder: "../apps"}}}
		if err := u.Consequences(res); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(text.String(), "not compared: changes of ../apps: lab plan --rev ../apps=HEAD"); got != want {
			t.Errorf("commit %q: %s", commit, text.String())
		}
	}
}
