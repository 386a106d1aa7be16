package review_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.yaml.in/yaml/v3"

	"homelab/lab/cli"
	"homelab/lab/review"
)

var root, _ = filepath.Abs("../..")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"lab": func() {
			os.Exit(int(cli.Run(context.Background(), cli.Env{Args: append([]string{"lab"}, os.Args[1:]...), Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Estate: os.DirFS(root)})))
		},
		"note": func() {
			said, err := review.Post(context.Background(), os.Args[1], os.Getenv)
			if fmt.Println(said); err != nil {
				os.Exit(1)
			}
		},
	})
}

// forge is an API of GitHub and GitLab in memory.
type forge struct {
	t *testing.T

	mu       sync.Mutex // of the following
	readOnly bool
	comments []map[string]any
	calls    []string
}

// has returns the comments and the calls.
func (f *forge) has() (comments []map[string]any, calls []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.comments), slices.Clone(f.calls)
}

const token = "secret-token"

func (f *forge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, r.Method+" "+r.URL.RequestURI())
	gitlab := strings.HasPrefix(r.URL.Path, "/projects/") || r.URL.Path == "/user"
	if !gitlab && r.Header.Get("Authorization") != "Bearer "+token || gitlab && r.Header.Get("PRIVATE-TOKEN") != token {
		f.t.Errorf("%s: headers %v", r.URL, r.Header)
	}
	if f.readOnly && r.Method != http.MethodGet {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"message": "::error::Resource not accessible by integration"}`)
		return
	}
	var sent struct{ Body string }
	switch r.Method {
	case http.MethodGet:
		if r.URL.Path == "/user" {
			fmt.Fprint(w, `{"id": 7}`)
			return
		}
		list := f.comments
		if r.URL.Query().Get("page") != "1" {
			list = nil
		}
		_ = json.NewEncoder(w).Encode(list)
		return
	case http.MethodPost:
		_ = json.NewDecoder(r.Body).Decode(&sent)
		f.comments = append(f.comments, map[string]any{"id": 100 + len(f.comments), "body": sent.Body, "user": map[string]any{"login": "github-actions[bot]"}, "author": map[string]any{"id": 7}})
	default:
		_ = json.NewDecoder(r.Body).Decode(&sent)
		for _, c := range f.comments {
			if strings.HasSuffix(r.URL.Path, fmt.Sprint("/", c["id"])) {
				c["body"] = sent.Body
			}
		}
	}
	fmt.Fprint(w, "{}")
}

// clone is a repository of Argo CD with a commit before and after a change, whose names are hostile.
func clone(t *testing.T) (dir, base, head string) {
	t.Helper()
	dir = t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@lab.invalid"}, args...)...).Output()
		if err != nil {
			t.Fatal(args, err)
		}
		return strings.TrimSpace(string(out))
	}
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const app = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: web, namespace: argocd}\nspec:\n  project: default\n  source: {repoURL: 'https://github.com/acme/gitops', path: web, targetRevision: main}\n  destination: {namespace: web, name: in-cluster}\n  syncPolicy: {automated: {}}\n"
	write("app.yaml", app)
	write("web/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {a: b}\n")
	git("init", "--quiet", "--initial-branch", "main")
	git("remote", "add", "origin", "https://github.com/acme/gitops")
	git("add", "--all")
	git("commit", "--quiet", "--message", "one")
	git("checkout", "--quiet", "-b", "$(touch${IFS}pwned)`touch${IFS}pwned`")
	write("web/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {a: \"```\\n<img src=x onerror=alert(1)> @acme/admins ]]> ${{ secrets.X }}\\n#### x\\n\"}\n")
	for i, name := range []string{"-rf", "`touch pwned`", "$(touch pwned)", " ::set-output name=x::y", "::add-mask::x", "]]>", "<b>@admins"} {
		write("web/"+name+".yaml", fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: web-%d}\nspec: {containers: [{name: web, image: nginx}]}\n", i))
	}
	git("add", "--all")
	git("commit", "--quiet", "--message", "::set-output name=x::y\n\n`touch pwned` $(touch pwned)")
	return dir, git("rev-parse", "main"), git("rev-parse", "HEAD")
}

type job struct {
	dir, out, script string
	env              []string
}

