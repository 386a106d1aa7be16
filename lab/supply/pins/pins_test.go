package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/tools/txtar"

	"homelab/lab"
)

// world is a repository with a registry, a chart repository, a proxy and a forge that serve its pins.
type world struct {
	root, host string
	asker      asker
}

func newWorld(t *testing.T) world {
	t.Helper()
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	digest := strings.Repeat("ab", 32)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/charts/index.yaml" {
			fmt.Fprintf(w, "entries:\n  metrics-server: [{name: metrics-server, version: 3.13.1}, {name: metrics-server, version: 3.14.0, appVersion: v0.10.0, digest: %s}]\n", digest)
			return
		}
		images.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	w := world{t.TempDir(), strings.TrimPrefix(s.URL, "http://"), asker{patience: 20 * time.Second, github: "file://" + t.TempDir() + "/"}}
	for _, ref := range []string{"argoproj/argocd:v3.6.1", "argoproj/argocd:v3.6.2", "argoproj/argocd:v3.7.0-rc1", "argoproj/argocd:latest", "node:v1.36.4", "node:v1.36.5", "redis:8.2.3-alpine", "redis:8.4.0", "redis:8.2.4-alpine"} {
		tag, err := name.NewTag(w.host + "/" + ref)
		if err == nil {
			err = remote.Write(tag, empty.Image)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	w.write(t, "testdata/repository.txtar")
	git(t, w.root, "init", "-q")
	git(t, w.root, "add", ".")

	act := strings.TrimPrefix(w.asker.github, "file://") + "acme/act"
	if err := os.MkdirAll(act, 0o755); err != nil {
		t.Fatal(err)
	}
	git(t, act, "init", "-q")
	git(t, act, "commit", "-q", "--allow-empty", "-m", "one")
	git(t, act, "tag", "-a", "-m", "annotated", "v4.4.0")

	proxy := t.TempDir()
	for _, v := range []string{"v1.2.0", "v1.2.3", "v1.3.0-rc.1"} {
		serve(t, proxy, "example.com/dep", v, true)
	}
	serve(t, proxy, "example.com/dep", "v1.2.4", false)
	serve(t, proxy, "example.com/indirect", "v1.0.0", true)
	for _, v := range []string{"v3.6.1", "v3.6.2"} {
		serve(t, proxy, "example.com/argo/v3", v, true)
	}
	for _, v := range []string{"v0.9.0", "v0.9.1", "v0.10.0"} {
		serve(t, proxy, "example.com/metrics", v, false) // unlisted
	}
	for key, value := range map[string]string{
		"GOPROXY": "file://" + proxy, "GONOSUMDB": "*", "GOMODCACHE": t.TempDir(), "GOFLAGS": "-modcacherw", "GOTOOLCHAIN": "local",
		"GIT_CONFIG_GLOBAL": os.DevNull, "GIT_AUTHOR_NAME": "lab", "GIT_AUTHOR_EMAIL": "lab@localhost", "GIT_COMMITTER_NAME": "lab", "GIT_COMMITTER_EMAIL": "lab@localhost",
	} {
		t.Setenv(key, value)
	}
	return w
}

func (w world) write(t *testing.T, archive string) {
	t.Helper()
	a, err := txtar.ParseFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range a.Files {
		file := filepath.Join(w.root, f.Name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, bytes.ReplaceAll(f.Data, []byte("HOST"), []byte(w.host)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=lab", "-c", "user.email=lab@localhost"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

// serve adds a version of a module to a folder that GOPROXY names.
func serve(t *testing.T, proxy, module, version string, listed bool) {
	t.Helper()
	dir := filepath.Join(proxy, module, "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	mod := "module " + module + "\n"
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	for file, text := range map[string]string{"go.mod": mod, "x.go": "package x\n", "tool/main.go": "package main\nfunc main() {}\n"} {
		f, err := z.Create(module + "@" + version + "/" + file)
		if err == nil {
			_, err = io.WriteString(f, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{".info": fmt.Sprintf(`{"Version":%q}`, version), ".mod": mod, ".zip": archive.String()}
	for suffix, text := range files {
		if err := os.WriteFile(filepath.Join(dir, version+suffix), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if listed {
		list, err := os.OpenFile(filepath.Join(dir, "list"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err == nil {
			_, err = fmt.Fprintln(list, version)
		}
		if err = errors.Join(err, list.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// run runs the command on the world's repository.
func (w world) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	c := command{root: w.root, out: &out, asker: w.asker, now: time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)}
	err := c.run(t.Context(), args)
	return out.String(), err
}

func (w world) read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(w.root, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestOutdated(t *testing.T) {
	w := newWorld(t)
	out, err := w.run(t, "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Pins []Row }
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range doc.Pins {
		unknown, _, _ := strings.Cut(r.Unknown, " ")
		got = append(got, fmt.Sprintf("%s %s %s|%s|%s|%s|%s|%t|%d", r.What, r.Name, r.Version, r.Newest, r.NewestOfMinor, unknown, r.SupportedUntil, r.Ended, len(r.Where)))
	}
	const pseudo = "v1.8.1-0.20250910200901-e86405a8674e"
	want := []string{
		"action acme/act v4.3.1|v4.4.0|||" + "|false|1",
		"chart argo-cd 3.6.1|v3.6.2|v3.6.2|||false|1",
		"chart metrics-server 3.13.1|3.14.0|3.13.1|||false|1",
		"chart podinfo 6.9.2|||it||false|3",
		"debian debian bookworm|||no|2028-06-30|false|1",
		"go go 1.27.3|||", "go go 1.26.8|||",
		"image argocd v3.6.1|v3.6.2|v3.6.2||release of 3.9|false|1",
		"image metrics-server v0.9.0|||",
		"image node v1.36.4|v1.36.5|v1.36.5||2027-06-28|false|2",
		"image redis 8.2.3-alpine|8.2.4-alpine|8.2.4-alpine|||false|1",
		"module example.com/argo/v3 v3.6.1|v3.6.2|v3.6.2|||false|1",
		"module example.com/dep v1.2.0|v1.2.4|v1.2.4|||false|4",
		"module example.com/part v1.2.0|||no||false|1",
		"module example.com/podinfo " + pseudo + "|||",
		"recipe argocd 3.6.1|v3.6.2|v3.6.2||release of 3.9|false|1",
		"recipe dep 1.2.0|v1.2.4|v1.2.4|||false|1",
		"recipe metrics-server v0.9.0|v0.10.0|v0.9.1|||false|4",
		"recipe podinfo " + pseudo + "|||",
	}
	if len(got) != len(want) {
		t.Errorf("%d pins, want %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("%s\nwant %s", got[i], want[i])
		}
	}
	table, err := w.run(t)
	if err != nil || !strings.HasPrefix(table, "WHAT ") || !strings.Contains(table, "unknown: no source lists its versions") {
		t.Errorf("%v\n%s", err, table)
	}
}

// A module that needs a newer Go than this one is listed all the same.
func TestNewerGo(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(strings.TrimPrefix(os.Getenv("GOPROXY"), "file://"), "example.com/argo/v3/@v")
	if err := os.WriteFile(filepath.Join(dir, "v3.6.2.mod"), []byte("module example.com/argo/v3\n\ngo 1.99.0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	got := w.asker.ask(t.Context(), moduleSource("example.com/argo/v3"), []*Pin{{What: Recipe, Version: "3.6.1"}})
	if !slices.Equal(got.versions, []string{"v3.6.1", "v3.6.2"}) || got.unknown != "" {
		t.Errorf("%+v", got)
	}
	if out, err := w.run(t, "set", "argocd", "3.6.2"); err != nil || strings.Contains(out, "does not serve") {
		t.Errorf("%v\n%s", err, out)
	}
}

// What does not answer is unknown, and no error.
func TestSilent(t *testing.T) {
	w := newWorld(t)
	hang := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(hang) })
	t.Setenv("GOPROXY", s.URL)
	a := asker{patience: 300 * time.Millisecond, github: s.URL + "/"}
	for _, source := range []Source{
		{Module, "example.com/dep", ""},
		{Image, strings.TrimPrefix(s.URL, "http://") + "/x", ""},
		{Chart, "x", s.URL},
		{Action, "acme/act", ""},
	} {
		if got := a.ask(t.Context(), source, []*Pin{{What: Module, Version: "v1.2.0"}}); got.unknown != "no answer within 300ms" || len(got.versions) > 0 {
			t.Errorf("%v: %+v", source, got)
		}
	}
	if got := w.asker.ask(t.Context(), Source{Image, "registry.invalid/x", ""}, nil); got.unknown != "registry.invalid: no such host" {
		t.Logf("%+v", got) // as this machine's resolver says it
	}
}

func TestFail(t *testing.T) {
	w := newWorld(t)
	if _, err := w.run(t, "-fail"); err != nil {
		t.Errorf("all is supported: %v", err)
	}
	file := filepath.Join(w.root, imagesFile)
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(w.read(t, imagesFile), "argocd:v3.6.1", "argocd:v3.3.9")), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := w.run(t, "-fail")
	if exit(err) != lab.ExitFailed || !strings.Contains(out, "2026-11-03 (ended)") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := w.run(t); err != nil {
		t.Errorf("without -fail: %v", err)
	}
}

func TestSet(t *testing.T) {
	w := newWorld(t)
	out, err := w.run(t, "set", "argocd", "3.6.2")
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string][]string{
		imagesFile:        {"argocd:v3.6.2 # as recipes\n    digest: sha256:", "metrics-server:v0.9.0"},
		recipesFile:       {"argocd: 3.6.2\n"},
		chartsFile:        {"version: 3.6.2\n", "argo/v3@v3.6.2\n", "part@v1.2.0"},
		".ci/contracts":   {"cp chart-argo-cd-3.6.2/*.tgz argo-cd-3.6.2.tgz"},
		"docs/json.md":    {"argocd:v3.6.1\""}, // has the examples of tests
		"docs/time.md":    {"argocd:v3.6.2\"", "\"version\": \"v3.6.1\"", "Not argocd 13.6.1, argocd 3.6.10 or argocd v3.6.1-rc1, but argocd 3.6.2."},
		"docs/support.md": {"| 3.6.2 | 3.6.2 | 3.6.1, once |"},
		"lab/x_test.go":   {"v3.6.1"},
	} {
		for _, text := range want {
			if got := w.read(t, file); !strings.Contains(got, text) {
				t.Errorf("%s lacks %q:\n%s", file, text, got)
			}
		}
	}
	if strings.Contains(w.read(t, imagesFile), "64e42393") {
		t.Error("the digest of the former version stayed")
	}
	for _, line := range []string{recipesFile + ":3: 3.6.1 -> 3.6.2", "lab/x_test.go:1: stays", "docs/json.md:1: stays, look whether it should; lines: 2", "next: task sums", "next: task record"} {
		if !strings.Contains(out, line) {
			t.Errorf("does not print %q:\n%s", line, out)
		}
	}
	if out, err := w.run(t, "set", "argocd", "v3.6.2"); err != nil || out != "argocd is at v3.6.2 already\n" {
		t.Errorf("again: %q, %v", out, err)
	}
}

// A digest that no registry names is unknown, and a chart's versions in its addon follow.
func TestSetDigest(t *testing.T) {
	w := newWorld(t)
	if out, err := w.run(t, "set", "metrics-server@v0.9.0", "0.9.5"); err != nil || !strings.Contains(out, "the proxy does not serve example.com/metrics v0.9.5: ") {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := w.run(t, "set", "metrics-server@0.9.5", "0.9.1"); err != nil || strings.Contains(out, "does not serve") {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := w.run(t, "set", "metrics-server@3.13.1", "3.14.0"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.run(t, "set", "redis", "8.2.4"); err != nil {
		t.Fatal(err)
	}
	got := w.read(t, imagesFile)
	for _, want := range []string{
		"    ref: " + w.host + "/metrics-server:v0.9.1\n    unknown: not looked up\n  - name: redis\n    ref: " + w.host + "/redis:8.2.4-alpine\n    digest: sha256:",
		"    version: 3.14.0\n    from: http://" + w.host + "/charts\n    app: 0.10.0\n    digest: sha256:" + strings.Repeat("ab", 32) + "\n  - name: podinfo\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks\n%s\nin\n%s", want, got)
		}
	}
	if got := w.read(t, "addons/metrics-server/applicationset.yaml"); got != "values: {version: 3.14.0}\n" {
		t.Errorf("addon: %s", got)
	}
	// What the repository does not say of a chart is not said of it.
	if out, err := w.run(t, "set", "metrics-server@3.14.0", "3.13.1"); err != nil || !strings.Contains(out, "chart metrics-server: app: unknown") {
		t.Errorf("%v\n%s", err, out)
	}
	if got := w.read(t, imagesFile); !strings.Contains(got, "    version: 3.13.1\n    from: http://"+w.host+"/charts\n    unknown: not looked up\n") {
		t.Errorf("lacks a chart of which nothing is known:\n%s", got)
	}
	if got := w.read(t, recipesFile); strings.Count(got, "v0.9.1") != 4 || strings.Contains(got, "v0.9.0") {
		t.Errorf("recipes:\n%s", got)
	}
}

// The name of another version of an image follows its version.
func TestSetVariant(t *testing.T) {
	w := newWorld(t)
	if out, err := w.run(t, "set", "node", "1.36.5"); err != nil || !strings.Contains(out, imagesFile+":14: 1.36.4 -> 1.36.5") || !strings.Contains(out, imagesFile+":15: v1.36.4 -> v1.36.5") {
		t.Fatalf("%v\n%s", err, out)
	}
	if got, want := w.read(t, imagesFile), "  - name: node-1.36.5 # another version of node\n    ref: "+w.host+"/node:v1.36.5\n    digest: sha256:"; !strings.Contains(got, want) {
		t.Errorf("lacks %q:\n%s", want, got)
	}
}

func TestSetModule(t *testing.T) {
	w := newWorld(t)
	out, err := w.run(t, "set", "example.com/dep", "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"go.mod": "require example.com/dep v1.2.3", ".tools/go.mod": "example.com/dep v1.2.3", frontMod: "require example.com/dep v1.2.3",
		recipesFile: "dep: 1.2.3\n", ".ci/contracts": "cmd/x@v1.2.3", "go.sum": "example.com/dep v1.2.3 h1:", frontSum: "example.com/dep v1.2.3/go.mod h1:",
	} {
		if got := w.read(t, file); !strings.Contains(got, want) {
			t.Errorf("%s lacks %q:\n%s", file, want, got)
		}
	}
	if sums := w.read(t, frontSum); strings.Contains(sums, "old") {
		t.Errorf("sums of the former version stayed:\n%s", sums)
	}
	for _, line := range []string{"go.mod:5: v1.2.0 -> v1.2.3", "next: go mod tidy ", "next: go mod tidy -C .tools", "next: task sums"} {
		if !strings.Contains(out, line) {
			t.Errorf("does not print %q:\n%s", line, out)
		}
	}
}

func TestSetAction(t *testing.T) {
	w := newWorld(t)
	if _, err := w.run(t, "set", "acme/act", "4.4.0"); err != nil {
		t.Fatal(err)
	}
	head, err := exec.CommandContext(t.Context(), "git", "-C", strings.TrimPrefix(w.asker.github, "file://")+"acme/act", "rev-parse", "HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := w.read(t, ".github/workflows/ci.yaml"), "acme/act@"+strings.TrimSpace(string(head))+" # v4.4.0; checks out\n"; !strings.Contains(got, want) {
		t.Errorf("lacks %q:\n%s", want, got)
	}
}

// Whatever fails changes no file, and bad input names file, line and cure.
func TestSetRefused(t *testing.T) {
	w := newWorld(t)
	snapshot := func() string {
		var all strings.Builder
		err := filepath.WalkDir(w.root, func(file string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.Contains(file, ".git"+string(filepath.Separator)) {
				return err
			}
			data, err := os.ReadFile(file)
			fmt.Fprintf(&all, "%s\n%s", file, data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return all.String()
	}
	before := snapshot()
	for _, c := range []struct {
		args []string
		exit lab.Exit
		says []string
	}{
		{[]string{"set", "argocd"}, lab.ExitInvalid, []string{"task pin"}},
		{[]string{"set", "argo", "3.6.2"}, lab.ExitInvalid, []string{"no pin is called argo", "task outdated"}},
		{[]string{"set", "argocd", "newest"}, lab.ExitInvalid, []string{`"newest" is not a version`, imagesFile + ":4"}},
		{[]string{"set", "metrics-server", "0.9.1"}, lab.ExitInvalid, []string{imagesFile + ":7", "task pin -- metrics-server@v0.9.0 VERSION", "task pin -- metrics-server@3.13.1 VERSION"}},
		{[]string{"set", "podinfo@6.7.0", "6.9.3"}, lab.ExitInvalid, []string{"no pin is called podinfo@6.7.0"}},
		{[]string{"set", "example.com/dep", "v9.9.9"}, lab.ExitFailed, []string{"go get example.com/dep@v9.9.9 failed", "nothing was changed"}},
		{[]string{"set", "acme/act", "v9.9.9"}, lab.ExitFailed, []string{"acme/act has no tag v9.9.9"}},
		{[]string{"-o", "xml"}, lab.ExitInvalid, []string{"-o json"}},
		{[]string{"-x"}, lab.ExitInvalid, []string{"-fail"}},
	} {
		_, err := w.run(t, c.args...)
		text := message(err)
		if exit(err) != c.exit || slices.ContainsFunc(c.says, func(s string) bool { return !strings.Contains(text, s) }) {
			t.Errorf("%q: exit %d, %s; want %d and %q", c.args, exit(err), text, c.exit, c.says)
		}
	}
	if snapshot() != before {
		t.Error("a file was changed")
	}
}

// A file that cannot be replaced leaves the others as they were.
func TestSetPutsBack(t *testing.T) {
	w := newWorld(t)
	before := w.read(t, chartsFile)
	if err := os.MkdirAll(filepath.Join(w.root, recipesFile+".new"), 0o755); err != nil { // the last file that would be written
		t.Fatal(err)
	}
	if _, err := w.run(t, "set", "argocd", "3.6.2"); err == nil {
		t.Fatal("no error")
	}
	if got := w.read(t, chartsFile); got != before {
		t.Errorf("changed:\n%s", got)
	}
}

func TestBroken(t *testing.T) {
	w := newWorld(t)
	for file, text := range map[string]string{
		imagesFile:                  "images:\n  - name: x\n    ref: example.com/x\n",
		chartsFile:                  "charts:\n  - [\n",
		".github/workflows/ci.yaml": "jobs:\n  a:\n    steps:\n    - uses: acme/act@v4\n",
	} {
		if err := os.WriteFile(filepath.Join(w.root, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, err := w.run(t)
	text := message(err)
	for _, want := range []string{imagesFile + `:2: pins: image x: ref "example.com/x" must be repository:tag: correct it`, chartsFile + ":2: yaml: line 2: ", "ci.yaml:4: action acme/act is not pinned by its commit: write"} {
		if exit(err) != lab.ExitInvalid || !strings.Contains(text, want) {
			t.Errorf("%d %s lacks %q", exit(err), text, want)
		}
	}
}

func TestVersions(t *testing.T) {
	for _, c := range []struct{ pinned, served, all, minor string }{
		{"3.6.1", "v3.6.2 v3.7.0 v3.8.0-rc1 v3.10.0 latest", "v3.10.0", "v3.6.2"},
		{"v3.6.1", "3.6.1", "3.6.1", "3.6.1"},
		{"8.2.3-alpine", "8.4.0 8.2.4-alpine 8.3.0-alpine3.22", "8.2.4-alpine", "8.2.4-alpine"},
		{"3.10", "3.9 3.10 3.10.1", "3.10", "3.10"},
		{"1.0.0", "0.9.0", "0.9.0", ""},
		{"v0.0.0-20250730193827-2d320260d730", "v0.0.0-20260101000000-aaaaaaaaaaaa", "v0.0.0-20260101000000-aaaaaaaaaaaa", "v0.0.0-20260101000000-aaaaaaaaaaaa"},
		{"v1.8.1-0.20250910200901-e86405a8674e", "v1.8.0 v1.8.1", "v1.8.1", "v1.8.1"},
		{"bookworm", "1.0.0", "", ""},
	} {
		if all, minor := newest(c.pinned, strings.Fields(c.served)); all != c.all || minor != c.minor {
			t.Errorf("%s of %s: %q, %q, want %q, %q", c.pinned, c.served, all, minor, c.all, c.minor)
		}
	}
}
