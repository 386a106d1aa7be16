package supervise_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"homelab/lab/gitfiles"
	"homelab/lab/runner/job"
	"homelab/lab/runner/supervise"
	"homelab/lab/runner/supervise/supervisetest"
)

func hmacOf(secret, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil))
}

// repository is a bare repository with two branches, and its commits.
func repository(t *testing.T) (dir string, commits map[string]string) {
	t.Helper()
	work := t.TempDir()
	git := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"}, args...)...)
		cmd.Dir = work
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(work, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		git("add", "-A")
		git("commit", "--quiet", "-m", name)
	}
	git("init", "--quiet")
	write("a", "1")
	write(job.File, "checks: [lint]\n")
	commits = map[string]string{"merge": git("rev-parse", "HEAD")}
	git("switch", "--quiet", "-c", "feature")
	write("a", "2")
	commits["head"] = git("rev-parse", "HEAD")
	git("switch", "--quiet", "main")
	write("b", "1")
	commits["base"] = git("rev-parse", "HEAD")
	git("config", "uploadpack.allowAnySHA1InWant", "true") // as Gitea does
	return filepath.Join(work, ".git"), commits
}

// served is an API like Gitea's over a repository, whose objects git itself serves.
func served(t *testing.T) (*supervise.Gitea, supervisetest.Scene) {
	t.Helper()
	dir, commits := repository(t)
	backend, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	objects := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(backend)), "git-http-backend"), Root: "/lab/estate.git", Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}
	type comment struct {
		ID   int               `json:"id"`
		Body string            `json:"body"`
		User map[string]string `json:"user"`
	}
	comments := []*comment{{1, supervise.Marker + " of somebody else", map[string]string{"login": "mallory"}}}
	statuses := []supervise.Status{}
	body := func(r *http.Request) (sent map[string]string) {
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			t.Error(err)
		}
		return sent
	}
	answer := func(w http.ResponseWriter, v any) {
		if err := json.NewEncoder(w).Encode(v); err != nil {
			t.Error(err)
		}
	}
	mux := http.NewServeMux()
	const repo = "/api/v1/repos/lab/estate"
	mux.HandleFunc("GET "+repo+"/pulls", func(w http.ResponseWriter, r *http.Request) {
		sha := func(c string) map[string]string { return map[string]string{"sha": commits[c]} }
		answer(w, []map[string]any{{"number": 1, "title": "feature", "head": sha("head"), "base": sha("base"), "merge_base": commits["merge"]}})
	})
	mux.HandleFunc("GET "+repo+"/contents/{path...}", func(w http.ResponseWriter, r *http.Request) {
		text, err := exec.CommandContext(r.Context(), "git", "--git-dir="+dir, "show", r.URL.Query().Get("ref")+":"+r.PathValue("path")).Output()
		if err != nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		answer(w, map[string]any{"type": "file", "size": len(text), "content": text})
	})
	mux.HandleFunc("POST "+repo+"/statuses/{sha}", func(w http.ResponseWriter, r *http.Request) {
		sent := body(r)
		statuses = append(statuses, supervise.Status{Context: sent["context"], State: supervise.State(sent["state"]), Description: sent["description"]})
		w.WriteHeader(http.StatusCreated)
	})
	mux.HandleFunc("GET "+repo+"/issues/1/comments", func(w http.ResponseWriter, _ *http.Request) { answer(w, comments) })
	mux.HandleFunc("POST "+repo+"/issues/1/comments", func(w http.ResponseWriter, r *http.Request) {
		comments = append(comments, &comment{len(comments) + 1, body(r)["body"], map[string]string{"login": "lab-runner"}})
		w.WriteHeader(http.StatusCreated)
	})
	mux.HandleFunc("PATCH "+repo+"/issues/comments/{id}", func(w http.ResponseWriter, r *http.Request) {
		for _, c := range comments {
			if fmt.Sprint(c.ID) == r.PathValue("id") {
				c.Body = body(r)["body"]
			}
		}
	})
	mux.Handle("/lab/estate.git/", objects)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "lab-runner" || password != "token" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return supervise.NewGitea(server.URL+"/", "lab", "estate", "lab-runner", "token"), supervisetest.Scene{
		Number: 1, Head: commits["head"], Base: commits["base"], MergeBase: commits["merge"],
		Statuses: func() []supervise.Status { return statuses },
		Comments: func() (list []string) {
			for _, c := range comments {
				list = append(list, c.Body)
			}
			return list
		},
	}
}

func TestGitea(t *testing.T) {
	g, scene := served(t)
	supervisetest.Contract(t, g, scene)
}

// What a forge answers that is none is an error, and bounded.
func TestGiteaFails(t *testing.T) {
	var answer http.HandlerFunc
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w, r) }))
	t.Cleanup(server.Close)
	g := supervise.NewGitea(server.URL+"/", "lab", "estate", "u", "p")
	g.MaxAPI = 1 << 10
	for name, a := range map[string]http.HandlerFunc{
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		},
		"garbage": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "no JSON") },
		"endless": func(w http.ResponseWriter, _ *http.Request) {
			for range 100 {
				fmt.Fprint(w, `[`, strings.Repeat(" ", 1<<10))
			}
		},
		"error": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "0035ERR upload-pack: not our ref \x1b[2J aaaaaaaaaaaaaaa\n")
		},
		"lines": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("0000", 1000)) },
		"none":  func(http.ResponseWriter, *http.Request) {},
	} {
		answer = a
		if list, err := g.Requests(t.Context()); err == nil {
			t.Errorf("%s: %v", name, list)
		}
		if _, err := g.File(t.Context(), "c", "f", 10); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := g.Pack(t.Context(), "c"); err == nil || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The pack that the forge serves has the files of both commits.
func TestPackIsRead(t *testing.T) {
	g, scene := served(t)
	r, err := g.Pack(t.Context(), scene.MergeBase, scene.Head)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	clone, err := gitfiles.OfPack(r)
	if err != nil {
		t.Fatal(err)
	}
	for commit, want := range map[string]string{scene.MergeBase: "1", scene.Head: "2"} {
		files, err := clone.Files(commit)
		if err != nil {
			t.Fatal(err)
		}
		if data, err := fs.ReadFile(files, "a"); err != nil || string(data) != want {
			t.Errorf("%s: %q, %v", commit, data, err)
		}
	}
}
