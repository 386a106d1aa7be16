//go:build e2e

package forge_test

import (
	"archive/tar"
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"homelab/lab"
	"homelab/lab/docker"
	"homelab/lab/forge"
)

// ask sends a request and returns the status and the answer. as is USER:PASSWORD, or "".
func ask(t *testing.T, method, url, host, as, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	if user, password, ok := strings.Cut(as, ":"); ok {
		req.SetBasicAuth(user, password)
	}
	req.Header.Set("Content-Type", "application/json")
	c := http.Client{Timeout: 30 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// lsRemote asks for a repository's branches with the git command line.
func lsRemote(t *testing.T, url string, config ...string) error {
	t.Helper()
	var args []string
	for _, c := range config {
		args = append(args, "-c", c)
	}
	cmd := exec.CommandContext(t.Context(), "git", append(args, "-c", "credential.helper=", "ls-remote", url)...)
	cmd.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=true")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return errors.New(string(out))
	}
	return nil
}

// within returns a repository's or package's address with credentials.
func within(url string, a forge.Account) string {
	return strings.Replace(url, "http://", "http://"+a.User+":"+a.Token+"@", 1)
}

// secluded checks who can read what of a running forge, which has a mirror called gitops and the chart demo 1.0.0.
func secluded(t *testing.T, g *forge.Gitea, admin string) {
	t.Helper()
	s, err := g.Observe(t.Context())
	if err != nil || !s.Guarded {
		t.Fatalf("observed %+v, %v", s, err)
	}
	reader := g.Account(false)
	as := reader.User + ":" + reader.Token
	for _, path := range []string{"/lab/estate.git/info/refs?service=git-upload-pack", "/lab/gitops.git/info/refs?service=git-upload-pack", "/api/packages/lab/helm/index.yaml", "/api/v1/repos/lab/estate"} {
		if status, text := ask(t, http.MethodGet, s.HostURL+path, "", "", ""); status != http.StatusUnauthorized && status != http.StatusForbidden && status != http.StatusNotFound {
			t.Errorf("without credentials, %s answers %d: %s", path, status, text)
		}
		if status, text := ask(t, http.MethodGet, s.HostURL+path, "", as, ""); status != http.StatusOK {
			t.Errorf("for the reader, %s answers %d: %s", path, status, text)
		}
		for _, host := range []string{"evil.example", "evil.example:3000", "127.0.0.1.evil.example"} {
			if status, text := ask(t, http.MethodGet, s.HostURL+path, host, admin, ""); status != http.StatusMisdirectedRequest {
				t.Errorf("to %s, %s answers %d: %s", host, path, status, text)
			}
		}
	}
	for _, path := range []string{"/explore/repos", "/explore/users", "/lab", "/lab/estate", "/"} {
		if status, text := ask(t, http.MethodGet, s.HostURL+path, "", "", ""); status == http.StatusOK && strings.Contains(text, "estate") {
			t.Errorf("without credentials, %s answers %s", path, text)
		}
	}
	// What the reader's token must not do.
	for _, c := range []struct{ method, path, body string }{
		{http.MethodPost, "/api/v1/user/repos", `{"name": "x"}`},
		{http.MethodPost, "/api/v1/repos/lab/estate/issues", `{"title": "x"}`},
		{http.MethodPatch, "/api/v1/repos/lab/estate", `{"private": false}`},
		{http.MethodGet, "/api/v1/admin/users", ""},
		{http.MethodGet, "/api/v1/repos/lab/estate/hooks", ""},
		{http.MethodPost, "/api/v1/users/lab-reader/tokens", `{"name": "x", "scopes": ["all"]}`},
		{http.MethodPut, "/api/packages/lab-reader/generic/x/1/x", "x"},
		{http.MethodDelete, "/api/v1/packages/lab/helm/demo/1.0.0", ""},
		{http.MethodGet, "/lab/estate.git/info/refs?service=git-receive-pack", ""},
		{http.MethodGet, "/api/v1/repos/lab/other", ""},
	} {
		if status, text := ask(t, c.method, s.HostURL+c.path, "", as, c.body); status < http.StatusBadRequest {
			t.Errorf("the reader may %s %s: %d %s", c.method, c.path, status, text)
		}
	}
	for _, name := range []string{"estate", "gitops"} {
		url := s.HostURL + "/lab/" + name + ".git"
		if err := lsRemote(t, url); err == nil {
			t.Errorf("%s is readable without credentials", name)
		}
		if err := lsRemote(t, within(url, reader), "http.extraHeader=Host: evil.example"); err == nil {
			t.Errorf("%s is readable under another name", name)
		}
		if err := lsRemote(t, within(url, reader)); err != nil {
			t.Errorf("the reader cannot read %s: %v", name, err)
		}
	}
}

// fill gives a forge a mirror, a chart, and a repository that is not the lab's.
func fill(t *testing.T, g *forge.Gitea, admin string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/a", []byte("a"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := g.Mirror(t.Context(), forge.Mirror{Name: "gitops", Branch: "main", Of: "https://github.com/acme/gitops", Tree: forge.Tree{FS: os.DirFS(dir), Dir: dir}}, "http://10.0.0.1/hook", "s")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.PublishCharts(t.Context(), []lab.Chart{chart(t, t.TempDir(), "1.0.0", "a")}); err != nil {
		t.Fatal(err)
	}
	s, err := g.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if status, text := ask(t, http.MethodPost, s.HostURL+"/api/v1/user/repos", "", admin, `{"name": "other", "private": false, "auto_init": true}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
}

// The forge listens on loopback only and under its names only, shows nothing without credentials, and does not leak them.
func TestAccess(t *testing.T) {
	const name = "e2e-o"
	d := docker.New()
	creds := credentials()
	g := start(t, d, name, creds)
	what := spec(t, d)
	if err := g.Start(t.Context(), what, 0, nil); err != nil {
		t.Fatal(err)
	}
	tree := forge.Tree{FS: fstest.MapFS{"a": {Data: []byte("a")}}}
	if _, err := g.Push(t.Context(), tree, "first"); err != nil {
		t.Fatal(err)
	}
	out, err := d.Output(t.Context(), nil, "container", "inspect", lab.ForgeName(name))
	if err != nil {
		t.Fatal(err)
	}
	logs, err := d.Output(t.Context(), nil, "logs", lab.ForgeName(name))
	if err != nil {
		t.Fatal(err)
	}
	admin := creds.User + ":" + creds.Password
	fill(t, g, admin)
	for _, secret := range []string{creds.Password, creds.Keys.Secret, creds.Keys.Internal, creds.Keys.JWT, g.Account(false).Token} {
		if bytes.Contains(out, []byte(secret)) || bytes.Contains(logs, []byte(secret)) {
			t.Error("the container's configuration or log contains a secret")
		}
	}
	if bytes.Contains(out, []byte(`"0.0.0.0"`)) {
		t.Error("listens beyond 127.0.0.1")
	}
	secluded(t, g, admin)
	s, err := g.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stranger := forge.Remote{URL: s.HostRepoURL(creds.User), Now: time.Now, Auth: forge.Credentials{User: creds.User, Password: "guess"}}
	if _, err := stranger.Push(t.Context(), forge.Tree{FS: fstest.MapFS{"a": {Data: []byte("b")}}}, "x"); err == nil {
		t.Error("pushed with a wrong password")
	}
	// From the lab's network: under the container's name, and not past the gate.
	reader := g.Account(false)
	for url, works := range map[string]bool{
		within(g.RepoURL(), reader): true, g.RepoURL(): false,
		within(strings.Replace(g.RepoURL(), ":3000", ":3001", 1), reader): false,
	} {
		args := []string{"run", "--rm", "--network", lab.NetworkName(name), "--entrypoint", "git", "--env", "GIT_TERMINAL_PROMPT=0", what.Image.Ref, "ls-remote", url}
		if _, err := d.Output(t.Context(), nil, args...); (err == nil) != works {
			t.Errorf("git ls-remote %s from the lab's network: %v", strings.ReplaceAll(url, reader.Token, "..."), err)
		}
	}
	// A writer where one is wanted, and none afterwards.
	what.Writer = true
	if err := g.Start(t.Context(), what, 0, nil); err != nil {
		t.Fatal(err)
	}
	w := g.Account(true)
	pusher := forge.Remote{URL: s.HostRepoURL(creds.User), Now: time.Now, Auth: forge.Credentials{User: w.User, Password: w.Token}}
	if _, err := pusher.Push(t.Context(), forge.Tree{FS: fstest.MapFS{"a": {Data: []byte("c")}}}, "by the engine"); err != nil {
		t.Errorf("the writer cannot push: %v", err)
	}
	if status, text := ask(t, http.MethodPatch, s.HostURL+"/api/v1/repos/lab/estate", "", w.User+":"+w.Token, `{"private": false}`); status < http.StatusBadRequest {
		t.Errorf("the writer may make the repository public: %d %s", status, text)
	}
	secluded(t, g, admin)
	what.Writer = false
	if err := g.Start(t.Context(), what, 0, nil); err != nil {
		t.Fatal(err)
	}
	if g.Account(true).Token != "" {
		t.Error("the writer's token is kept")
	}
	if status, _ := ask(t, http.MethodGet, s.HostURL+"/api/v1/repos/lab/estate", "", w.User+":"+w.Token, ""); status != http.StatusUnauthorized {
		t.Errorf("the former writer gets %d", status)
	}
	secluded(t, g, admin)
}

// former starts a forge as labs had it before: public, its keys derived from the password, which the engines knew.
func former(t *testing.T, d *docker.Docker, name string, what forge.Spec, host, password string) {
	t.Helper()
	derive := func(purpose string) []byte {
		mac := hmac.New(sha256.New, []byte(password))
		mac.Write([]byte("lab forge " + purpose))
		return mac.Sum(nil)
	}
	text, err := os.ReadFile("testdata/former.ini")
	if err != nil {
		t.Fatal(err)
	}
	ini := strings.NewReplacer("{url}", "http://"+lab.ForgeName(name)+":3000/", "{host}", lab.ForgeName(name), "{port}", "3000", "{work}", "/data/gitea",
		"{secret}", hex.EncodeToString(derive("secret key")), "{internal}", hex.EncodeToString(derive("internal token")), "{jwt}", base64.RawURLEncoding.EncodeToString(derive("jwt secret")),
	).Replace(string(text))
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	for _, h := range []tar.Header{
		{Name: "git/", Typeflag: tar.TypeDir},
		{Name: "gitea/", Typeflag: tar.TypeDir},
		{Name: "gitea/conf/", Typeflag: tar.TypeDir},
		{Name: "gitea/conf/app.ini", Typeflag: tar.TypeReg, Size: int64(len(ini))},
	} {
		h.Mode, h.Uid, h.Gid = 0o700, 1000, 1000
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	_, err = w.Write([]byte(ini))
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	run := func(stdin io.Reader, args ...string) {
		t.Helper()
		if _, err := d.Output(t.Context(), stdin, args...); err != nil {
			t.Fatal(err)
		}
	}
	labels := []string{"--label", lab.LabelName + "=" + name, "--label", lab.LabelPart + "=forge"}
	run(nil, append(append([]string{"volume", "create"}, labels...), lab.ForgeName(name))...)
	create := append([]string{"create", "--name", lab.ForgeName(name), "--hostname", lab.ForgeName(name), "--network", lab.NetworkName(name)}, labels...)
	run(nil, append(create, "--label", lab.LabelInputs+"=former", "--publish", host+":3000", "--volume", lab.ForgeName(name)+":/data", "--user", "1000:1000",
		"--entrypoint", "/app/gitea/gitea", what.Image.Ref, "--work-path", "/data/gitea", "--config", "/data/gitea/conf/app.ini", "web")...)
	run(&files, "cp", "-", lab.ForgeName(name)+":/data")
	run(nil, "start", lab.ForgeName(name))
}

// A forge of a former lab is converted: nothing in it is lost, and what was public or known to clusters is neither.
func TestFormerForge(t *testing.T) {
	const name = "e2e-c"
	d := docker.New()
	what, was := spec(t, d), rand.Text()
	creds := credentials()
	mac := hmac.New(sha256.New, []byte(was))
	mac.Write([]byte("lab forge secret key"))
	creds.Keys.Secret = hex.EncodeToString(mac.Sum(nil)) // see state.Dir.Renew
	g := start(t, d, name, creds)
	free, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil || free.Close() != nil {
		t.Fatal(err)
	}
	former(t, d, name, what, free.Addr().String(), was)
	host := "http://" + free.Addr().String()
	eventually(t, func() bool {
		resp, err := http.Get(host + "/api/healthz")
		return err == nil && resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	})
	if _, err := d.Output(t.Context(), nil, "exec", lab.ForgeName(name), "/app/gitea/gitea", "--work-path", "/data/gitea", "--config", "/data/gitea/conf/app.ini",
		"admin", "user", "create", "--admin", "--username", "lab", "--email", "lab@lab.invalid", "--password", was, "--must-change-password=false"); err != nil {
		t.Fatal(err)
	}
	old := "lab:" + was
	post := func(path, body string) string {
		t.Helper()
		status, text := ask(t, http.MethodPost, host+"/api/v1"+path, "", old, body)
		if status != http.StatusCreated {
			t.Fatalf("%s: %d %s", path, status, text)
		}
		return text
	}
	post("/user/repos", `{"name": "estate", "default_branch": "main"}`)
	post("/user/repos", `{"name": "gitops", "default_branch": "main", "auto_init": true}`)
	post("/user/repos", `{"name": "other", "auto_init": true}`)
	post("/repos/lab/estate/hooks", `{"type": "gitea", "active": true, "events": ["push"], "authorization_header": "Bearer theirs", "config": {"url": "http://10.0.0.2/theirs", "content_type": "json"}}`)
	if err := lsRemote(t, host+"/lab/gitops.git"); err != nil {
		t.Fatalf("a former forge is public: %v", err)
	}
	auth := forge.Credentials{User: "lab", Password: was}
	tree := forge.Tree{FS: fstest.MapFS{"a": {Data: []byte("a")}}}
	pushed, err := forge.Remote{URL: host + "/lab/estate.git", Now: time.Now, Auth: auth}.Push(t.Context(), tree, "first")
	if err != nil {
		t.Fatal(err)
	}

	if s, err := g.Observe(t.Context()); err != nil || s.Inputs == g.Inputs(what) || s.Guarded || !s.Answers {
		t.Errorf("a former forge is observed as %+v, %v", s, err)
	}
	if err := g.Start(t.Context(), what, 0, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := g.PublishCharts(t.Context(), []lab.Chart{chart(t, t.TempDir(), "1.0.0", "a")}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	clone := exec.CommandContext(t.Context(), "git", "clone", "--quiet", strings.Replace(host, "http://", "http://lab:"+creds.Password+"@", 1)+"/lab/gitops.git", dir)
	if out, err := clone.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m := forge.Mirror{Name: "gitops", Branch: "main", Of: "https://github.com/acme/gitops", Tree: forge.Tree{FS: os.DirFS(dir), Dir: dir}}
	if before, err := g.Mirrored(t.Context(), m, "http://10.0.0.1/hook", "s"); err != nil || !slices.Contains(before.Differs, "repository gitops is not restricted to the engine") {
		t.Errorf("the former mirror is observed as %+v, %v", before, err)
	}
	for range 2 {
		if _, err := g.Mirror(t.Context(), m, "http://10.0.0.1/hook", "s"); err != nil {
			t.Fatal(err)
		}
		if after, err := g.Mirrored(t.Context(), m, "http://10.0.0.1/hook", "s"); err != nil || len(after.Differs) > 0 {
			t.Errorf("the mirror is observed as %+v, %v", after, err)
		}
	}
	s, err := g.Observe(t.Context())
	if err != nil || s.Revision != pushed.Commit || s.HostURL != host || s.Inputs != g.Inputs(what) {
		t.Errorf("observed %+v, %v; want commit %s at %s", s, err, pushed.Commit, host)
	}
	admin := creds.User + ":" + creds.Password
	secluded(t, g, admin)
	if status, _ := ask(t, http.MethodGet, host+"/api/v1/user", "", old, ""); status != http.StatusUnauthorized {
		t.Errorf("the former password gets %d", status)
	}
	status, text := ask(t, http.MethodGet, host+"/api/v1/repos/lab/estate/hooks", "", admin, "")
	var hooks []struct {
		Header string `json:"authorization_header"`
	}
	if err := json.Unmarshal([]byte(text), &hooks); status != http.StatusOK || err != nil || len(hooks) != 1 || hooks[0].Header != "Bearer theirs" {
		t.Errorf("%d webhooks %s, %v; want the user's, with its header", status, text, err)
	}
	_, text = ask(t, http.MethodGet, host+"/api/v1/repos/search?private=true&is_private=false", "", admin, "")
	if !strings.Contains(text, `"data":[]`) {
		t.Errorf("public repositories: %s", text)
	}
	if err := g.Start(t.Context(), what, 0, func(p string) {
		if strings.Contains(p, "removing") || strings.Contains(p, "creating") {
			t.Errorf("the second start is %s", p)
		}
	}); err != nil {
		t.Fatal(err)
	}
}

// eventually waits for at most a minute.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	limit := time.After(time.Minute)
	for !ok() {
		select {
		case <-limit:
			t.Fatal("not within a minute")
		case <-again.C:
		}
	}
}
