// Package supervisetest has the contract of the runner's view of the forge. It runs on an API like Gitea's, and with -tags e2e on a Gitea.
package supervisetest

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"homelab/lab/runner/job"
	"homelab/lab/runner/supervise"
)

// Scene is a forge with one open request, whose base branch has job.File.
type Scene struct {
	Number                int
	Head, Base, MergeBase string
	Statuses              func() []supervise.Status // of the head, the oldest first
	Comments              func() []string           // of the request, the oldest first
}

// Contract tests a view of the forge.
func Contract(t *testing.T, g *supervise.Gitea, s Scene) {
	t.Helper()
	ctx := t.Context()
	list, err := g.Requests(ctx)
	if err != nil || len(list) != 1 || list[0].Number != s.Number || list[0].Head != s.Head || list[0].Base != s.Base || list[0].MergeBase != s.MergeBase {
		t.Errorf("requests %+v, %v; want %+v", list, err, s)
	}
	if data, err := g.File(ctx, s.Base, job.File, 1<<10); err != nil || len(data) == 0 {
		t.Errorf("%s: %q, %v", job.File, data, err)
	}
	if data, err := g.File(ctx, s.Base, job.File, 3); err != nil || len(data) <= 3 {
		t.Errorf("%s that is too large: %q, %v", job.File, data, err)
	}
	if _, err := g.File(ctx, s.Base, ".lab/none.yaml", 1<<10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	for name, commits := range map[string][]string{"two": {s.MergeBase, s.Head}, "one": {s.Head, s.Head}} {
		pack, err := g.Pack(ctx, commits...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		head := make([]byte, 4)
		if _, err := io.ReadFull(pack, head); err != nil || string(head) != "PACK" {
			t.Errorf("%s: %q, %v", name, head, err)
		}
		if err := pack.Close(); err != nil {
			t.Error(err)
		}
	}
	if pack, err := g.Pack(ctx, strings.Repeat("1", 40)); err == nil {
		if text, err := io.ReadAll(pack); err == nil && strings.HasPrefix(string(text), "PACK") {
			t.Error("a pack of no commit")
		}
		_ = pack.Close()
	}

	for _, want := range []supervise.Status{{Context: "lab/kustomize a b", State: supervise.Pending, Description: "at it"}, {Context: "lab/kustomize a b", State: supervise.Failure, Description: "<b> & ✓"}} {
		if err := g.SetStatus(ctx, s.Head, want); err != nil || !slices.Contains(s.Statuses(), want) {
			t.Errorf("status %+v, %v: %+v", want, err, s.Statuses())
		}
	}
	before := s.Comments()
	for i, text := range []string{"one", "two", "two"} {
		body := supervise.Marker + "\n" + text + "\n"
		err := g.Comment(ctx, s.Number, supervise.Marker, body)
		after := s.Comments()
		if err != nil || len(after) != len(before)+1 || !slices.Equal(after[:len(before)], before) || strings.TrimSpace(after[len(before)]) != strings.TrimSpace(body) {
			t.Errorf("comment %d: %v: %q after %q", i, err, after, before)
		}
	}
}
