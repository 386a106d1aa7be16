package forge

import (
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"homelab/lab/gitfiles"
)

// snares is a clone's configuration that names programs and hosts. TRAP is a program that leaves a file, HOST a server that records requests, FORGE the forge.
const snares = `
[core]
	fsmonitor = TRAP fsmonitor
	hooksPath = HOOKS
	sshCommand = TRAP ssh
	gitProxy = TRAP proxy
	pager = TRAP pager
	editor = TRAP editor
	askPass = TRAP askpass
	alternateRefsCommand = TRAP alternates
[include]
	path = included
[includeIf "gitdir:**"]
	path = included
[filter "x"]
	clean = TRAP clean
	smudge = TRAP smudge
	process = TRAP process
	required = true
[diff]
	external = TRAP external
[diff "x"]
	textconv = TRAP textconv
	command = TRAP command
[merge "x"]
	driver = TRAP merge
[credential]
	helper = TRAP credential
[gpg]
	program = TRAP gpg
[commit]
	gpgSign = true
[push]
	gpgSign = true
	recurseSubmodules = on-demand
[fetch]
	recurseSubmodules = yes
[submodule]
	recurse = true
[submodule "module"]
	url = ext::TRAP module
	update = !TRAP update
	active = true
[url "HOST"]
	insteadOf = FORGE
	pushInsteadOf = FORGE
[http]
	proxy = HOST
	followRedirects = true
[http "FORGE"]
	proxy = HOST
[protocol]
	allow = always
[remote "origin"]
	url = ext::TRAP origin
	uploadpack = TRAP uploadpack
	receivepack = TRAP receivepack
	vcs = TRAP vcs
	promisor = true
[remote "--upload-pack=TRAP option"]
	url = FORGE
[alias]
	status = !TRAP alias
	push = !TRAP alias
	fetch = !TRAP alias
[pager]
	log = TRAP pager
	config = TRAP pager
[sequence]
	editor = TRAP editor
[trace2]
	eventTarget = TRAPPED/trace
`

// hostile makes a clone try to run programs and to reach a host, and returns what did, so far.
func (b *bench) hostile(dir string) (sprung func() []string) {
	b.t.Helper()
	trapped, tools := b.t.TempDir(), b.t.TempDir()
	var mu sync.Mutex
	var asked []string
	host := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, "a request for "+r.URL.String()+" with password "+r.Header.Get("Authorization"))
	}))
	b.t.Cleanup(host.Close)
	trap := filepath.Join(tools, "trap")
	b.must(os.WriteFile(trap, []byte("#!/bin/sh\n: > "+trapped+"/${1:-unnamed}.$$\nexit 1\n"), 0o755))
	for _, hooks := range []string{filepath.Join(tools, "hooks"), filepath.Join(dir, ".git", "hooks")} {
		b.must(os.MkdirAll(hooks, 0o755))
		for _, name := range strings.Fields("post-index-change pre-push reference-transaction pre-commit post-commit post-checkout post-merge pre-auto-gc update pre-receive fsmonitor-watchman") {
			b.must(os.WriteFile(filepath.Join(hooks, name), []byte("#!/bin/sh\nexec "+trap+" hook-"+name+"\n"), 0o755))
		}
	}
	foreign := b.t.TempDir() // a repository elsewhere, as an alternate
	b.git(foreign, "init", "--quiet")
	fill := strings.NewReplacer("TRAPPED", trapped, "TRAP", trap, "HOOKS", filepath.Join(tools, "hooks"), "HOST", host.URL+"/", "FORGE", strings.TrimSuffix(b.remote.URL, filepath.Base(b.remote.URL)))
	config := filepath.Join(dir, ".git", "config")
	own, err := os.ReadFile(config)
	b.must(err)
	b.write(dir, map[string]string{
		".git/info/attributes": "* filter=x diff=x merge=x\n", ".git/objects/info/alternates": filepath.Join(foreign, ".git", "objects") + "\n",
		".git/included": "[core]\n\tfsmonitor = " + trap + " included\n", ".gitmodules": "[submodule \"module\"]\n\tpath = module\n\turl = ext::" + trap + " modules\n",
	})
	b.must(os.WriteFile(config, append(own, fill.Replace(snares)...), 0o600))
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		all := asked
		entries, err := os.ReadDir(trapped)
		b.must(err)
		for _, e := range entries {
			all = append(all, e.Name())
		}
		return all
	}
}

