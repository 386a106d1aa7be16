package forge

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"homelab/lab"
)

// own turns the estate into a user's repository, with a first push; in is the estate's path in it.
func (b *bench) own(in string) (top string) {
	b.t.Helper()
	top = b.dir
	b.dir = filepath.Join(top, in)
	b.write(b.dir, map[string]string{"a": "1\n", "b": "1\n", "c": "1\n", "six": six})
	b.write(top, map[string]string{"README": "mine\n"})
	b.initRepository(top)
	_, err := b.push()
	b.must(err)
	return top
}

// Neither staged nor unstaged changes of the user are committed.
func TestPullCommits(t *testing.T) {
	for name, in := range map[string]string{"root": "", "subfolder": "some/estate", "linked worktree": "linked"} {
		t.Run(name, func(t *testing.T) {
			b, _ := newPullBench(t)
			var top string
			if name == "linked worktree" {
				top = b.own("")
				b.dir = filepath.Join(t.TempDir(), "linked")
				b.git(top, "worktree", "add", "--quiet", b.dir)
				top = b.dir
			} else {
				top = b.own(in)
			}
			before := b.git(top, "rev-parse", "HEAD")
			theirs := b.theirs(map[string]string{"a": "9\n", "b": "", "new/x": "9\n"})
			b.write(b.dir, map[string]string{"c": "staged\n", "untracked": "mine\n"})
			b.git(b.dir, "add", "c")
			b.write(b.dir, map[string]string{"six": "not staged\n"})
			status := b.git(top, "status", "--porcelain")
			got, err := b.pull()
			b.must(err)
			head := b.git(top, "rev-parse", "HEAD")
			if got.Committed != head || got.Reason != "" || head == before {
				t.Fatalf("committed %q because %q, HEAD is %s", got.Committed, got.Reason, head)
			}
			if after := b.git(top, "status", "--porcelain"); after != status {
				t.Errorf("status is\n%s\nwas\n%s", after, status)
			}
			if by := b.git(top, "log", "-1", "--format=%an <%ae> %s|%cn"); by != "ann <ann@example.org> theirs|Test User" {
				t.Errorf("committed by %s", by)
			}
			want := "M\ta\nD\tb\nA\tnew/x"
			if name == "subfolder" {
				want = "M\tsome/estate/a\nD\tsome/estate/b\nA\tsome/estate/new/x"
			}
			if files := b.git(top, "diff", "--name-status", "--no-renames", "HEAD^1", "HEAD"); files != want {
				t.Errorf("the commit has %s", files)
			}
			parents := strings.Fields(b.git(top, "log", "-1", "--format=%P"))
			if name == "subfolder" {
				if !slices.Equal(parents, []string{before}) {
					t.Errorf("parents %q", parents)
				}
				return
			}
			if !slices.Equal(parents, []string{before, theirs}) {
				t.Errorf("parents %q, want %s and the forge's %s", parents, before, theirs)
			}
			if out := b.git(top, "pull", b.remote.URL, "main"); !strings.Contains(out, "Already up to date") {
				t.Errorf("git pull afterwards: %s", out)
			}
			b.git(top, "commit", "--quiet", "--all", "-m", "the rest")
			b.must(os.Remove(filepath.Join(b.dir, "untracked")))
			if pushed, err := b.push(); err != nil || pushed.Commit != b.git(top, "rev-parse", "HEAD") {
				t.Errorf("pushed %+v, %v, want the user's commit", pushed, err)
			}
		})
	}
}

func TestPullCommitsSeveral(t *testing.T) {
	b, _ := newPullBench(t)
	b.own("")
	b.other("one", map[string]string{"a": "8\n"})
	b.by("bob@example.org", "two", map[string]string{"b": "9\n"})
	_, err := b.pull()
	b.must(err)
	if got, want := b.git(b.dir, "log", "-1", "--format=%an|%B"), "Test User|pull 2 commits from the forge\n\nbob: two\nann: one"; got != want {
		t.Errorf("commit %q, want %q", got, want)
	}
}

