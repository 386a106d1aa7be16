//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"homelab/lab/ui"
)

// TestBundle saves a bundle, forgets everything that was built, and brings a lab up from the bundle: without Go, without a network.
func TestBundle(t *testing.T) {
	l := newLab(t, "e2e-bundle", "hub", "dev")
	file := filepath.Join(t.TempDir(), "lab.tar.zst")
	saved := l.must("bundle", "save", file)
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("saved %d MB in %.1fs", info.Size()/1e6, saved.took.Seconds())

	// the machine that the bundle comes to: no compiler, no cache, no image, no way out
	bin := t.TempDir()
	for _, program := range []string{"docker", "git"} {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, program)); err != nil {
			t.Fatal(err)
		}
	}
	l.env = append(l.env, "PATH="+bin, "XDG_CACHE_HOME="+t.TempDir(), "GOPROXY=off", "HTTP_PROXY=http://127.0.0.1:9", "HTTPS_PROXY=http://127.0.0.1:9")
	for _, ref := range strings.Fields(docker(t, "image", "ls", "--format", "{{.Repository}}:{{.Tag}}")) {
		if strings.HasPrefix(ref, "lab/node:") || strings.HasPrefix(ref, "docker.gitea.com/gitea:") {
			docker(t, "image", "rm", "--force", ref)
		}
	}

	loaded := l.must("bundle", "load", file)
	t.Logf("loaded in %.1fs", loaded.took.Seconds())
	out := decode[ui.UpResult](l, "up", "--images", "bundle="+file)
	t.Logf("up from the bundle in %.1fs", out.Seconds)
	l.converged(2, 4)
	for _, i := range decode[ui.BundleResult](l, "bundle", "ls", "--images", "bundle="+file).Items {
		if i.Origin != "bundle" || !i.AtHand {
			t.Errorf("%s %s is from %s, at hand %v", i.Kind, i.Name, i.Origin, i.AtHand)
		}
	}
}
