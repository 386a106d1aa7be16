package forge

import (
	"io/fs"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// git runs git in a folder.
func (b *bench) git(dir string, args ...string) string {
	b.t.Helper()
	out, err := b.tryGit(dir, args...)
	if err != nil {
		b.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

func (b *bench) tryGit(dir string, args ...string) (string, error) {
	b.t.Helper()
	cmd := exec.CommandContext(b.t.Context(), "git", append([]string{"-C", dir}, args...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// initRepository makes the estate a Git repository with an initial commit.
func (b *bench) initRepository(dir string) {
	b.t.Helper()
	b.t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(b.t.TempDir(), "gitconfig"))
	b.t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	b.git(dir, "config", "--global", "user.name", "Test User")
	b.git(dir, "config", "--global", "user.email", "person@example.com")
	b.git(dir, "config", "--global", "pull.rebase", "false")
	b.git(dir, "config", "--global", "commit.gpgsign", "false")
	b.git(dir, "init", "--quiet", "--initial-branch", "work")
	b.save(dir, "mine")
}

func (b *bench) save(dir, message string) string {
	b.t.Helper()
	b.git(dir, "add", "--all")
	b.git(dir, "commit", "--quiet", "--message", message)
	return b.git(dir, "rev-parse", "HEAD")
}

func (b *bench) parents(commit string) []string {
	b.t.Helper()
	return strings.Fields(b.git(b.remote.URL, "log", "-1", "--format=%P", commit))
}

// A clean clone shares its history: the branch is the user's commit, and git pull works both ways.
func TestPushCleanClone(t *testing.T) {
	b := newBench(t)
	b.write(b.dir, map[string]string{"a": "1\n", "b": "1\n"})
	b.initRepository(b.dir)
	before := b.files(filepath.Join(b.dir, ".git"))
	got, err := b.push()
	b.must(err)
	if head := b.git(b.dir, "rev-parse", "HEAD"); got.Commit != head || !got.Pushed || !slices.Equal(got.Changed, []string{"a", "b"}) {
		t.Errorf("pushed %+v, want the user's own commit %s", got, head)
	}
	if after := b.files(filepath.Join(b.dir, ".git")); !slices.Equal(after, before) {
		t.Errorf("a push wrote to the user's repository:\n%q\nwas\n%q", after, before)
	}
	theirs := b.other("theirs", map[string]string{"b": "9\n"})
	b.git(b.dir, "pull", b.remote.URL, "main")
	if head := b.git(b.dir, "rev-parse", "HEAD"); head != theirs.String() {
		t.Errorf("pulled to %s, want %s", head, theirs)
	}
	b.write(b.dir, map[string]string{"a": "2\n"})
	mine := b.save(b.dir, "mine again")
	if got, err := b.push(); err != nil || got.Commit != mine {
		t.Errorf("pushed %+v, %v, want %s", got, err, mine)
	}
}

// Uncommitted changes are pushed in a commit of lab's on top of the forge's head and the user's.
func TestPushDirtyTree(t *testing.T) {
	b := newBench(t)
	b.write(b.dir, map[string]string{"a": "1\n", "b": "1\n", "c": "1\n"})
	b.initRepository(b.dir)
	head := b.git(b.dir, "rev-parse", "HEAD")
	b.write(b.dir, map[string]string{"a": "2\n"})
	first, err := b.push()
	b.must(err)
	if got := b.parents(first.Commit); !slices.Equal(got, []string{head}) {
		t.Errorf("parents %q, want the user's commit", got)
	}
	b.write(b.dir, map[string]string{"a": "3\n"})
	second, err := b.push()
	b.must(err)
	if got := b.parents(second.Commit); !slices.Equal(got, []string{first.Commit}) {
		t.Errorf("parents %q: the user's commit is in the forge already", got)
	}
	head = b.save(b.dir, "a is 3")
	b.write(b.dir, map[string]string{"c": "2\n"})
	third, err := b.push()
	b.must(err)
	if got := b.parents(third.Commit); !slices.Equal(got, []string{second.Commit, head}) {
		t.Errorf("parents %q, want the forge's head and the user's", got)
	}
	b.git(b.dir, "checkout", "--quiet", "c")
	b.write(b.dir, map[string]string{"a": "not committed\n"}) // git pull permits unrelated uncommitted changes
	b.other("theirs", map[string]string{"b": "9\n"})
	b.git(b.dir, "pull", "--no-edit", b.remote.URL, "main")
	if got := onDisk(t, b.dir); got["b"] != "9\n" || got["c"] != "2\n" || got["a"] != "not committed\n" {
		t.Errorf("pulled %q", got["b"])
	}
}

func TestPushOntoUnrelatedHistory(t *testing.T) {
	b := newBench(t)
	b.write(b.dir, map[string]string{"a": "1\n"})
	old, err := b.push()
	b.must(err)
	b.initRepository(b.dir)
	b.write(b.dir, map[string]string{"a": "2\n"})
	head := b.save(b.dir, "two")
	got, err := b.push()
	b.must(err)
	if parents := b.parents(got.Commit); !slices.Equal(parents, []string{old.Commit, head}) {
		t.Errorf("parents %q", parents)
	}
	b.git(b.dir, "pull", b.remote.URL, "main")
}

func TestPushWithoutSharing(t *testing.T) {
	for name, spoil := range map[string]func(b *bench){
		"shallow": func(b *bench) {
			b.write(b.dir, map[string]string{".git/shallow": b.git(b.dir, "rev-parse", "HEAD") + "\n"})
		},
		"a blob is missing": func(b *bench) {
			hash := b.git(b.dir, "rev-parse", "HEAD~1:a")
			b.must(os.Remove(filepath.Join(b.dir, ".git", "objects", hash[:2], hash[2:])))
		},
		"a commit is missing": func(b *bench) {
			hash := b.git(b.dir, "rev-parse", "HEAD~1")
			b.must(os.Remove(filepath.Join(b.dir, ".git", "objects", hash[:2], hash[2:])))
		},
		"no commit":    func(b *bench) { b.git(b.dir, "update-ref", "-d", "HEAD") },
		"invalid HEAD": func(b *bench) { b.write(b.dir, map[string]string{".git/HEAD": "nonsense\n"}) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write(b.dir, map[string]string{"a": "1\n"})
			b.initRepository(b.dir)
			b.write(b.dir, map[string]string{"a": "2\n"})
			b.save(b.dir, "two")
			spoil(b)
			got, err := b.push()
			b.must(err)
			if parents := b.parents(got.Commit); !got.Pushed || len(parents) > 0 {
				t.Errorf("pushed %+v with parents %q", got, parents)
			}
		})
	}
}

// files returns the files below a folder, with size and time.
func (b *bench) files(dir string) []string {
	b.t.Helper()
	var list []string
	b.must(filepath.WalkDir(dir, func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		list = append(list, file+" "+info.ModTime().Format(time.RFC3339Nano))
		return err
	}))
	return list
}

// Commits between fetch and push are handled, however often that happens.
func TestPushRace(t *testing.T) {
	for name, test := range map[string]struct {
		file  string // changed by the other user
		times int
		want  string // code of the rejection, or empty
	}{
		"apart from ours": {"theirs", 1, "diverged"},
		"as ours":         {"a", 1, ""},
		"again and again": {"a", pushAttempts - 1, ""},
		"without end":     {"a", pushAttempts, "push"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write(b.dir, map[string]string{"a": "1\n", "b": "1\n"})
			_, err := b.push()
			b.must(err)
			b.write(b.dir, map[string]string{"a": "2\n", "b": "2\n"})
			now, n := b.remote.Now, 0
			b.remote.Now = func() time.Time { // called between fetch and push
				switch n++; {
				case n == 1:
					b.other("theirs", map[string]string{test.file: "2\n"})
				case n <= test.times:
					ann := []string{"-c", "user.name=ann", "-c", "user.email=ann@example.org", "commit-tree", "main^{tree}", "-p", "main", "-m", "and one"}
					b.git(b.remote.URL, "update-ref", "refs/heads/main", b.git(b.remote.URL, ann...))
				}
				return now()
			}
			_, err = b.push()
			switch {
			case test.want == "":
				b.must(err)
				held, subjects := b.held()
				if held["a"] != "2\n" || held["b"] != "2\n" || !slices.Contains(subjects, "theirs") {
					t.Errorf("files in forge %v, commits %q", held, subjects)
				}
			case test.want == "push":
				if err == nil || !strings.Contains(err.Error(), "push to the forge") {
					t.Errorf("error %v", err)
				}
			case !coded(err, test.want):
				t.Errorf("error %v, want %s", err, test.want)
			}
			if n > pushAttempts {
				t.Errorf("tried %d times", n)
			}
		})
	}
}

// HTTP, as to Gitea.
func TestHTTP(t *testing.T) {
	exe, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	b, _ := newPullBench(t)
	server := httptest.NewServer(&cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(exe)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + filepath.Dir(b.remote.URL), "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=lab"},
	})
	defer server.Close()
	b.remote.URL = server.URL + "/" + filepath.Base(b.remote.URL)
	b.write(b.dir, map[string]string{"a": "1\n"})
	b.initRepository(b.dir)
	first, err := b.push()
	b.must(err)
	if head := b.git(b.dir, "rev-parse", "HEAD"); first.Commit != head {
		t.Errorf("pushed %+v, want %s", first, head)
	}
	theirs := b.theirs(map[string]string{"a": "9\n"})
	if ahead, err := b.remote.Ahead(t.Context(), b.tree()); err != nil || len(ahead) != 1 {
		t.Errorf("ahead %+v, %v", ahead, err)
	}
	if _, err := b.push(); !coded(err, "diverged") {
		t.Errorf("pushed: %v", err)
	}
	got, err := b.pull()
	b.must(err)
	if got.Commit != theirs || got.Committed == "" {
		t.Errorf("pulled %+v", got)
	}
	if ahead, err := b.remote.Ahead(t.Context(), b.tree()); err != nil || len(ahead) > 0 {
		t.Errorf("ahead %+v, %v", ahead, err)
	}
	if pushed, err := b.push(); err != nil || pushed.Pushed && pushed.Commit != got.Committed {
		t.Errorf("pushed %+v, %v", pushed, err)
	}
	b.git(b.dir, "pull", b.remote.URL, "main")
}

