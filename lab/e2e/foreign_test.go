//go:build e2e

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// shape is a typical public estate: the repositories of lab/draft/testdata, which were not written for lab.
type shape struct {
	name         string
	clusters     int
	applications int
	spoke        string // cluster with the ConfigMap
	namespace    string
	configMap    string
	repository   string // contains the ConfigMap
	file         string
	edit         [2]string // old and new text in file
	key          string    // in the ConfigMap's data

	overSSH [2]string // Application of the ConfigMap, and its SSH address
	tag     string    // of each repository's first commit
	former  string    // ConfigMap at the tag

	engineSettings bool // an Application has other settings for Argo CD
}

var shapes = []shape{
	{
		name: "flux-homelab", clusters: 1, applications: 1, spoke: "home", namespace: "default", configMap: "site", repository: "apps",
		file: "site.yaml", edit: [2]string{"a: b", "a: c"}, key: "a",
	},
	{
		name: "flux-fleet", clusters: 3, applications: 6, spoke: "production", namespace: "infra", configMap: "cloud", repository: "fleet",
		file: "infrastructure/config.yaml", edit: [2]string{"tier: gold", "tier: iron"}, key: "tier",
	},
	{
		name: "flux-hub", clusters: 3, applications: 8, spoke: "edge-staging", namespace: "web", configMap: "settings", repository: "fleet",
		file: "settings/settings.yaml", edit: [2]string{"colour: blue", "colour: green"}, key: "colour",
	},
	{
		name: "flux-artifacts", clusters: 1, applications: 3, spoke: "prod", namespace: "web", configMap: "web", repository: "mono",
		file: "services/base/web/web.yaml", edit: [2]string{"colour: blue", "colour: green"}, key: "colour",
	},
	{
		name: "flux-pinned", clusters: 1, applications: 2, spoke: "prod", namespace: "default", configMap: "web", repository: "site",
		file: "web/web.yaml", edit: [2]string{"colour: blue", "colour: green"}, key: "colour", tag: "v1.2.0", former: "former-web",
	},
	{
		name: "flux-instance", clusters: 1, applications: 4, spoke: "prod-eu", namespace: "web", configMap: "web", repository: "fleet",
		file: "apps/prod/cm.yaml", edit: [2]string{"colour: blue", "colour: green"}, key: "colour",
	},
	{
		name: "one-repository", clusters: 3, applications: 3, spoke: "prod", namespace: "node-labels", configMap: "node-labels", repository: "gitops",
		file: "platform/environments/prod/addons/node-labels/values.yaml", edit: [2]string{"tier: gold", "tier: platinum"}, key: "tier",
	},
	{
		name: "three-repositories", clusters: 2, applications: 4, spoke: "dev", namespace: "web", configMap: "web", repository: "workloads",
		file: "apps/web/configmap.yaml", edit: [2]string{"a: b", "a: c"}, key: "a",
	},
	{
		name: "rendered-by-chart", clusters: 2, applications: 2, spoke: "dev", namespace: "blue", configMap: "tenant", repository: "fleet",
		file: "tenants/dev/blue.json", edit: [2]string{`"tier": "gold"`, `"tier": "iron"`}, key: "tier",
	},
	{
		name: "kustomize", clusters: 2, applications: 2, spoke: "prod-eu", namespace: "web", configMap: "prod-web", repository: "gitops",
		file: "web/base/configmap.yaml", edit: [2]string{"a: b", "a: c"}, key: "a",
	},
	{
		name: "registered", clusters: 3, applications: 3, spoke: "cluster-10-20-30-40", namespace: "web", configMap: "web", repository: "platform",
		file: "apps/web/configmap.yaml", edit: [2]string{"a: b", "a: c"}, key: "a",
	},
	{
		name: "in-cluster", clusters: 1, applications: 1, spoke: "in-cluster", namespace: "web", configMap: "web", repository: "homelab",
		file: "apps/web/cm.yaml", edit: [2]string{"a: b", "a: c"}, key: "a",
	},
	{
		name: "homelab-chart", clusters: 1, applications: 2, spoke: "hub", namespace: "web", configMap: "web", repository: "homelab",
		file: "apps/web/web.yaml", edit: [2]string{"colour: blue", "colour: green"}, key: "colour", engineSettings: true,
	},
	{
		name: "files-per-app", clusters: 1, applications: 3, spoke: "hub", namespace: "default", configMap: "dev-web", repository: "platform",
		file: "apps/web/base/cm.yaml", edit: [2]string{"a: b", "a: c"}, key: "a",
		overSSH: [2]string{"dev-web", "git@github.com:acme/platform.git"},
	},
	{
		name: "git-directories", clusters: 3, applications: 2, spoke: "dev", namespace: "web", configMap: "web", repository: "monorepo",
		file: "apps/web/configmap.yaml", edit: [2]string{"a: b", "a: c"}, key: "a",
	},
}

