//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"homelab/lab/ui"
)

func bundled(t *testing.T) {
	onlyHere(t)
	l := newLab(t, "e2e-bundle", "hub", "dev")
	file := filepath.Join(t.TempDir(), "lab.tar.zst")
	saved := decode[ui.BundleResult](l, "bundle", "save", file)
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("saved %d MB, %s", info.Size()/1e6, saved.SHA256)

	l.onAnotherMachine()
	loaded := l.must("bundle", "load", "--sha256", saved.SHA256, file)
	t.Logf("loaded in %.1fs", loaded.took.Seconds())
	out := decode[ui.UpResult](l, "up", "--images", "bundle="+file)
	t.Logf("up from the bundle in %.1fs", out.Seconds)
	l.converged(2, 4)
	for _, i := range decode[ui.BundleResult](l, "bundle", "ls", "--images", "bundle="+file).Items {
		if i.Origin != "bundle" || !i.AtHand || i.Check == "" {
			t.Errorf("%s %s: origin %s, available %v, checked by %q", i.Kind, i.Name, i.Origin, i.AtHand, i.Check)
		}
	}
}

// onAnotherMachine emulates a machine without compiler, cache, images or network except the loopback.
func (l *testLab) onAnotherMachine() {
	l.t.Helper()
	bin := l.t.TempDir()
	for _, program := range []string{"docker", "git"} {
		path, err := exec.LookPath(program)
		if err != nil {
			l.t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, program)); err != nil {
			l.t.Fatal(err)
		}
	}
	l.env = append(l.env, "PATH="+bin, "XDG_CACHE_HOME="+l.t.TempDir(), "GOPROXY=off", "HTTP_PROXY=http://127.0.0.1:9", "HTTPS_PROXY=http://127.0.0.1:9")
	for _, ref := range strings.Fields(docker(l.t, "image", "ls", "--format", "{{.Repository}}:{{.Tag}}")) {
		if strings.HasPrefix(ref, "lab/node:") || strings.HasPrefix(ref, "docker.gitea.com/gitea:") {
			docker(l.t, "image", "rm", "--force", ref)
		}
	}
}

func mirrored(t *testing.T) {
	onlyHere(t)
	mirror := startRegistry(t)
	l := newLab(t, "e2e-registry", "hub", "dev")
	pushed := l.must("bundle", "push", mirror)
	t.Logf("pushed in %.1fs", pushed.took.Seconds())
	l.onAnotherMachine()
	out := decode[ui.UpResult](l, "up", "--images", "registry", "--registry-mirror", mirror)
	t.Logf("up from the registry in %.1fs", out.Seconds)
	l.converged(2, 4)
	var pulled []string
	for _, i := range decode[ui.BundleResult](l, "bundle", "ls", "--images", "registry", "--registry-mirror", mirror).Items {
		if i.Origin != "registry" {
			t.Errorf("%s %s: origin %s", i.Kind, i.Name, i.Origin)
		}
		if i.AtHand && !slices.Contains(pulled, i.Kind+" "+i.Name) { // of a chart, one version is enough
			pulled = append(pulled, i.Kind+" "+i.Name)
		}
	}
	slices.Sort(pulled)
	// What the lab runs on, its engine and the addons that are on, and no more
	if want := []string{
		"chart argo-cd", "chart metrics-server", "chart podinfo",
		"image argocd", "image gate", "image gitea", "image metrics-server", "image node", "image podinfo", "image podinfo-old", "image redis",
	}; !slices.Equal(pulled, want) {
		t.Errorf("pulled %q, want %q", pulled, want)
	}
	if again := decode[ui.UpResult](l, "up", "--images", "registry", "--registry-mirror", mirror); len(again.Changed) > 0 {
		t.Errorf("second up changed %v", again.Changed)
	}
}

// startRegistry builds distribution's registry and runs it on the loopback for the test.
func startRegistry(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	install := exec.Command("go", "install", "github.com/distribution/distribution/v3/cmd/registry@v3.1.2")
	install.Env = append(os.Environ(), "GOBIN="+bin)
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("build registry: %v\n%s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	config := filepath.Join(t.TempDir(), "config.yml")
	text := fmt.Sprintf("version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: %s}\n", t.TempDir(), addr)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(bin, "registry"), "serve", config)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		if res, err := http.Get("http://" + addr + "/v2/"); err == nil {
			res.Body.Close()
			return addr
		}
		select {
		case <-ctx.Done():
			t.Fatal("the registry does not answer")
		case <-tick.C:
		}
	}
}
