package fluxroot

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"homelab/lab"
	"homelab/lab/flux"
	"homelab/lab/strict"
)

// packed is an artifact of which folders are synced that the repository does not have: it is made of another folder of it, or of something else.
type packed struct {
	repo   *lab.Repository
	source string // KIND NAME
	url    string // of a FluxInstance
	parts  []synced
	dir    string // that has most of the folders, and an object of Flux in one
	has    int    // how many
}

// artifacts returns the artifacts that may be made of a folder of a repository.
func (s *Candidates) artifacts() []packed {
	if s.packed != nil {
		return s.packed
	}
	s.packed = []packed{}
	add := func(o synced, source, url string) {
		if _, err := fs.Stat(o.repo.FS, o.dir()); err == nil || !strings.HasPrefix(source, "OCIRepository ") && !strings.HasPrefix(source, "Bucket ") {
			return
		}
		i := slices.IndexFunc(s.packed, func(p packed) bool { return p.repo == o.repo && p.source == source })
		if i < 0 {
			i, s.packed = len(s.packed), append(s.packed, packed{repo: o.repo, source: source, url: url})
		}
		s.packed[i].parts = append(s.packed[i].parts, o)
	}
	for _, i := range s.instances {
		sync := strict.Get(i.node, "sync")
		add(i, strict.Text(sync, "kind")+" "+cmp.Or(strict.Text(sync, "name"), flux.Namespace), strict.Text(sync, "url"))
	}
	for _, k := range s.kustomizations {
		add(k, strict.Text(k.node, "spec", "sourceRef", "kind")+" "+strict.Text(k.node, "spec", "sourceRef", "name"), "")
	}
	for i := range s.packed {
		for _, c := range slices.Concat(s.kustomizations, s.instances, s.releases) {
			s.packed[i].tryAbove(c)
		}
	}
	s.packed = slices.DeleteFunc(s.packed, func(p packed) bool { return p.dir == "" })
	return s.packed
}

// dir returns the folder that a Kustomization or a FluxInstance syncs.
func (d synced) dir() string {
	if sync := strict.Get(d.node, "sync"); sync != nil {
		return path.Clean(strings.TrimPrefix(path.Join("/", strict.Text(sync, "path")), "/"))
	}
	return d.syncs()
}

// tryAbove takes the folder above an object's folder in the artifact, if it has more of the folders.
func (p *packed) tryAbove(o synced) {
	for _, part := range p.parts {
		above, _, in := strings.Cut("/"+o.file, "/"+part.dir()+"/")
		above = strings.TrimPrefix(above, "/")
		if !in || above == "" || o.repo != p.repo {
			continue
		}
		has := 0
		for _, part := range p.parts {
			if _, err := fs.Stat(p.repo.FS, path.Join(above, part.dir())); err == nil {
				has++
			}
		}
		if has > p.has || has == p.has && len(above) < len(p.dir) {
			p.dir, p.has = above, has
		}
	}
}

// mayPack reports whether an artifact may contain a file: then its paths are not those of the repository, and it makes no root.
func (s *Candidates) mayPack(r *lab.Repository, file string) bool {
	return slices.ContainsFunc(s.artifacts(), func(p packed) bool { return p.repo == r && strings.HasPrefix(file, p.dir+"/") })
}

// Packed returns what syncs artifacts that may be made of a folder of a repository: the first of each.
func (s *Candidates) Packed() []Left {
	var list []Left
	for _, p := range s.artifacts() {
		i := slices.IndexFunc(p.parts, func(o synced) bool {
			_, err := fs.Stat(p.repo.FS, path.Join(p.dir, o.dir()))
			return err == nil
		})
		dir := p.parts[i].dir()
		list = append(list, Left{At: p.parts[i].at, Why: fmt.Sprintf("it syncs %s of %s, and the repository has %s: if that is an artifact of %s, draft from %s: lab init --from",
			dir, cmp.Or(p.url, p.source), path.Join(p.dir, dir), p.dir, path.Join(p.repo.Dir, p.dir))})
	}
	return list
}
