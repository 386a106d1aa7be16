//go:build e2e

package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"homelab/lab"
	"homelab/lab/state"
	"homelab/lab/ui"
)

// git runs the git command line in a folder.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=Test User", "-c", "user.email=person@example.com"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// forgeAccount returns the token of an engine's account.
func (l *testLab) forgeAccount(user string) string {
	l.t.Helper()
	text, err := os.ReadFile(filepath.Join(l.state, "lab", l.name, "credentials.json"))
	var c state.Credentials
	if err := errors.Join(err, json.Unmarshal(text, &c)); err != nil {
		l.t.Fatal(err)
	}
	if c.ForgeTokens[user] == "" {
		l.t.Errorf("the lab has no account %s", user)
	}
	return c.ForgeTokens[user]
}

func forgePrivate(t *testing.T, l *testLab) { private(t, l, "lab-reader") }

// private tests that the estate's repository can be read by the engine, as account, and by nobody else: not by another user of this machine, a pod, or a page of another name.
func private(t *testing.T, l *testLab, account string) {
	creds, token := decode[ui.Credential](l, "creds", "forge"), l.forgeAccount(account)
	url := strings.TrimSpace(l.must("git", "url").stdout)
	asNobody := func(url string, config ...string) error {
		args := []string{"--reuid=65534", "--regid=65534", "--clear-groups", "git"}
		for _, c := range config {
			args = append(args, "-c", c)
		}
		cmd := exec.CommandContext(t.Context(), "setpriv", append(args, "ls-remote", url)...)
		cmd.Dir, cmd.Env = "/", []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_TERMINAL_PROMPT=0"}
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = errors.New(string(out))
		}
		return err
	}
	if os.Getuid() == 0 {
		if err := asNobody(url); err == nil {
			t.Error("another user of this machine reads the repository")
		}
		with := strings.Replace(url, "http://", "http://"+account+":"+token+"@", 1)
		if err := asNobody(with); err != nil {
			t.Errorf("with the engine's credentials: %v", err)
		}
		if err := asNobody(with, "http.extraHeader=Host: evil.example"); err == nil || !strings.Contains(err.Error(), "421") {
			t.Errorf("under another name: %v, want 421", err)
		}
	}

	// What git clone asks for first, from a pod's network, whose resolver is the cluster's.
	address := docker(t, "container", "inspect", "--format", `{{(index .NetworkSettings.Networks "`+lab.NetworkName(l.name)+`").IPAddress}}`, lab.ForgeName(l.name))
	fromPod := func(cluster, host, user, password string) string {
		login := ""
		if user != "" {
			login = "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password)) + `\r\n`
		}
		request := `GET /lab/estate.git/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: ` + host + `\r\n` + login + `Connection: close\r\n\r\n`
		answer := l.inNode(cluster, `ip netns exec "$(ip netns list | head -n 1 | cut -d ' ' -f 1)" bash -c 'exec 3<>/dev/tcp/`+strings.TrimSpace(address)+`/3000; printf "`+request+`" >&3; head -n 1 <&3'`)
		_, status, _ := strings.Cut(strings.TrimSpace(answer), " ")
		return status
	}
	name := lab.ForgeName(l.name) + ":3000"
	for _, ask := range []struct{ host, user, password, want string }{
		{name, "", "", "401 Unauthorized"},
		{name, "lab", "guess", "401 Unauthorized"},
		{name, account, token, "200 OK"},
		{"evil.example:3000", account, token, "421 Misdirected Request"},
	} {
		if got := fromPod("dev", ask.host, ask.user, ask.password); got != ask.want {
			t.Errorf("a pod in dev that asks %s as %q gets %q, want %q", ask.host, ask.user, got, ask.want)
		}
	}

	// No cluster knows the admin's password, and the hub knows the account.
	known := false
	for _, c := range decode[ui.Status](l, "status").Clusters {
		secrets, err := l.kube(c.Name).CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range secrets.Items {
			for key, value := range s.Data {
				if bytes.Contains(value, []byte(creds.Password)) {
					t.Errorf("cluster %s, Secret %s/%s, %s: the admin's password", c.Name, s.Namespace, s.Name, key)
				}
				known = known || string(value) == token
			}
		}
	}
	if !known {
		t.Errorf("no cluster has the credentials of %s", account)
	}
}

// commitsInTheForge commits to the forge as another user: Argo CD syncs it, lab up does not overwrite it, and after a pull everything is in sync.
func commitsInTheForge(t *testing.T, l *testLab) {
	l.must("up")
	clone := filepath.Join(t.TempDir(), "clone")
	url := strings.TrimSpace(l.must("git", "url", "--credentials").stdout)
	git(t, t.TempDir(), "clone", "--quiet", url, clone)
	other := &testLab{t: t, estate: clone}
	other.edit("environments/dev/addons/podinfo/values.yaml", "ui:", "replicaCount: 2\nui:")
	git(t, clone, "commit", "--quiet", "--all", "--message", "two replicas in dev")
	pushed := time.Now()
	git(t, clone, "push", "--quiet")

	w, err := l.kube("dev").AppsV1().Deployments("podinfo").Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=podinfo"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	deadline := time.After(60 * time.Second)
	for seen := false; !seen; {
		select {
		case e := <-w.ResultChan():
			raw, err := json.Marshal(e.Object)
			if err != nil {
				t.Fatal(err)
			}
			seen = strings.Contains(string(raw), `"replicas":2`)
		case <-deadline:
			t.Fatal("commit not deployed to dev within 60s, is there a webhook?")
		}
	}
	t.Logf("a commit in the forge reached dev after %.1fs", time.Since(pushed).Seconds())

	l.edit("environments/prod/environment.yaml", "cost_center: retail", "cost_center: wholesale")
	refused := l.run("up", "-o", "json")
	var e ui.ErrorResult
	if err := json.Unmarshal([]byte(refused.stdout), &e); err != nil {
		t.Fatalf("%v in %q", err, refused.stdout)
	}
	if refused.code != 1 || e.Error.Code != "diverged" || e.Error.Cure != "lab git pull" {
		t.Errorf("exit %d, %+v, want 1, diverged, and a cure", refused.code, e.Error)
	}
	if log := l.must("git", "log").stdout; !strings.Contains(log, "two replicas in dev") {
		t.Errorf("commit missing:\n%s", log)
	}

	l.edit("environments/dev/addons/podinfo/values.yaml", "ui:", "replicaCount: 2\nui:") // as a pull would
	l.must("up")
	l.converged(4, 10)
	if log := l.must("git", "log").stdout; !strings.Contains(log, "two replicas in dev") {
		t.Errorf("commit missing:\n%s", log)
	}

	l.edit("environments/dev/addons/podinfo/values.yaml", "replicaCount: 2\nui:", "ui:") // as other parts expect it
	l.edit("environments/prod/environment.yaml", "cost_center: wholesale", "cost_center: retail")
	l.must("up")
}