// BenchmarkShare pushes this repository's history and one commit on top of it.
func BenchmarkShare(bm *testing.B) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		bm.Fatal(err)
	}
	tree := Tree{Dir: root}
	var took [2]time.Duration
	for bm.Loop() {
		bare := filepath.Join(bm.TempDir(), "estate.git")
		if out, err := exec.CommandContext(bm.Context(), "git", "init", "--quiet", "--bare", bare).CombinedOutput(); err != nil {
			bm.Fatalf("%v %s", err, out)
		}
		r := Remote{URL: bare, Now: time.Now}
		for i, tree := range []Tree{tree, {FS: fstest.MapFS{"a": {Data: []byte("a")}}}} {
			began := time.Now()
			if got, err := r.Push(bm.Context(), tree, "bench"); err != nil || !got.Pushed {
				bm.Fatal(got, err)
			}
			took[i] += time.Since(began)
		}
		if err := exec.CommandContext(bm.Context(), "git", "-C", bare, "merge-base", "--is-ancestor", "HEAD", "HEAD").Run(); err != nil {
			bm.Fatal("the history was not pushed")
		}
	}
	bm.ReportMetric(took[0].Seconds()/float64(bm.N), "s/first")
	bm.ReportMetric(took[1].Seconds()/float64(bm.N), "s/next")
}
