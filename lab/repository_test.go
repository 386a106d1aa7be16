package lab

import "testing"

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
