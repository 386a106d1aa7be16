package fluxroot

import (
	"io/fs"
	"path"
	"slices"
	"testing/fstest"

	"go.yaml.in/yaml/v3"

	"homelab/lab"
	"homelab/lab/flux"
	"homelab/lab/render"
	"homelab/lab/strict"
)

// built returns the spec of a Kustomization after the patches of the kustomization in its synced or own folder.
func (d synced) built() *yaml.Node {
	for _, dir := range []string{d.syncs(), path.Dir(d.file)} {
		docs, _, err := render.Kustomization{FS: d.repo.FS, Path: dir}.Build()
		if err != nil {
			continue
		}
		if spec := specOf(docs, strict.Text(d.node, "metadata", "name")); spec != nil {
			return spec
		}
	}
	return strict.Get(d.node, "spec")
}

// instance returns the spec of a FluxInstance's Kustomization after the instance's patches, or nil without patches.
func (d synced) instance(name string) *yaml.Node {
	theirs := strict.Get(strict.Get(d.node, "kustomize"), "patches")
	if theirs == nil {
		return nil
	}
	var patches []any
	for _, p := range theirs.Content {
		var patch map[string]any
		if kind := strict.Text(p, "target", "kind"); p.Decode(&patch) == nil && (kind == "Kustomization" || kind == "") {
			patches = append(patches, patch)
		}
	}
	spec := reconcile(name, path.Clean(strict.Text(strict.Get(d.node, "sync"), "path")))
	const file = "sync.yaml"
	fsys := fstest.MapFS{file: {Data: []byte(object(kustomizeVersion, "Kustomization", name, spec))}}
	docs, _, err := render.Kustomization{FS: fsys, Spec: map[string]any{"patches": patches}}.Build()
	if err != nil {
		return nil
	}
	return specOf(docs, name)
}

// generated finds the roots that the kustomizations of their folders assemble from elsewhere: a Kustomization that is built in the folder that it syncs. One of the same name
// whose folder cannot be built is also one.
func (s *Candidates) generated() []Root {
	var list, failed []Root
	type folder struct {
		repo *lab.Repository
		dir  string
	}
	tried, broken := map[folder]bool{}, map[folder]bool{}
	for _, k := range s.kustomizations {
		of := folder{k.repo, k.syncs()}
		if broken[of] {
			failed = append(failed, k.failed())
		}
		if tried[of] || of.dir == "." || !slices.ContainsFunc(render.Kustomizations, func(name string) bool {
			_, err := fs.Stat(k.repo.FS, path.Join(of.dir, name))
			return err == nil
		}) {
			continue
		}
		tried[of] = true
		docs, _, err := render.Kustomization{FS: k.repo.FS, Path: of.dir}.Build()
		if broken[of] = err != nil; err != nil {
			failed = append(failed, k.failed())
			continue
		}
		built := &Candidates{}
		for _, doc := range docs {
			built.Add(k.repo, doc.File, doc.Node)
		}
		for _, own := range built.kustomizations {
			if own.syncs() != of.dir {
				continue
			}
			r := Root{Repo: k.repo, Dir: of.dir, At: k.at, Name: strict.Text(own.node, "metadata", "name"), Spec: strict.Get(own.node, "spec")}
			for _, g := range built.repositories {
				if strict.Text(g.node, "metadata", "name") == strict.Text(r.Spec, "sourceRef", "name") {
					r.reads(g.node)
				}
			}
			list = append(list, r)
			break
		}
	}
	return append(list, slices.DeleteFunc(failed, func(f Root) bool {
		return !slices.ContainsFunc(list, func(r Root) bool { return r.Repo == f.Repo && r.Name == f.Name })
	})...)
}

// failed returns the root of a Kustomization whose folder cannot be built.
func (d synced) failed() Root {
	return Root{Repo: d.repo, Dir: d.syncs(), At: d.at, Name: strict.Text(d.node, "metadata", "name")}
}

// unsynced returns the folders in clusters/ of repositories with HelmReleases that something else syncs, such as an extension of a cloud.
func (s *Candidates) unsynced() []Root {
	var list []Root
	tried := map[*lab.Repository]bool{}
	for _, hr := range s.releases {
		if tried[hr.repo] {
			continue
		}
		tried[hr.repo] = true
		_ = fs.WalkDir(hr.repo.FS, ".", func(name string, e fs.DirEntry, err error) error {
			dir, is := clusterOf(name)
			switch {
			case err != nil:
				return nil //nolint:nilerr // unreadable folders are not clusters
			case e.IsDir() && e.Name() == ".git":
				return fs.SkipDir
			case e.IsDir() || !is || !slices.Contains(render.Kustomizations, e.Name()) || s.mayPack(hr.repo, name):
				return nil
			}
			r := Root{Repo: hr.repo, Dir: dir, At: lab.Position{File: path.Join(hr.repo.Dir, name), Line: 1}, Name: flux.Namespace}
			if !slices.ContainsFunc(list, func(o Root) bool { return o.Repo == r.Repo && o.Dir == r.Dir }) {
				list = append(list, r)
			}
			return nil
		})
	}
	return list
}

func specOf(docs []render.Document, name string) *yaml.Node {
	for _, doc := range docs {
		s := &Candidates{}
		s.Add(&lab.Repository{}, "", doc.Node)
		if len(s.kustomizations) > 0 && strict.Text(doc.Node, "metadata", "name") == name {
			return strict.Get(doc.Node, "spec")
		}
	}
	return nil
}
