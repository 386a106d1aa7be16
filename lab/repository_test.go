package lab

import (
	"strings"
	"testing"
)

func TestRepositoryKey(t *testing.T) {
	const want = "github.com/owner/name"
	for _, address := range []string{
		"https://github.com/owner/name", "https://github.com/Owner/Name.git", "https://user:token@github.com/owner/name/", "http://github.com:80/owner/name.git",
		"git@github.com:owner/name.git", "ssh://git@github.com:22/owner/name", "ssh://git@github.com/owner/name.git/",
	} {
		if got := RepositoryKey(address); got != want {
			t.Errorf("RepositoryKey(%q) = %q, want %q", address, got, want)
		}
	}
	for address, want := range map[string]string{
		"https://gitlab.com/a/b/c.git": "gitlab.com/a/b/c", "": "", "name": "name", "../name": "../name", "https://github.com": "github.com/",
		"https://github.com/owner/name.git.git": "github.com/owner/name.git",
	} {
		if got := RepositoryKey(address); got != want {
			t.Errorf("RepositoryKey(%q) = %q, want %q", address, got, want)
		}
	}
}

func TestRepositoryPage(t *testing.T) {
	for address, want := range map[string]string{
		"https://github.com/Owner/Name.git": "https://github.com/Owner/Name", "https://user:token@github.com/owner/name/": "https://github.com/owner/name",
		"http://git.example.com:3000/a/b": "http://git.example.com:3000/a/b", "git@github.com:owner/name.git": "https://github.com/owner/name",
		"ssh://git@github.com:22/owner/name": "https://github.com/owner/name", "../name": "", "": "",
	} {
		if got := RepositoryPage(address); got != want {
			t.Errorf("RepositoryPage(%q) = %q, want %q", address, got, want)
		}
	}
}

func TestOverSSH(t *testing.T) {
	for address, want := range map[string]bool{
		"git@github.com:owner/name.git": true, "ssh://git@github.com:22/owner/name": true, "ssh://github.com/owner/name": true,
		"https://github.com/owner/name": false, "https://user@github.com/owner/name": false, "https://user:token@github.com/owner/name": false,
		"git://github.com/owner/name": false, "ghcr.io/owner/name@sha256:0": false, "localhost:5000/owner/name": false, "../name": false, "": false,
	} {
		if got := OverSSH(address); got != want {
			t.Errorf("OverSSH(%q) = %v", address, got)
		}
	}
}

func TestHostOf(t *testing.T) {
	for address, want := range map[string]string{
		"https://charts.example.com/stable": "https://charts.example.com",
		"http://127.0.0.1:3000/lab/x.git":   "http://127.0.0.1:3000",
		"oci://ghcr.io/org/chart":           "https://ghcr.io",
		"git://example.com/x.git":           "https://example.com",
		"ghcr.io/org/chart":                 "https://ghcr.io",
		"registry.example.com:5000/x":       "https://registry.example.com:5000",
		"localhost/x":                       "https://localhost",
		"registry.example.com":              "https://registry.example.com",
		"registry.example.com:5000":         "https://registry.example.com:5000",
		"busybox":                           "https://registry-1.docker.io",
		"busybox:1.36":                      "https://registry-1.docker.io",
		"nginx:1.27@sha256:0a399e":          "https://registry-1.docker.io",
		"acme/tool:1":                       "https://registry-1.docker.io",
		"docker.io/acme/tool":               "https://registry-1.docker.io",
	} {
		if host, err := HostOf(address); host != want || err != nil {
			t.Errorf("%s: %s, %v; want %s", address, host, err, want)
		}
	}
	for address, want := range map[string]string{
		"git@example.com:org/x.git":              "SSH keys",
		"ssh://git@git.example.com:2222/x/y.git": "SSH keys",
		"<REPO_URL>":                             "placeholder",
		"lab-open-image":                         "lab fill",
		"https://lab-open-charts.invalid/a":      "lab fill",
		"https://{{ .Values.host }}/x":           "placeholder",
		"cnoe://manifests":                       "idpbuilder",
		"s3://bucket/charts":                     "s3://",
		"other://":                               "no host",
		"file:///srv/x":                          "no host",
	} {
		if host, err := HostOf(address); host != "" || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v; want %s", address, host, err, want)
		}
	}
}
