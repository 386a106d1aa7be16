package forge

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"homelab/lab"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// by commits to the forge with an author address.
func (b *bench) by(email, message string, texts map[string]string) {
	b.t.Helper()
	dir := b.t.TempDir()
	repo, err := git.PlainClone(dir, false, &git.CloneOptions{URL: b.remote.URL, ReferenceName: main})
	b.must(err)
	b.write(dir, texts)
	w, err := repo.Worktree()
	b.must(err)
	b.must(w.AddWithOptions(&git.AddOptions{All: true}))
	name, _, _ := strings.Cut(email, "@")
	b.clock = b.clock.Add(1e9)
	_, err = w.Commit(message, &git.CommitOptions{Author: &object.Signature{Name: name, Email: email, When: b.clock}})
	b.must(err)
	b.must(repo.Push(&git.PushOptions{}))
}

// Rejected pushes and Ahead name the same commits, without reverted ones.
func TestAhead(t *testing.T) {
	const developer, putBack = "a.developer@scenario.invalid", "lab@scenario.invalid"
	for name, test := range map[string]struct {
		others func(b *bench)
		want   []string // subjects, newest first
	}{
		"nothing":  {func(*bench) {}, nil},
		"a commit": {func(b *bench) { b.other("theirs", map[string]string{"a": "9\n"}) }, []string{"theirs"}},
		"a story": {func(b *bench) {
			b.by(developer, "scale", map[string]string{"a": "5\n"})
			b.by(putBack, "put back", map[string]string{"a": "1\n"})
		}, nil},
		"a story, and a user's commit elsewhere": {func(b *bench) {
			b.by(developer, "scale", map[string]string{"a": "5\n"})
			b.other("theirs", map[string]string{"b": "9\n"})
			b.by(putBack, "put back", map[string]string{"a": "1\n"})
		}, []string{"theirs"}},
		"a story, then a user in the same file": {func(b *bench) {
			b.by(developer, "scale", map[string]string{"a": "5\n"})
			b.by(putBack, "put back", map[string]string{"a": "1\n"})
			b.other("theirs", map[string]string{"a": "9\n"})
		}, []string{"theirs"}},
		"a user in the same file meanwhile": {func(b *bench) {
			b.by(developer, "scale", map[string]string{"a": "5\n"})
			b.other("theirs", map[string]string{"a": "5\n9\n"})
			b.by(putBack, "put back", map[string]string{"a": "1\n9\n"})
		}, []string{"theirs"}},
		"a story that was not reverted": {func(b *bench) {
			b.by(developer, "scale", map[string]string{"a": "5\n"})
		}, []string{"scale"}},
		"reverted by a user": {func(b *bench) {
			b.other("theirs", map[string]string{"a": "9\n", "b": "9\n"})
			b.other("revert", map[string]string{"a": "1\n"})
		}, []string{"theirs"}},
		"reverted in a file changed since": {func(b *bench) {
			b.other("wrong", map[string]string{"a": "8\n"})
			b.other("revert", map[string]string{"a": "1\n"})
			b.other("theirs", map[string]string{"a": "9\n"})
		}, []string{"theirs"}},
		"already ours": {func(b *bench) {
			b.other("as ours", map[string]string{"c": "ours\n"})
			b.other("theirs", map[string]string{"a": "9\n"})
		}, []string{"theirs"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write(b.dir, map[string]string{"a": "1\n", "b": "1\n"})
			_, err := b.push()
			b.must(err)
			b.write(b.dir, map[string]string{"c": "ours\n"})
			test.others(b)
			ahead, err := b.remote.Ahead(t.Context(), b.tree())
			b.must(err)
			var got []string
			for _, c := range ahead {
				got = append(got, c.Message)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("ahead are %q, want %q", got, test.want)
			}
			_, err = b.push()
			if test.want == nil {
				b.must(err)
				return
			}
			var e *lab.Error
			if !errors.As(err, &e) || e.Code != "diverged" {
				t.Fatalf("error %v", err)
			}
			var named []string
			for _, line := range e.Details {
				if !strings.HasPrefix(line, " ") {
					_, rest, _ := strings.Cut(line, " ")
					named = append(named, rest[:strings.LastIndex(rest, " (")])
				}
			}
			if !slices.Equal(named, test.want) {
				t.Errorf("the error names %q, want %q", named, test.want)
			}
		})
	}
}