// Files are pulled, but not committed if that would include uncommitted changes or cannot work.
func TestPullDoesNotCommit(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(b *bench)
		want  string // substring of the reason
	}{
		"uncommitted changes": {func(b *bench) { b.write(b.dir, map[string]string{"six": "0\n" + six}) }, "six has uncommitted changes"},
		"staged changes": {func(b *bench) {
			b.write(b.dir, map[string]string{"six": "0\n" + six})
			b.git(b.dir, "add", "six")
		}, "six has uncommitted changes"},
		"a conflict": {func(b *bench) { b.write(b.dir, map[string]string{"six": "1\n2\n3\n4\n5\nmine\n"}) }, "conflicts"},
		"detached":   {func(b *bench) { b.git(b.dir, "checkout", "--quiet", "--detach") }, "no branch"},
		"mid-rebase": {func(b *bench) { b.must(os.Mkdir(filepath.Join(b.dir, ".git", "rebase-merge"), 0o755)) }, "a rebase is in progress"},
		"mid-merge": {func(b *bench) {
			b.write(b.dir, map[string]string{".git/MERGE_HEAD": b.git(b.dir, "rev-parse", "HEAD") + "\n"})
		}, "a merge is in progress"},
		"a locked index": {func(b *bench) { b.write(b.dir, map[string]string{".git/index.lock": "x"}) }, "index.lock"},
		"no identity": {func(b *bench) {
			b.git(b.dir, "config", "user.useConfigOnly", "true")
			b.git(b.dir, "config", "--global", "--unset", "user.email")
		}, "git commit-tree"},
		"a branch unborn": {func(b *bench) { b.git(b.dir, "symbolic-ref", "HEAD", "refs/heads/unborn") }, "no commit yet"},
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := newPullBench(t)
			b.own("")
			before := b.git(b.dir, "rev-parse", "work")
			b.theirs(map[string]string{"a": "9\n", "six": "1\n2\n3\n4\n5\nx\n"})
			test.spoil(b)
			got, err := b.pull()
			if err != nil && !coded(err, "conflict") {
				t.Fatal(err)
			}
			if got.Committed != "" || !strings.Contains(got.Reason, test.want) {
				t.Errorf("committed %q because %q, want the reason %q", got.Committed, got.Reason, test.want)
			}
			if text, err := os.ReadFile(filepath.Join(b.dir, "a")); err != nil || string(text) != "9\n" {
				t.Errorf("a is %q, %v", text, err)
			}
			if head := b.git(b.dir, "rev-parse", "work"); head != before {
				t.Errorf("the branch moved to %s", head)
			}
		})
	}
}

// Without git, nothing is read, and the error has a cure.
func TestPullWithoutGit(t *testing.T) {
	b, _ := newPullBench(t)
	b.own("")
	b.t.Setenv("PATH", t.TempDir())
	var e *lab.Error
	if _, err := b.pull(); !errors.As(err, &e) || e.Code != "no_git" || e.Cure == "" {
		t.Errorf("%v", err)
	}
}

func TestPullWithoutRepository(t *testing.T) {
	b, _ := newPullBench(t)
	b.write(b.dir, map[string]string{"a": "1\n"})
	_, err := b.push()
	b.must(err)
	b.other("theirs", map[string]string{"a": "9\n"})
	got, err := b.pull()
	b.must(err)
	if got.Committed != "" || got.Reason != "" || len(got.Commits) != 1 || got.Commits[0].Message != "theirs" {
		t.Errorf("pulled %+v", got)
	}
}

// A run killed before or after its commit results in one commit.
func TestPullCommitsOnce(t *testing.T) {
	b, notes := newPullBench(t)
	b.own("")
	theirs := b.theirs(map[string]string{"a": "9\n"})
	var begun []byte
	notes.kill = func(any) error {
		if begun == nil && notes.data != nil {
			begun = notes.data
		}
		return nil
	}
	first, err := b.pull()
	b.must(err)
	notes.data, notes.kill = begun, nil // as if killed before the forge's ref was updated
	b.git(b.remote.URL, "update-ref", lastRef, theirs+"~1")
	again, err := b.pull()
	b.must(err)
	if again.Committed != first.Committed || len(again.Files) != 1 || len(again.Commits) != 1 || b.git(b.dir, "rev-parse", "HEAD") != first.Committed {
		t.Errorf("second %+v, first %+v", again, first)
	}
}

// Files written by a killed run do not count as changes of the user.
func TestPullCommitsAfterKill(t *testing.T) {
	b, notes := newPullBench(t)
	b.own("")
	theirs := b.theirs(map[string]string{"a": "9\n", "b": "9\n"})
	notes.kill = func(v any) error {
		data, err := json.Marshal(v)
		notes.data = data
		return errors.Join(err, errKilled)
	}
	if _, err := b.pull(); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	notes.kill = nil
	b.write(b.dir, map[string]string{"a": "9\n"}) // the killed run's progress
	got, err := b.pull()
	b.must(err)
	if parents := strings.Fields(b.git(b.dir, "log", "-1", "--format=%P")); got.Committed == "" || len(parents) != 2 || parents[1] != theirs {
		t.Errorf("committed %q because %q, parents %q", got.Committed, got.Reason, parents)
	}
	if status := b.git(b.dir, "status", "--porcelain"); status != "" {
		t.Errorf("left is %s", status)
	}
}

// After a plain git pull, there is nothing to pull, and later edits are kept.
func TestPullAfterGitPull(t *testing.T) {
	b, _ := newPullBench(t)
	b.own("")
	b.theirs(map[string]string{"a": "9\n"})
	b.git(b.dir, "pull", "--quiet", b.remote.URL, "main")
	b.write(b.dir, map[string]string{"a": "10\n"})
	b.theirs(map[string]string{"b": "9\n"})
	got, err := b.pull()
	b.must(err)
	if want := []string{"b took"}; !slices.Equal(did(got), want) {
		t.Errorf("did %q, want %q", did(got), want)
	}
}
