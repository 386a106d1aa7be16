// Package trust lists what an estate asks for outside of the lab's containers: files, addresses, hosts, clusters and programs of the machine and its user. An
// estate is untrusted until the user has agreed to that list. The package only reads documents that are already loaded.
package trust

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/finding"
)

// Kind is a kind of outside thing.
type Kind string

// The kinds.
const (
	Mount   Kind = "mount"   // a path of the machine in a node
	Listen  Kind = "listen"  // an address beyond loopback
	Image   Kind = "image"   // a node image that is not kind's, or where images come from
	Patch   Kind = "patch"   // a setting of a node that lab cannot vouch for
	Cluster Kind = "cluster" // an existing cluster: a context and its server
	Plugin  Kind = "plugin"  // a program that gets the credentials of a cluster
	Folder  Kind = "folder"  // a folder beyond the estate that is pushed to the forge
	Host    Kind = "host"    // a host that lab itself contacts
)

// Thing is access outside of the lab's containers that an estate needs.
type Thing struct {
	At      lab.Position
	Kind    Kind
	Cluster string // that gets it; empty for the lab
	What    string // one line
	Gives   string // what the estate can do with it

	content string // of a patch, which What only names
}

// everything is what a node can do that lab cannot vouch for: nodes are privileged containers.
const everything = "everything on this machine"

// Digest identifies the thing independently of its position.
func (t Thing) Digest() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{string(t.Kind), t.Cluster, t.What, t.Gives, t.content}, "\x00")))
	return hex.EncodeToString(sum[:])
}

// String returns the thing in one line: "cluster dev: mount /srv at /data: read and write access to its files".
func (t Thing) String() string {
	s := string(t.Kind) + " " + t.What + ": " + t.Gives
	if t.Cluster != "" {
		s = "cluster " + t.Cluster + ": " + s
	}
	return s
}

// Problem returns the thing with its position.
func (t Thing) Problem() lab.Problem {
	return lab.Problem{Code: finding.Untrusted, Position: t.At, Message: t.String()}
}

// Of returns what the documents of an estate ask for, in the order of its files. The existing clusters are up to their kubeconfigs.
func Of(est *lab.Estate) []Thing {
	var list []Thing
	for _, c := range est.Clusters {
		list = append(list, kindDocument(c)...)
	}
	for _, r := range est.Repositories {
		if beyond(est.Dir, r.Path) {
			list = append(list, FolderOf(r))
		}
	}
	list = append(list, hosts(est)...)
	Sort(list)
	return list
}

// Sort orders things by file and line.
func Sort(list []Thing) {
	slices.SortStableFunc(list, func(a, b Thing) int {
		return cmp.Or(cmp.Compare(a.At.File, b.At.File), cmp.Compare(a.At.Line, b.At.Line), cmp.Compare(a.At.Column, b.At.Column), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.What, b.What))
	})
}

// FolderOf returns a mounted repository as a thing.
func FolderOf(r lab.Repository) Thing {
	return Thing{At: r.At, Kind: Folder, What: r.Path, Gives: "the lab's forge serves its files to the clusters"}
}

// beyond reports whether a folder is not in the estate's, by its name or by a link.
func beyond(estate, folder string) bool {
	if folder == "" { // embedded
		return false
	}
	if real, err := filepath.EvalSymlinks(folder); err == nil {
		folder = real
	}
	if real, err := filepath.EvalSymlinks(estate); err == nil {
		estate = real
	}
	rel, err := filepath.Rel(estate, folder)
	return err != nil || !filepath.IsLocal(rel)
}

// hosts returns the hosts that lab probes: those of the charts, repositories and images that it does not have.
func hosts(est *lab.Estate) []Thing {
	var list []Thing
	for _, a := range est.Applications {
		for _, address := range slices.Concat(a.Others, a.Pulls) {
			t := HostOf(address)
			if t.At = a.At; t.What != "" && !slices.ContainsFunc(list, func(have Thing) bool { return have.What == t.What }) {
				list = append(list, t)
			}
		}
	}
	return list
}

// HostOf returns the host of a repository or image as a thing; without What if lab does not contact it.
func HostOf(address string) Thing {
	t := Thing{Kind: Host, Gives: "lab checks whether it responds"}
	t.What, _ = lab.HostOf(address)
	return t
}

// Set is what the user agreed to: digests of things.
type Set map[string]bool

// Has reports whether a thing was agreed to.
func (s Set) Has(t Thing) bool { return s[t.Digest()] }

// Lacking returns the things that the user has not agreed to yet.
func (s Set) Lacking(list []Thing) []Thing {
	return slices.DeleteFunc(slices.Clone(list), s.Has)
}