// foreign brings up an estate with repositories, which stay unchanged. Commits to them are deployed by lab up, commits to their mirrors directly.
func foreign(t *testing.T, s shape) {
	home := t.TempDir()
	l := &testLab{t: t, name: "e2e-foreign", state: t.TempDir(), estate: filepath.Join(home, "mine")}
	l.unused = unusedVolumes()
	t.Cleanup(func() {
		if t.Failed() {
			l.diagnose()
		}
		l.must("down", "--snapshots", "--lose-commits")
	})
	archive, err := txtar.ParseFile(filepath.Join("..", "draft", "testdata", s.name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	files := &testLab{t: t, estate: home}
	for _, f := range archive.Files[1:] {
		if f.Name != "want" && !strings.Contains(f.Name, "/.git/") {
			files.write(f.Name, string(f.Data))
		}
	}
	args := []string{"init"}
	var folders []string
	for line := range strings.Lines(string(archive.Files[0].Data)) {
		url, folder, _ := strings.Cut(strings.TrimSpace(line), " ")
		folder = filepath.Join(home, folder)
		git(t, folder, "init", "--quiet", "--initial-branch", "main")
		git(t, folder, "remote", "add", "origin", url)
		git(t, folder, "add", ".")
		git(t, folder, "commit", "--quiet", "--message", "first")
		if s.tag != "" {
			git(t, folder, "tag", s.tag)
		}
		args, folders = append(args, "--from", folder), append(folders, folder)
	}
	l.must(append(args, l.estate)...)
	l.must("up", "--fix", "--trust") // their charts come from hosts elsewhere
	l.converged(s.clusters, s.applications)

	repository := filepath.Join(home, s.repository)
	old, wanted := s.edit[0], s.edit[1]
	l.waitLine(s, old)
	l.readsOverSSH(s)
	l.keepsSettings(s)
	files.edit(filepath.Join(s.repository, s.file), old, wanted)
	git(t, repository, "commit", "--quiet", "--all", "--message", "second")
	l.must("up")
	l.waitLine(s, wanted)
	if s.former != "" {
		former := s
		former.configMap = s.former
		l.waitLine(former, old)
	}
	if out := l.must("up"); !strings.Contains(out.stderr+out.stdout, "up to date") {
		t.Errorf("second run: %s%s", out.stdout, out.stderr)
	}
	asRendered(t, l)

	url := strings.TrimSpace(l.must("git", "url", s.repository, "--credentials").stdout)
	clone := filepath.Join(home, "clone")
	git(t, home, "clone", "--quiet", url, clone)
	if got, want := git(t, clone, "rev-parse", "HEAD"), git(t, repository, "rev-parse", "HEAD"); got != want {
		t.Errorf("mirror at %s, repository at %s", got, want)
	}
	files.edit(filepath.Join("clone", s.file), wanted, old)
	git(t, clone, "commit", "--quiet", "--all", "--message", "third")
	began := time.Now()
	git(t, clone, "push", "--quiet")
	l.waitLine(s, old)
	t.Logf("a commit to the mirror arrives in %.1fs", time.Since(began).Seconds())
	out := l.run("up")
	_, cure, ok := strings.Cut(out.stderr, "git -C "+repository+" ")
	if out.code != 1 || !ok {
		t.Fatalf("lab up after a commit to the mirror: exit %d\n%s", out.code, out.stderr)
	}
	cure, _, _ = strings.Cut(cure, "\n")
	before, rest, _ := strings.Cut(cure, `"$(lab `)
	inner, after, _ := strings.Cut(rest, `)"`)
	address := strings.TrimSpace(l.must(strings.Fields(inner)...).stdout)
	git(t, repository, append(append(strings.Fields(before), address), strings.Fields(after)...)...)
	l.must("up")
	l.waitLine(s, old)

	for _, folder := range folders {
		if status := git(t, folder, "status", "--porcelain"); status != "" {
			t.Errorf("%s changed:\n%s", folder, status)
		}
	}
	l.must("down")
}

// readsOverSSH checks that the ConfigMap, in the mirror's version, was read from an SSH address.
func (l *testLab) readsOverSSH(s shape) {
	l.t.Helper()
	if s.overSSH[0] == "" {
		return
	}
	applications := schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}
	app, err := l.dynamic("hub").Resource(applications).Namespace("argocd").Get(l.t.Context(), s.overSSH[0], metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	for _, field := range [][]string{{"spec", "source", "repoURL"}, {"status", "sync", "comparedTo", "source", "repoURL"}} {
		if got, _, _ := unstructured.NestedString(app.Object, field...); got != s.overSSH[1] {
			l.t.Errorf("%s: %s is %q, want %q", s.overSSH[0], strings.Join(field, "."), got, s.overSSH[1])
		}
	}
	if status, _, _ := unstructured.NestedString(app.Object, "status", "sync", "status"); status != "Synced" {
		l.t.Errorf("%s is %s", s.overSSH[0], status)
	}
}

// keepsSettings checks that Argo CD has the settings of the lab, and ignores the Application with others.
func (l *testLab) keepsSettings(s shape) {
	l.t.Helper()
	if !s.engineSettings {
		return
	}
	settings, err := l.kube("hub").CoreV1().ConfigMaps("argocd").Get(l.t.Context(), "argocd-cm", metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	if url := settings.Data["url"]; !strings.HasPrefix(url, "http://127.0.0.1:") {
		l.t.Errorf("argocd-cm has the url %q", url)
	}
	applications := schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}
	app, err := l.dynamic("hub").Resource(applications).Namespace("argocd").Get(l.t.Context(), "argocd", metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	if _, compared := app.Object["status"]; compared {
		l.t.Errorf("argocd was reconciled: %v", app.Object["status"])
	}
}

// waitLine waits until a shape's ConfigMap contains a line; a commit takes at most a minute.
func (l *testLab) waitLine(s shape, line string) {
	l.t.Helper()
	_, want, _ := strings.Cut(line, ": ")
	want = strings.Trim(want, `"`)
	eventually(l.t, time.Minute, func() error {
		cm, err := l.kube(s.spoke).CoreV1().ConfigMaps(s.namespace).Get(l.t.Context(), s.configMap, metav1.GetOptions{})
		if err == nil && cm.Data[s.key] != want {
			err = fmt.Errorf("%s in %s: %s is %q, want %q", s.configMap, s.spoke, s.key, cm.Data[s.key], want)
		}
		return err
	})
}
