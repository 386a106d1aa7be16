//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// buildFlux compiles the flux command, which embeds manifests that its module lacks; only `flux install` needs them.
func buildFlux(t *testing.T) string {
	t.Helper()
	module, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}} {{.Version}}", "github.com/fluxcd/flux2/v2").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir, version, _ := strings.Cut(strings.TrimSpace(string(module)), " ")
	work := t.TempDir()
	if err := os.CopyFS(work, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	manifests := filepath.Join(work, "cmd", "flux", "manifests")
	if err := os.MkdirAll(manifests, 0o755); err != nil {
		t.Fatal(err)
	}
	replace(t, filepath.Join(manifests, "none.yaml"), "# none\n")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-X main.VERSION="+strings.TrimPrefix(version, "v")+"-lab", "-o", "flux", "./cmd/flux")
	build.Dir = work
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(work, "flux")
}

// fluxCommand uses the flux command on the cluster whose Flux delivers dev's addons, as on a bootstrapped one.
func fluxCommand(t *testing.T, l *testLab) {
	program := buildFlux(t)
	flux := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Dir, cmd.Env = l.estate, append(os.Environ(), "KUBECONFIG="+filepath.Join(l.state, "lab", l.name, "kubeconfigs", "hub.yaml"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("flux %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	if out := flux("check"); !strings.Contains(out, "all checks passed") {
		t.Errorf("flux check:\n%s", out)
	}
	all := flux("get", "all", "-A")
	for _, want := range []string{"gitrepository/flux-system", "kustomization/flux-system", "kustomization/podinfo", "helmrelease/podinfo", "helmrepository/charts", "receiver/"} {
		if !strings.Contains(all, want) {
			t.Errorf("flux get all has no %s:\n%s", want, all)
		}
	}
	for _, line := range strings.Split(all, "\n") {
		if strings.Contains(line, "\tFalse\t") && !strings.Contains(line, "\tTrue\t") {
			t.Errorf("not ready: %s", line)
		}
	}
	flux("reconcile", "kustomization", "podinfo", "-n", "cluster-dev", "--with-source")
	flux("diff", "kustomization", "podinfo", "-n", "cluster-dev", "--path", "clusters/dev/addons/podinfo", "--progress-bar=false")
	flux("reconcile", "helmrelease", "podinfo", "-n", "cluster-dev")
}
