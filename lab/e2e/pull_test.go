//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"homelab/lab"
	"homelab/lab/ui"
)

// pulls tests commits of others in the forge: lab up does not overwrite them, and lab git pull fetches them, into a folder and into a Git repository.
func pulls(t *testing.T, l *testLab) {
	const file = "environments/dev/environment.yaml"
	l.must("up")
	start := l.read(file)

	committed(t, l, file, "a comment at the end", func(text string) string { return text + "# theirs\n" })
	l.write(file, "# ours\n"+l.read(file))
	refused := l.refused("diverged", "up")
	if refused.Cure != "lab git pull" || !strings.Contains(strings.Join(refused.Details, "\n"), "a comment at the end") {
		t.Errorf("refused with %+v, want the commit, and the cure lab git pull", refused)
	}
	dry := decode[ui.PullResult](l, "git", "pull", "--dry-run")
	if len(dry.Files) != 1 || dry.Files[0].Path != file || dry.Files[0].Did != "merged" || !dry.DryRun {
		t.Errorf("dry run: %+v", dry)
	}
	l.must(strings.Fields(refused.Cure)[1:]...)
	if got, want := l.read(file), "# ours\n"+start+"# theirs\n"; got != want {
		t.Errorf("pulled into a folder without Git:\n%s\nwant\n%s", got, want)
	}
	l.must("up")
	if log := l.must("git", "log").stdout; !strings.Contains(log, "a comment at the end") {
		t.Errorf("commit missing:\n%s", log)
	}
	if again := decode[ui.PullResult](l, "git", "pull"); len(again.Files) > 0 || len(again.Commits) > 0 {
		t.Errorf("second pull: %+v", again)
	}

	conflicts(t, l, file)
	l.write(file, start)
	l.must("up")
	pullsIntoRepository(t, l, file)
	afterStory(t, l, file)
	l.write(file, start)
	l.must("up")
}

// conflicts changes one line on both sides.
func conflicts(t *testing.T, l *testLab, file string) {
	before := l.read(file)
	committed(t, l, file, "another end", func(text string) string { return text + "# the end, theirs\n" })
	l.write(file, before+"# the end, ours\n")
	refused := l.refused("conflict", "git", "pull")
	if len(refused.Details) != 1 || !strings.HasPrefix(refused.Details[0], file+":") || !strings.Contains(refused.Cure, "lab up") {
		t.Errorf("refused with %+v, want file and line", refused)
	}
	if text := l.read(file); !strings.Contains(text, "<<<<<<< working tree\n# the end, ours\n=======\n# the end, theirs\n>>>>>>> forge ") {
		t.Errorf("no markers in\n%s", text)
	}
	for _, args := range [][]string{{"git", "push"}, {"git", "pull"}} {
		l.refused("conflict", args...)
	}
	if out := l.run("up"); out.code == 0 {
		t.Error("up pushed conflict markers")
	}
	l.write(file, before+"# the end, of both\n")
	l.must("up")
	l.converged(4, 10)
}

