//go:build e2e

package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"homelab/lab/ui"
)

// replicas waits until the lab has converged, and returns those of podinfo in a cluster.
func replicas(t *testing.T, l *testLab, cluster string) int32 {
	t.Helper()
	l.must("up")
	d, err := l.kube(cluster).AppsV1().Deployments("podinfo").Get(t.Context(), "podinfo", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return *d.Spec.Replicas
}

// pullRequests opens pull requests, lets the bot judge them, merges one, and pulls it: nothing of it reaches a cluster before the merge, and all of it after.
func pullRequests(t *testing.T, l *testLab) {
	const file, title = "environments/dev/addons/podinfo/values.yaml", "three replicas in dev"
	l.must("up")
	start, had := l.read(file), replicas(t, l, "dev")
	head := decode[ui.LogResult](l, "git", "log", "-n", "1").Commits[0].Commit
	l.refused("no_change", "git", "pr", "open", "--title", title)
	l.write(file, start+"replicaCount: 3\n")
	opened := decode[ui.RequestResult](l, "git", "pr", "open", "--title", title, "--body", "for the sale")
	r := opened.Request
	if !opened.Changed || r.State != "open" || r.Head != "pr/three-replicas-in-dev" || r.Base != "main" || r.BaseCommit != head {
		t.Errorf("opened %+v", opened)
	}
	number := strconv.FormatInt(r.Number, 10)
	if again := decode[ui.RequestResult](l, "git", "pr", "open", "--title", title); again.Changed || again.Request.Number != r.Number {
		t.Errorf("opened again %+v", again)
	}
	l.write(file, start) // the branch has it
	if now := replicas(t, l, "dev"); now != had {
		t.Errorf("before the merge, %d replicas, had %d", now, had)
	}
	if seen := decode[ui.Status](l, "status").OnlyInForge; len(seen.PullRequests) != 1 || seen.PullRequests[0].Title != title {
		t.Errorf("only in the forge: %+v", seen)
	}
	l.must("git", "pr", "comment", number, "--bot", "--body", "one object changes")
	l.must("git", "pr", "status", number, "--bot", "--check", "lab/diff", "--state", "success", "--description", "1 object")
	view := decode[ui.RequestView](l, "git", "pr", "view", "#"+number)
	if len(view.Comments) != 1 || view.Comments[0].Author != "lab-bot" || view.Comments[0].Body != "one object changes" ||
		len(view.Statuses) != 1 || view.Statuses[0].Check != "lab/diff" || view.Statuses[0].State != "success" || view.Body != "for the sale" {
		t.Errorf("view %+v", view)
	}
	l.refused("refused", "git", "pr", "merge", number, "--commit", head)
	merged := decode[ui.RequestResult](l, "git", "pr", "merge", number, "--commit", r.Commit)
	if !merged.Changed || merged.Request.State != "merged" || merged.Request.MergeCommit != decode[ui.LogResult](l, "git", "log", "-n", "1").Commits[0].Commit {
		t.Errorf("merged %+v", merged)
	}
	pulled := decode[ui.PullResult](l, "git", "pull")
	if len(pulled.Files) != 1 || pulled.Files[0].Path != file || l.read(file) != start+"replicaCount: 3\n" {
		t.Errorf("pulled %+v", pulled)
	}
	if now := replicas(t, l, "dev"); now != 3 {
		t.Errorf("after the merge, %d replicas", now)
	}
	if seen := decode[ui.Status](l, "status").OnlyInForge; len(seen.PullRequests)+len(seen.Commits) > 0 {
		t.Errorf("only in the forge: %+v", seen)
	}
	l.write(file, start)
	l.must("up")
	botAlone(t, l, file)
	l.must("up")
}

// botAlone works as the bot, by git and by the API.
func botAlone(t *testing.T, l *testLab, file string) {
	bot := decode[ui.BotResult](l, "git", "bot", "--credentials")
	if without := decode[ui.BotResult](l, "git", "bot"); without.Token != "" || strings.Contains(without.URL, bot.Token) {
		t.Error("the token is printed unasked")
	}
	clone := filepath.Join(t.TempDir(), "clone")
	git(t, t.TempDir(), "clone", "--quiet", "--branch", "main", bot.URL, clone)
	other := &testLab{t: t, estate: clone}
	other.write(file, other.read(file)+"# by the bot\n")
	git(t, clone, "commit", "--quiet", "--all", "--message", "by the bot")
	push := exec.CommandContext(t.Context(), "git", "-C", clone, "push", "--quiet", "origin", "HEAD:main")
	if out, err := push.CombinedOutput(); err == nil || !strings.Contains(string(out), "protected") {
		t.Errorf("the bot pushes to main: %v\n%s", err, out)
	}
	git(t, clone, "push", "--quiet", "origin", "HEAD:bot/comment")
	l.refused("no_branch", "git", "pr", "open", "--title", "x", "--head", "no-such-branch")
	r := decode[ui.RequestResult](l, "git", "pr", "open", "--title", "by the bot", "--head", "bot/comment", "--bot").Request
	if r.Author != "lab-bot" {
		t.Errorf("opened %+v", r)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, bot.API+"/pulls/"+strconv.FormatInt(r.Number, 10)+"/merge", strings.NewReader(`{"Do": "merge"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "token "+bot.Token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.Body.Close() != nil {
		t.Fatal(err)
	}
	if resp.StatusCode < http.StatusBadRequest {
		t.Errorf("the bot merges: %s", resp.Status)
	}
	own := decode[ui.CreatedResult](l, "git", "create", "shop", "--writes", "--credentials")
	git(t, clone, "push", "--quiet", own.URL, "HEAD:main")
	if other := exec.CommandContext(t.Context(), "git", "ls-remote", strings.Replace(own.URL, "/shop.git", "/estate.git", 1)); other.Run() == nil {
		t.Error("the account of shop reads the estate")
	}
	forgeAPI[struct{}](t, l, http.MethodDelete, "/repos/lab/shop") // lab down would ask about it
	number := strconv.FormatInt(r.Number, 10)
	if closed := decode[ui.RequestResult](l, "git", "pr", "close", number, "--remove-branch"); !closed.Changed || closed.Request.State != "closed" {
		t.Errorf("closed %+v", closed)
	}
	list := decode[ui.RequestList](l, "git", "pr", "ls", "--state", "all").Requests
	if !slices.IsSortedFunc(list, func(a, b ui.Request) int { return int(b.Number - a.Number) }) || len(list) < 2 {
		t.Errorf("list %+v", list)
	}
	log := l.must("git", "pr", "view", number).stdout
	if strings.Contains(log, bot.Token) {
		t.Error("the token is in the output")
	}
	if _, err := os.Stat(filepath.Join(l.estate, ".git")); err == nil {
		t.Error("the estate became a repository")
	}
}

// promotedByRequest promotes by a pull request: nothing changes before the merge, and a second run brings the request up to date.
func promotedByRequest(t *testing.T, l *testLab) {
	const file = "addons/podinfo/applicationset.yaml"
	l.must("up")
	start := l.read(file)
	promote := []string{"promote", "podinfo", "--from", "dev", "--to", "staging", "--pr"}
	res := decode[ui.PromoteRequestResult](l, promote...)
	r := res.Request
	if !res.Changed || r.Head != "promote/podinfo-to-staging" || r.Title != "promote podinfo 6.9.2 from dev to staging" || len(res.Gates) != 1 || res.Gates[0].State != "success" {
		t.Errorf("requested %+v", res)
	}
	if l.read(file) != start {
		t.Error("the working tree changed")
	}
	number := strconv.FormatInt(r.Number, 10)
	view := decode[ui.RequestView](l, "git", "pr", "view", number)
	if !strings.Contains(view.Body, "staging: podinfo 6.7.0 -> 6.9.2") || !strings.Contains(view.Body, "image ghcr.io/stefanprodan/podinfo 6.7.0 -> 6.9.2") {
		t.Errorf("body\n%s", view.Body)
	}
	if len(view.Statuses) != 1 || view.Statuses[0].Check != "lab/gate/podinfo" || view.Statuses[0].State != "success" {
		t.Errorf("statuses %+v", view.Statuses)
	}
	if again := decode[ui.PromoteRequestResult](l, promote...); again.Changed || again.Request.Number != r.Number {
		t.Errorf("again %+v", again)
	}
	l.must("git", "pr", "merge", number)
	l.must("git", "pull")
	l.must("up")
	if got := version(l.converged(4, 10), "staging-podinfo"); got != "6.9.2" {
		t.Errorf("staging has podinfo %s after the merge", got)
	}
	if nothing := decode[ui.PromoteRequestResult](l, promote...); nothing.Changed || nothing.Request.Number != 0 {
		t.Errorf("nothing to promote: %+v", nothing)
	}
	l.write(file, start)
	for _, f := range res.Promotions[0].Files {
		if f != file {
			l.write(f, strings.ReplaceAll(l.read(f), "6.9.2", "6.7.0"))
		}
	}
	l.must("up")
	if got := version(l.converged(4, 10), "staging-podinfo"); got != "6.7.0" {
		t.Errorf("staging has podinfo %s after the revert", got)
	}
}
