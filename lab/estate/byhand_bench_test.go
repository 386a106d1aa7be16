//go:build unix

package estate_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"
)

// BenchmarkByHand compares two revisions of 92 applications, half of them charts and half kustomizations: with `lab diff`, and with the commands of helm and kustomize, one
// for each application and revision. The helm and kustomize of go.mod's modules are built first. Seconds are of the processor, with those that start programs.
func BenchmarkByHand(b *testing.B) {
	const addons, clusters = 23, 4
	bin := b.TempDir()
	run := func(dir string, env []string, name string, args ...string) []byte {
		b.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			b.Fatalf("%s %q: %v\n%s", name, args, err, &stderr)
		}
		return out
	}
	version := func(module string) string {
		return strings.TrimSpace(string(run("", nil, "go", "list", "-m", "-f", "{{.Version}}", module)))
	}
	run("", nil, "go", "build", "-o", filepath.Join(bin, "lab"), "homelab")
	run("", []string{"GOBIN=" + bin}, "go", "install", "helm.sh/helm/v3/cmd/helm@"+version("helm.sh/helm/v3"))
	run("", []string{"GOBIN=" + bin}, "go", "install", "sigs.k8s.io/kustomize/kustomize/v5@v5.8.1")

	dir := filepath.Join(b.TempDir(), "estate")
	files := large(addons, clusters)
	for a := 0; a < addons; a += 2 { // a kustomization instead of a chart
		addon := fmt.Sprintf("addons/addon-%d/", a)
		set := string(files[addon+"applicationset.yaml"].Data)
		from, to := strings.Index(set, "/chart\n"), strings.Index(set, "      destination:")
		files[addon+"applicationset.yaml"].Data = []byte(set[:from] + "/overlays/{{.metadata.labels.environment}}\n" + set[to:])
		chart := string(files[addon+"chart/templates/all.yaml"].Data)
		for name := range files {
			if strings.HasPrefix(name, addon+"chart/") {
				delete(files, name)
			}
		}
		add := func(name, text string) { files[addon+name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644} }
		add("base/all.yaml", strings.NewReplacer("{{ .Release.Name }}", "web", "{{ .Values.cluster }}", "none", "{{ .Values.replicas }}", "1", "{{ .Values.image.name }}:{{ .Values.image.tag }}", "web:1.0.0").Replace(chart))
		add("base/kustomization.yaml", "resources: [all.yaml]\n")
		for _, env := range []string{"dev", "staging", "prod"} {
			add("overlays/"+env+"/kustomization.yaml", "resources: [../../base]\nreplicas: [{name: web, count: 2}]\n")
		}
	}
	for name, f := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o750); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), f.Data, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	git := func(args ...string) {
		b.Helper()
		run(dir, nil, "git", append([]string{"-c", "user.name=ann", "-c", "user.email=ann@example.com"}, args...)...)
	}
	git("init", "-q")
	git("add", "-A")
	git("commit", "-qm", "before")
	for a := range addons { // every application changes
		name, text := fmt.Sprintf("addons/addon-%d/chart/values.yaml", a), "replicas: 1\nimage: {name: web, tag: 1.0.1}\ncluster: none\n"
		if a%2 == 0 {
			name = fmt.Sprintf("addons/addon-%d/base/all.yaml", a)
			text = strings.ReplaceAll(string(files[name].Data), "web:1.0.0", "web:1.0.1")
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	git("commit", "-qam", "after")
	if err := os.WriteFile(filepath.Join(dir, "environments/dev/addons/addon-1/values.yaml"), []byte("replicas: 3\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	git("commit", "-qam", "one file")

	measure := func(name string, work func(b *testing.B)) {
		b.Run(name, func(b *testing.B) {
			start := children(b)
			for range b.N {
				work(b)
			}
			b.ReportMetric((children(b)-start)/float64(b.N), "cpu-s/op")
		})
	}
	measure("commands", func(*testing.B) {
		for range 2 { // the revisions cost the same
			for a := range addons {
				for c := range clusters {
					env := []string{"dev", "staging", "prod"}[c%3]
					if a%2 == 0 {
						run(dir, nil, filepath.Join(bin, "kustomize"), "build", fmt.Sprintf("addons/addon-%d/overlays/%s", a, env))
						continue
					}
					run(dir, nil, filepath.Join(bin, "helm"), "template", fmt.Sprintf("c%d-addon-%d", c, a), fmt.Sprintf("addons/addon-%d/chart", a), "--namespace", fmt.Sprintf("addon-%d", a),
						"--values", fmt.Sprintf("environments/%s/addons/addon-%d/values.yaml", env, a), "--set", fmt.Sprintf("cluster=c%d", c))
				}
			}
		}
	})
	state := []string{"XDG_STATE_HOME=" + b.TempDir()}
	lab := func(b *testing.B, want string, args ...string) {
		if out := string(run(dir, state, filepath.Join(bin, "lab"), args...)); !strings.Contains(out, want) {
			b.Fatalf("lab %q: %s", args, out)
		}
	}
	measure("lab-diff", func(b *testing.B) { lab(b, "differences in 92 of 92 applications", "diff", "--rev", "HEAD~2..HEAD~1") })
	measure("lab-diff-one-file", func(b *testing.B) { lab(b, "differences in 2 of 92 applications", "diff", "--rev", "HEAD~1..HEAD") })
	measure("lab-plan", func(b *testing.B) { lab(b, "restart 92", "plan", "--rev", "HEAD~2..HEAD~1") })
	measure("lab-lint", func(b *testing.B) { lab(b, "", "lint") })
	measure("lab-version", func(b *testing.B) { lab(b, "", "version") }) // what starting it costs
}

// children returns the seconds of the processor that ended programs have used.
func children(b *testing.B) float64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