// A clone of a stranger runs no program, reaches no host, and does not get the forge's password, whatever lab does with it.
func TestHostileClone(t *testing.T) {
	for name, elsewhere := range map[string]bool{"its own work tree": false, "a work tree elsewhere": true} {
		t.Run(name, func(t *testing.T) {
			exe, err := filepath.Abs(strings.TrimSpace((&bench{t: t}).git(t.TempDir(), "--exec-path")))
			if err != nil {
				t.Fatal(err)
			}
			b, _ := newPullBench(t)
			bare, authorized := b.remote.URL, 0
			backend := &cgi.Handler{Path: filepath.Join(exe, "git-http-backend"), Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(bare), "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=lab"}}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, password, _ := r.BasicAuth(); password != "secret" {
					w.WriteHeader(http.StatusForbidden)
					return
				}
				authorized++
				backend.ServeHTTP(w, r)
			}))
			defer server.Close()
			b.remote.URL, b.remote.Auth = server.URL+"/"+filepath.Base(bare), Credentials{User: "lab", Password: "secret"}
			b.write(b.dir, map[string]string{"a": "1\n", "six": six, "module/x": "x\n"})
			b.initRepository(b.dir)
			b.git(b.dir, "branch", "other")
			sprung := b.hostile(b.dir)
			if elsewhere {
				b.write(b.dir, map[string]string{".git/config": string(readFile(t, filepath.Join(b.dir, ".git/config"))) + "\n[core]\n\tworktree = " + t.TempDir() + "\n"})
			}

			if _, err := b.push(); err != nil {
				t.Fatal(err)
			}
			if c, err := b.remote.Carry(t.Context(), b.tree()); err != nil || len(c.Missing) == 0 {
				t.Errorf("carried %+v, %v", c, err)
			}
			b.commitAt(bare, map[string]string{"six": "1\n2\n3\n4\n5\nx\n"})
			b.write(b.dir, map[string]string{"six": "y\n2\n3\n4\n5\n6\n"})
			if ahead, err := b.remote.Ahead(t.Context(), b.tree()); err != nil || len(ahead) != 1 {
				t.Errorf("ahead %+v, %v", ahead, err)
			}
			if _, err := b.remote.Foreign(t.Context(), b.tree()); err != nil {
				t.Error(err)
			}
			if _, err := b.remote.Diff(t.Context(), b.tree()); err != nil {
				t.Error(err)
			}
			if got, err := b.pull(); err != nil || len(got.Files) != 1 || got.Files[0].Did != Merged {
				t.Errorf("pulled %+v, %v", got, err)
			}
			b.commitAt(bare, map[string]string{"a": "9\n"})
			if got, err := b.pull(); err != nil || got.Committed == "" && !strings.Contains(got.Reason, "filter") {
				t.Errorf("pulled %+v, %v", got, err)
			}
			if err := gitfiles.OfFolder(b.dir).Refresh(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := b.push(); err != nil {
				t.Error(err)
			}
			if got := sprung(); len(got) > 0 {
				t.Errorf("sprung: %q", got)
			}
			if authorized == 0 {
				t.Error("the forge was not asked")
			}
			if _, _ = b.tryGit(b.dir, "ls-files", "--others"); elsewhere {
				return
			}
			_, _ = b.tryGit(b.dir, "status")
			_, _ = b.tryGit(b.dir, "ls-remote", b.remote.URL)
			if got := strings.Join(sprung(), " "); !strings.Contains(got, "included.") || !strings.Contains(got, "a request for") {
				t.Errorf("the snares work only so far: %q", got)
			}
		})
	}
}

func readFile(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// commitAt is like theirs, past the server.
func (b *bench) commitAt(bare string, texts map[string]string) {
	b.t.Helper()
	other := *b
	other.remote.URL = bare
	other.theirs(texts)
}
