//go:build e2e

package render

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"homelab/lab/argo"
)

var record = flag.Bool("record", false, "record the repo-server's results instead of comparing them")

// question and answer are those of .recorder.
type question struct {
	Application  json.RawMessage  `json:"application"`
	Repositories map[string]clone `json:"repositories"`
	KubeVersion  string           `json:"kubeVersion"`
	APIVersions  []string         `json:"apiVersions"`
}

type clone struct {
	URL    string `json:"url"`
	Commit string `json:"commit"`
}

type answer struct {
	Types     []string         `json:"types"`
	Manifests []map[string]any `json:"manifests"`
	Error     string           `json:"error"`
}

// fleeting matches what differs between runs in errors: temporary files, addresses, and commands, whose options are in random order.
var fleeting = regexp.MustCompile("/tmp/_argocd-repo/[-0-9a-f]+|/tmp/[-\\w]+|`[^`]*`|0x[0-9a-f]{6,}")

// mounted is where the repo-server finds the folder LAB_REPOSITORIES.
const mounted = "file:///git/"

// TestOnRepoServer compares the recordings with what a real repo-server makes of the cases; with -record, it writes them. LAB_REPO_SERVER is its address and
// LAB_E2E_VERSION its version, LAB_RECORDER the program of .recorder.
func TestOnRepoServer(t *testing.T) {
	server, version, dir := os.Getenv("LAB_REPO_SERVER"), os.Getenv("LAB_E2E_VERSION"), os.Getenv("LAB_REPOSITORIES")
	if server == "" || version == "" || dir == "" {
		t.Fatal("LAB_REPO_SERVER, LAB_E2E_VERSION or LAB_REPOSITORIES is not set: task record-render sets them")
	}
	m, _ := argo.ParseMinor(version)
	r := start(t, server)
	for _, c := range casesOf(t) {
		t.Run(c.name, func(t *testing.T) {
			q := c.question(t, dir, m)
			got, again := r.ask(t, q), r.ask(t, q)
			if got.Error != again.Error || len(got.Objects) != len(again.Objects) {
				t.Fatalf("another result each time: %s%d objects, %s%d objects", got.Error, len(got.Objects), again.Error, len(again.Objects))
			}
			for i, o := range got.Objects {
				got.Objects[i] = agreed(o, again.Objects[i]).(map[string]any)
			}
			if *record {
				c.record(t, m, got)
			} else if diff := gocmp.Diff(asYAML(t, c.want(t, m)), asYAML(t, got)); diff != "" {
				t.Errorf("- recorded, + repo-server:\n%s", diff)
			}
		})
	}
}

// question commits the repositories of a case to bare ones below dir.
func (c renderCase) question(t *testing.T, dir string, m argo.Minor) question {
	t.Helper()
	application, err := yaml.YAMLToJSON(c.text)
	if err != nil {
		t.Fatal(err)
	}
	q := question{Application: application, Repositories: map[string]clone{}, KubeVersion: c.destination.Version, APIVersions: c.destination.APIVersions}
	if !m.Has(4) {
		v := strings.Split(strings.TrimPrefix(q.KubeVersion, "v"), ".")
		q.KubeVersion = v[0] + "." + v[1]
	}
	for url, from := range c.repositories {
		name, work := c.name+"/"+strings.TrimPrefix(url, host), t.TempDir()
		bare := filepath.Join(dir, name)
		if err := os.CopyFS(work, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		git(t, "", "init", "-q", "--bare", "-b", "main", bare)
		git(t, work, "init", "-q", "-b", "main")
		git(t, work, "add", "-A", "-f")
		git(t, work, "commit", "-q", "--allow-empty", "-m", "test")
		git(t, work, "push", "-q", bare, "HEAD:main")
		q.Repositories[url] = clone{URL: mounted + name, Commit: git(t, work, "rev-parse", "HEAD")}
	}
	return q
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=lab", "-c", "user.email=lab@localhost"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_DATE=2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// recorder is a running program of .recorder.
type recorder struct {
	questions *json.Encoder
	answers   *json.Decoder
}

func start(t *testing.T, server string) recorder {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Getenv("LAB_RECORDER"), server)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait() //nolint:errcheck // it has answered, or the test has failed
	})
	return recorder{json.NewEncoder(in), json.NewDecoder(out)}
}

// ask returns the repo-server's answer with the addresses of the corpus, and zeros for commits.
func (r recorder) ask(t *testing.T, q question) want {
	t.Helper()
	var out json.RawMessage
	err := r.questions.Encode(q)
	if err == nil {
		err = r.answers.Decode(&out)
	}
	if err != nil {
		t.Fatal(err)
	}
	for url, at := range q.Repositories {
		out = bytes.ReplaceAll(out, []byte(at.URL), []byte(url))
		for _, length := range []int{len(commit), 8, 7} {
			out = bytes.ReplaceAll(out, []byte(at.Commit[:length]), []byte(commit[:length]))
		}
	}
	var a answer
	if err := json.Unmarshal(out, &a); err != nil {
		t.Fatal(err)
	}
	w := want{Types: a.Types, Objects: a.Manifests}
	if a.Error != "" {
		first, _, _ := strings.Cut(a.Error, "\n")
		w = want{Error: fleeting.ReplaceAllString(first, "...")}
	}
	w.normalise()
	return w
}

// agreed replaces what differs between two results.
func agreed(a, b any) any {
	switch x := a.(type) {
	case map[string]any:
		y, _ := b.(map[string]any)
		for key := range x {
			x[key] = agreed(x[key], y[key])
		}
	case []any:
		y, _ := b.([]any)
		for i := range min(len(x), len(y)) {
			x[i] = agreed(x[i], y[i])
		}
	case string:
		if a != b {
			return varies
		}
	}
	return a
}

// record writes what a minor does. What others did before is kept.
func (c renderCase) record(t *testing.T, m argo.Minor, w want) {
	t.Helper()
	results := map[argo.Minor]string{}
	for _, version := range versions {
		other, _ := argo.ParseMinor(version)
		if before := c.want(t, other); before != nil {
			results[other] = asYAML(t, before)
		}
	}
	results[m] = asYAML(t, w)
	newest, _ := argo.ParseMinor(versions[0])
	for m, text := range results {
		var err error
		if m != newest && text == results[newest] {
			if err = os.Remove(c.file(m)); os.IsNotExist(err) {
				err = nil
			}
		} else {
			err = os.WriteFile(c.file(m), []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
