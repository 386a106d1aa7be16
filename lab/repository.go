package lab

import (
	"fmt"
	"io/fs"
	"net/url"
	"regexp"
	"strings"
)

// Repository is a Git repository beside the estate, which the lab's forge serves a mirror of.
type Repository struct {
	Name   string // of the mirror: a DNS label
	URL    string // as manifests and metadata write it
	Dir    string // its folder, as cluster.yaml writes it: relative to the estate, or absolute
	Path   string // its folder on disk, absolute; empty where the estate is not on disk
	Branch string // that is checked out there; main where the folder is no Git repository
	FS     fs.FS  // its working tree
	At     Position

	// Revisions returns the repository at another branch, a tag or a commit. Nil where the folder is no clone.
	Revisions func(revision string) (*Repository, error)

	Written bool     // manifests have its address written out, where no annotation leads them to the mirror
	SSH     []string // those of these addresses that are of SSH, as they are written
}

// scpURL is an address as `git clone` takes it for SSH: user@host:path.
var scpURL = regexp.MustCompile(`^(?:[^@/:]+@)?([^/:]+):([^/].*)$`)

// OverSSH reports whether an address is one of SSH: ssh://host/path or user@host:path.
func OverSSH(address string) bool {
	return strings.HasPrefix(address, "ssh://") || scpURL.MatchString(address) && strings.Contains(address, "@")
}

// RepositoryKey is what the addresses of one repository have in common, whatever the protocol, user, port, case or suffix: "github.com/owner/name".
func RepositoryKey(address string) string {
	host, path := "", address
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		host, path = u.Hostname(), u.Path
	} else if m := scpURL.FindStringSubmatch(address); m != nil {
		host, path = m[1], m[2]
	}
	path = strings.TrimSuffix(strings.Trim(path, "/"), ".git")
	return strings.ToLower(strings.TrimPrefix(host+"/"+path, "/"))
}

// RepositoryPage is the address of a repository on the web, "https://github.com/owner/name": what clients that speak HTTP ask for, whatever the protocol, user
// and suffix of address. It is empty for what has no host.
func RepositoryPage(address string) string {
	page := url.URL{Scheme: "https"}
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		page.Host, page.Path = u.Hostname(), u.Path
		if u.Scheme == "http" || u.Scheme == "https" {
			page.Scheme, page.Host = u.Scheme, u.Host
		}
	} else if m := scpURL.FindStringSubmatch(address); m != nil {
		page.Host, page.Path = m[1], m[2]
	} else {
		return ""
	}
	page.Path = "/" + strings.TrimSuffix(strings.Trim(page.Path, "/"), ".git")
	return page.String()
}

// Repository returns the mounted repository that an address is of.
func (e *Estate) Repository(address string) (*Repository, bool) {
	key := RepositoryKey(address)
	for i := range e.Repositories {
		if RepositoryKey(e.Repositories[i].URL) == key {
			return &e.Repositories[i], true
		}
	}
	return nil, false
}

// Of returns the repository at a revision: its working tree, or what its clone has.
func (r *Repository) Of(revision string) (*Repository, error) {
	switch {
	case r.Has(revision):
		return r, nil
	case r.Revisions == nil:
		return nil, fmt.Errorf("%s is no clone, and has no %s", r.Dir, revision)
	}
	return r.Revisions(revision)
}

// Has reports whether a revision is of the branch that is checked out: by its name, or none.
func (r *Repository) Has(revision string) bool {
	revision = strings.TrimPrefix(revision, "refs/heads/")
	return revision == "" || revision == "HEAD" || revision == r.Branch
}