// run runs the script, and returns what is in the log.
func (j job) run(t *testing.T, want int, env ...string) string {
	t.Helper()
	lab, err := exec.LookPath("lab")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", j.script, "run", filepath.Dir(lab), j.out)
	home := t.TempDir()
	cmd.Dir, cmd.Env = j.dir, slices.Concat([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "LAB_IMAGES=source", "LAB_REVIEW_TOKEN=" + token, "DOCKER_HOST=unix://" + home + "/none"}, j.env, env)
	text, _ := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != want {
		t.Errorf("exit %d, want %d: %s", got, want, text)
	}
	if _, err := os.Stat(filepath.Join(j.dir, "pwned")); err == nil {
		t.Error("a name was run")
	}
	if log := string(text); strings.Contains(log, "::") || strings.Contains(log, token) || strings.Contains(log, "web") {
		t.Errorf("log: %s", log)
	}
	return string(text)
}

var (
	fenced = regexp.MustCompile("(?ms)^(````*)[a-z]*\n.*?^(````*)\n")
	spans  = regexp.MustCompile("(?s)`+ .*? `+")
)

func TestGitHub(t *testing.T) {
	dir, base, head := clone(t)
	api := &forge{t: t, comments: []map[string]any{{"id": 1, "body": "<!-- lab review of 2e -->", "user": map[string]any{"login": "mallory"}}}}
	server := httptest.NewServer(api)
	defer server.Close()
	summary, output := filepath.Join(t.TempDir(), "summary"), filepath.Join(t.TempDir(), "output")
	j := job{dir: dir, out: t.TempDir(), script: filepath.Join(root, ".github/actions/review/review"), env: []string{
		"GITHUB_ACTIONS=true", "GITHUB_API_URL=" + server.URL, "GITHUB_REPOSITORY=acme/gitops", "GITHUB_STEP_SUMMARY=" + summary, "GITHUB_OUTPUT=" + output,
		"LAB_REVIEW_BASE=" + base, "LAB_REVIEW_HEAD=" + head, "LAB_REVIEW_REQUEST=3",
	}}
	if log := j.run(t, 0); log != "commented\n" {
		t.Errorf("log %q", log)
	}
	if log := j.run(t, 0); log != "the comment is up to date\n" {
		t.Errorf("log %q", log)
	}
	j.run(t, 2, "LAB_REVIEW_STRICT=true")
	if text, _ := os.ReadFile(output); !strings.HasPrefix(string(text), "sarif=yes\n") {
		t.Errorf("output %q", text)
	}
	if log := j.run(t, 0, "LAB_REVIEW_BASE="+head); log != "updated the comment\n" {
		t.Errorf("log %q", log)
	}
	j.run(t, 0)
	comments, _ := api.has()
	if len(comments) != 2 || comments[0]["body"] != "<!-- lab review of 2e -->" {
		t.Fatalf("%v", comments)
	}
	body, _ := comments[1]["body"].(string)
	for _, want := range []string{"<!-- lab review of 2e -->\n### lab diff\n", "Pod web/web-6", "### lab lint\n\nerrors: 0, warnings: 7.\n", "- warning ` floating-image ` ` web/-rf.yaml:4 ` "} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	plain := spans.ReplaceAllString(fenced.ReplaceAllString(body, ""), "")
	if strings.Contains(plain, "@") || strings.Contains(strings.TrimPrefix(plain, "<!-- lab review of 2e -->"), "<") {
		t.Errorf("outside of code:\n%s", plain)
	}

	api.mu.Lock()
	api.readOnly, api.comments = true, nil
	api.mu.Unlock()
	if log := j.run(t, 0); log != "no comment: the API answers 403; the review is in the job's summary\n" {
		t.Errorf("log %q", log)
	}
	if text, _ := os.ReadFile(summary); string(text) != body+"\n" {
		t.Errorf("summary %s", text)
	}
	_, calls := api.has()
	j.run(t, 0, "LAB_REVIEW_TOKEN=")
	j.run(t, 0, "LAB_REVIEW_REQUEST=../1")
	for _, bad := range []string{"", "main", "--upload-pack=x", "$(touch pwned)"} {
		j.run(t, 2, "LAB_REVIEW_BASE="+bad)
	}
	if _, more := api.has(); len(more) != len(calls) {
		t.Errorf("calls %q", more[len(calls):])
	}
	server.Close()
	if log := j.run(t, 0); log != "no comment: the API cannot be reached; the review is in the job's summary\n" {
		t.Errorf("log %q", log)
	}
	j.run(t, 2, "LAB_REVIEW_ESTATE=nowhere")

	// lab reads no commit with a name of several lines
	if err := os.WriteFile(filepath.Join(dir, "web", "a\n::set-output name=x::y"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"add", "--all"}, {"-c", "user.name=a", "-c", "user.email=a@lab.invalid", "commit", "--quiet", "--message", "three"}} {
		if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	out, err := exec.CommandContext(t.Context(), "git", "-C", dir, "rev-parse", "HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	j.run(t, 2, "LAB_REVIEW_HEAD="+strings.TrimSpace(string(out)))
}

func TestGitLab(t *testing.T) {
	dir, base, head := clone(t)
	api := &forge{t: t, comments: []map[string]any{{"id": 1, "body": "<!-- lab review of 2e -->", "author": map[string]any{"id": 8}}}}
	server := httptest.NewServer(api)
	defer server.Close()
	j := job{dir: dir, out: t.TempDir(), script: filepath.Join(root, ".github/actions/review/review"), env: []string{
		"GITLAB_CI=true", "CI_API_V4_URL=" + server.URL, "CI_MERGE_REQUEST_PROJECT_ID=5", "LAB_REVIEW_BASE=" + base, "LAB_REVIEW_HEAD=" + head, "LAB_REVIEW_REQUEST=3",
	}}
	if log := j.run(t, 0) + j.run(t, 0) + j.run(t, 0, "LAB_REVIEW_BASE="+head); log != "commented\nthe comment is up to date\nupdated the comment\n" {
		t.Errorf("log %q", log)
	}
	if _, calls := api.has(); calls[len(calls)-1] != "PUT /projects/5/merge_requests/3/notes/101" {
		t.Errorf("calls %q", calls)
	}
	if log := j.run(t, 0, "LAB_REVIEW_TOKEN="); log != "no comment: no token or no pull request; the review is in review.md\n" {
		t.Errorf("log %q", log)
	}
}

// expression matches what GitHub replaces in a text before a shell sees it.
var expression = regexp.MustCompile(`\$\{\{`)

// What is given to a shell has no expressions, and what is used is pinned by its digest.
func TestAction(t *testing.T) {
	var action struct {
		Runs struct {
			Using string
			Steps []struct{ Uses, Run, Shell string }
		}
	}
	read(t, ".github/actions/review/action.yml", &action)
	runs := 0
	for _, s := range action.Runs.Steps {
		if s.Run != "" {
			runs++
		}
		if expression.MatchString(s.Run) || (s.Run != "") != (s.Shell != "") {
			t.Errorf("run %q in %q", s.Run, s.Shell)
		}
		if s.Uses != "" && !regexp.MustCompile(`^[a-z-]+/[a-z/-]+@[0-9a-f]{40}$`).MatchString(s.Uses) {
			t.Errorf("uses %s", s.Uses)
		}
	}
	if action.Runs.Using != "composite" || runs != 3 {
		t.Errorf("%+v", action)
	}
}

func TestTemplates(t *testing.T) {
	var hooks []struct{ ID, Name, Entry, Language, Files string }
	read(t, ".pre-commit-hooks.yaml", &hooks)
	if len(hooks) != 1 || hooks[0].ID == "" || hooks[0].Name == "" || hooks[0].Language != "golang" || !regexp.MustCompile(hooks[0].Files).MatchString("clusters/hub/cluster.yaml") {
		t.Fatalf("%+v", hooks)
	}
	dir, _, _ := clone(t)
	entry := strings.Fields(hooks[0].Entry)
	if entry[0] != "homelab" { // as go install names the program, after the module
		t.Error(entry)
	}
	cmd := exec.CommandContext(t.Context(), "lab", entry[1:]...)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "LAB_IMAGES=source"}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "7 warnings") {
		t.Errorf("%v: %s", err, out)
	}

	var pipeline map[string]struct {
		Variables map[string]string
		Script    []string
		Rules     []map[string]string
	}
	read(t, ".gitlab/ci/review.yml", &pipeline)
	review := pipeline["lab-review"]
	if len(pipeline) != 1 || review.Variables["LAB_REVIEW_BASE"] != "$CI_MERGE_REQUEST_DIFF_BASE_SHA" || review.Variables["GIT_DEPTH"] != "0" || len(review.Rules) != 1 {
		t.Errorf("%+v", pipeline)
	}
	if out, err := exec.CommandContext(t.Context(), "sh", "-n", "-c", strings.Join(review.Script, "\n")).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, file))
	if err == nil {
		err = yaml.Unmarshal(data, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
