package lab

import (
	"cmp"
	"fmt"
	"io/fs"
	"net/url"
	"regexp"
	"strings"
)

// Repository is a Git repository besides the estate that the lab's forge mirrors.
type Repository struct {
	Name   string // of the mirror: a DNS label
	URL    string // as in manifests and metadata
	Dir    string // folder as in cluster.yaml: relative to the estate, or absolute
	Path   string // absolute folder on disk; empty if the estate is not on disk
	Branch string // checked-out branch; main if the folder is not a Git repository
	FS     fs.FS  // working tree
	At     Position

	// Revisions returns the repository at another branch, tag or commit. It is nil if the folder is not a clone.
	Revisions func(revision string) (*Repository, error)

	Written bool     // manifests contain its address literally, so that no annotation can redirect them to the mirror
	SSH     []string // the SSH ones of these addresses
}

// scpURL matches an scp-like SSH address as accepted by `git clone`: user@host:path.
var scpURL = regexp.MustCompile(`^(?:[^@/:]+@)?([^/:]+):([^/].*)$`)

// OverSSH reports whether an address uses SSH: ssh://host/path or user@host:path.
func OverSSH(address string) bool {
	return strings.HasPrefix(address, "ssh://") || scpURL.MatchString(address) && strings.Contains(address, "@")
}

// RepositoryKey returns a key that is equal for all addresses of a repository, regardless of protocol, user, port, case and suffix:
// "github.com/owner/name".
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

// RepositoryPage returns the web address of a repository, "https://github.com/owner/name", which HTTP clients request regardless of the address's protocol,
// user and suffix. It is empty for an address without a host.
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

// Repository returns the mounted repository with the given address.
func (e *Estate) Repository(address string) (*Repository, bool) {
	key := RepositoryKey(address)
	for i := range e.Repositories {
		if RepositoryKey(e.Repositories[i].URL) == key {
			return &e.Repositories[i], true
		}
	}
	return nil, false
}

// Of returns the repository at a revision: its working tree for the checked-out branch, else from its clone.
func (r *Repository) Of(revision string) (*Repository, error) {
	switch {
	case r.Has(revision):
		return r, nil
	case r.Revisions == nil:
		return nil, fmt.Errorf("%s is no clone, and has no %s", r.Dir, revision)
	}
	return r.Revisions(revision)
}

// Has reports whether a revision is the checked-out branch; "" and HEAD are.
func (r *Repository) Has(revision string) bool {
	revision = strings.TrimPrefix(revision, "refs/heads/")
	return revision == "" || revision == "HEAD" || revision == r.Branch
}

// HostOf returns scheme and host of a repository or image: https://charts.example.com/x, oci://ghcr.io/x, ghcr.io/x, git@example.com:x.git,
// ssh://git@example.com/x.git.
func HostOf(repository string) (scheme, host string) {
	if !strings.Contains(repository, "://") {
		if user, rest, ok := strings.Cut(repository, "@"); ok && !strings.Contains(user, "/") {
			host, _, _ = strings.Cut(rest, ":")
			return "ssh", host
		}
		host, _, _ = strings.Cut(repository, "/")
		return "https", host
	}
	u, err := url.Parse(repository)
	if err != nil {
		return "https", repository
	}
	switch u.Scheme {
	case "http", "ssh":
		return u.Scheme, u.Host
	}
	return "https", cmp.Or(u.Host, repository)
}
