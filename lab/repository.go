package lab

import (
	"errors"
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
var scpURL = regexp.MustCompile(`^([^@/:]+@)?([^/:]+):([^/].*)$`)

// OverSSH reports whether an address uses SSH: ssh://host/path or user@host:path.
func OverSSH(address string) bool {
	m := scpURL.FindStringSubmatch(address)
	return strings.HasPrefix(address, "ssh://") || m != nil && m[1] != ""
}

// RepositoryKey returns a key that is equal for all addresses of a repository, regardless of protocol, user, port, case and suffix:
// "github.com/owner/name".
func RepositoryKey(address string) string {
	host, path := "", address
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		host, path = u.Hostname(), u.Path
	} else if m := scpURL.FindStringSubmatch(address); m != nil {
		host, path = m[2], m[3]
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
		page.Host, page.Path = m[2], m[3]
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
		return nil, fmt.Errorf("%s is not a clone, and has no %s", r.Dir, revision)
	}
	return r.Revisions(revision)
}

// Has reports whether a revision is the checked-out branch; "" and HEAD are.
func (r *Repository) Has(revision string) bool {
	revision = strings.TrimPrefix(revision, "refs/heads/")
	return revision == "" || revision == "HEAD" || revision == r.Branch
}

// OpenPrefix begins what stands for a value that nothing gives yet.
const OpenPrefix = "lab-open-"

// dockerHub is the host of images without one.
const dockerHub = "registry-1.docker.io"

// ErrSSH is the error of HostOf for an address that only SSH opens.
var ErrSSH = errors.New("lab does not provide the engine with SSH keys")

// HostOf returns scheme and host of a repository or an image, as in https://ghcr.io, or an error that says why lab contacts none.
func HostOf(address string) (string, error) {
	scheme, _, found := strings.Cut(address, "://")
	switch {
	case strings.ContainsAny(address, "<>{} "):
		return "", errors.New("it is a placeholder that nothing fills in")
	case strings.Contains(address, OpenPrefix):
		return "", errors.New("it is open: set it with lab fill KEY=VALUE")
	case OverSSH(address):
		return "", ErrSSH
	case !found:
		host, _, found := strings.Cut(address, "/")
		named := host
		if !found { // an image of Docker Hub, or a registry alone
			named, _, _ = strings.Cut(host, ":")
		}
		if !strings.ContainsAny(named, ".:") && named != "localhost" || host == "docker.io" || host == "index.docker.io" {
			host = dockerHub
		}
		return "https://" + host, nil
	case scheme == "cnoe":
		return "", errors.New("it is a folder that idpbuilder serves, and lab does not")
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "", errors.New("it has no host")
	}
	switch u.Scheme {
	case "https", "http":
		return u.Scheme + "://" + u.Host, nil
	case "oci", "git":
		return "https://" + u.Host, nil
	}
	return "", fmt.Errorf("neither lab nor the engine knows %s://", u.Scheme)
}