// pullsIntoRepository makes the estate a Git repository: plain git pull works after up, and lab git pull creates a commit.
func pullsIntoRepository(t *testing.T, l *testLab, file string) {
	git(t, l.estate, "init", "--quiet", "--initial-branch", "work")
	git(t, l.estate, "config", "user.name", "Test User")
	git(t, l.estate, "config", "user.email", "person@example.com")
	git(t, l.estate, "config", "pull.rebase", "false")
	defer func() {
		if err := os.RemoveAll(filepath.Join(l.estate, ".git")); err != nil {
			t.Error(err)
		}
	}()
	save := func() {
		git(t, l.estate, "add", "--all")
		git(t, l.estate, "commit", "--quiet", "--message", "mine")
	}
	save()
	l.write(file, l.read(file)+"# mine\n")
	save()
	l.must("up")
	url := strings.TrimSpace(l.must("git", "url", "--credentials").stdout)
	git(t, l.estate, "pull", "--no-edit", url, "main")
	committed(t, l, file, "for git", func(text string) string { return "# for git\n" + text })
	git(t, l.estate, "pull", "--no-edit", url, "main")
	if text := l.read(file); !strings.HasPrefix(text, "# for git\n") {
		t.Errorf("after git pull:\n%s", text)
	}
	l.must("up")

	committed(t, l, file, "for lab", func(text string) string { return "# for lab\n" + text })
	l.write("clusters/untracked.txt", "mine\n")
	l.refused("diverged", "up")
	res := decode[ui.PullResult](l, "git", "pull")
	head := strings.TrimSpace(git(t, l.estate, "log", "-1", "--format=%H %an %s"))
	if res.Committed == "" || head != res.Committed+" Another Person for lab" {
		t.Errorf("committed %q, reason %q, HEAD %s", res.Committed, res.Reason, head)
	}
	if status := git(t, l.estate, "status", "--porcelain"); status != "?? clusters/untracked.txt\n" {
		t.Errorf("git status:\n%s", status)
	}
	l.remove("clusters/untracked.txt")
	if out := git(t, l.estate, "pull", url, "main"); !strings.Contains(out, "Already up to date") {
		t.Errorf("git pull after lab git pull: %s", out)
	}
	l.must("up")
	l.converged(4, 10)
}

// afterStory tests that commits made and reverted by a scenario do not count as foreign.
func afterStory(t *testing.T, l *testLab, file string) {
	l.must("scenario", "run", "addon-toggle")
	l.write(file, l.read(file)+"# after the story\n")
	l.must("up") // not blocked by the scenario's commits
	l.must("scenario", "run", "addon-toggle")
	committed(t, l, file, "after the story", func(text string) string { return "# theirs, too\n" + text })
	refused := l.refused("diverged", "up")
	named := slices.DeleteFunc(slices.Clone(refused.Details), func(line string) bool { return strings.HasPrefix(line, " ") })
	if len(named) != 1 || !strings.Contains(named[0], "after the story (Another Person)") {
		t.Errorf("refused with %q, want the one commit that was not reverted", refused.Details)
	}
	l.must(strings.Fields(refused.Cure)[1:]...)
	l.must("up")
	l.converged(4, 10)
}

// committed commits to the forge as another user, through a clone.
func committed(t *testing.T, l *testLab, file, message string, change func(string) string) {
	t.Helper()
	clone := filepath.Join(t.TempDir(), "clone")
	url := strings.TrimSpace(l.must("git", "url", "--credentials").stdout)
	git(t, t.TempDir(), "clone", "--quiet", url, clone)
	other := &testLab{t: t, estate: clone}
	other.write(file, change(other.read(file)))
	git(t, clone, "commit", "--quiet", "--all", "--author", "Another Person <another@example.com>", "--message", message)
	git(t, clone, "push", "--quiet")
}

// refused runs a command that must fail with a code.
func (l *testLab) refused(code string, args ...string) ui.ErrorBody {
	l.t.Helper()
	return l.fails(lab.ExitFailed, code, args...)
}

// fails runs a command that must fail with an exit code and an error code.
func (l *testLab) fails(exit lab.Exit, code string, args ...string) ui.ErrorBody {
	l.t.Helper()
	out := l.run(append(args, "-o", "json")...)
	var e ui.ErrorResult
	if err := json.Unmarshal([]byte(out.stdout), &e); err != nil {
		l.t.Fatalf("lab %s: %v in %q", strings.Join(args, " "), err, out.stdout)
	}
	if out.code != int(exit) || e.Error.Code != code {
		l.t.Errorf("lab %s: exit %d, %+v, want %s", strings.Join(args, " "), out.code, e.Error, code)
	}
	return e.Error
}

func (l *testLab) read(file string) string {
	l.t.Helper()
	data, err := os.ReadFile(filepath.Join(l.estate, file))
	if err != nil {
		l.t.Fatal(err)
	}
	return string(data)
}
