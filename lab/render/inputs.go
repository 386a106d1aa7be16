package render

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"testing/fstest"
)

// Digest returns a digest of the content of a file or folder, or of its absence.
func Digest(fsys fs.FS, name string) string {
	h := sha256.New()
	_ = fs.WalkDir(fsys, name, func(file string, e fs.DirEntry, err error) error {
		var data []byte
		switch {
		case err != nil: // also of a missing name
		case e.Type() == fs.ModeSymlink:
			var target string
			target, err = fs.ReadLink(fsys, file)
			data = []byte(target)
		case !e.IsDir():
			data, err = fs.ReadFile(fsys, file)
		}
		kind := fs.FileMode(0)
		if e != nil {
			kind = e.Type()
		}
		fmt.Fprintf(h, "%q %v %v %d\n", file, kind, err, len(data))
		_, _ = h.Write(data)
		return nil
	})
	return string(h.Sum(nil))
}

// Inputs returns a digest of everything that Render reads: sources with the same digest have the same objects. Nothing is rendered. of returns the Digest of a file or
// folder in the tree of a name, as for Ref, or in FS if that is empty; "." is all of it. FS may be nil if it is unknown: the digest then has what else is read.
func (s Source) Inputs(of func(ref, name string) string) (string, error) {
	h := sha256.New()
	options, err := json.Marshal([]any{s.Source, s.Application, s.Project, s.Namespace, s.KubeVersion, s.APIVersions, s.Minor, s.Sources})
	if err != nil {
		return "", err
	}
	_, _ = h.Write(options)
	all := func() { // whatever it reads
		fmt.Fprint(h, of("", "."))
		for _, other := range s.Sources {
			if other.Ref != "" && s.Ref != nil && s.Ref(other.Ref) != nil {
				fmt.Fprint(h, of(other.Ref, "."))
			}
		}
	}
	unknown := s.FS == nil
	if unknown {
		s.FS = fstest.MapFS{}
	}
	if s.Path = path.Clean(s.Path); !fs.ValidPath(s.Path) || s.Path != "." && !isFolder(s.FS, s.Path) {
		all()
		return string(h.Sum(nil)), nil
	}
	merged := s
	_ = merged.override() // Render returns its error, and the digest has the file
	bounded := unknown || closed(s.FS, s.Path)
	switch t := TypeOf(s.FS, merged.Source); {
	case t == Helm, unknown:
		bounded = bounded && merged.chartInputs(func(ref, name string) { fmt.Fprint(h, ref, " ", name, of(ref, name)) })
	case t == Kustomize:
		bounded = bounded && merged.kustomizations(func(dir string) { fmt.Fprint(h, dir, of("", dir)) })
	case t == Plain:
		bounded = bounded && (merged.Directory == nil || merged.Directory.Jsonnet.IsZero())
	default:
		bounded = false
	}
	if bounded {
		fmt.Fprint(h, of("", s.Path))
	} else {
		all()
	}
	return string(h.Sum(nil)), nil
}

// chartInputs calls add for the value files, and reports whether they and the chart's folder are all that is read.
func (s Source) chartInputs(add func(ref, name string)) bool {
	o := s.options()
	files, err := s.valueFiles(o)
	if err != nil || len(o.FileParameters) > 0 {
		return false
	}
	for _, f := range files {
		if !fs.ValidPath(f.name) {
			return false
		}
		add(f.ref, f.name)
	}
	return true
}

// kustomizations calls add for the folders of a kustomization and those that it includes, and reports whether they are all that is read of the repository: kustomize
// refuses files elsewhere, but those of charts. What is fetched is named in these folders.
func (s Source) kustomizations(add func(dir string)) bool {
	if o := s.Kustomize; o != nil && len(o.Components) > 0 {
		return false
	}
	bounded := true
	scan := &scanner{repository: newRepository(s.FS, nil), enter: func(dir string) {
		bounded = bounded && closed(s.FS, dir)
		add(dir)
	}, fetch: func(string) {}, taken: func(data []byte) {
		bounded = bounded && !(bytes.Contains(data, []byte("helm")) && bytes.Contains(data, []byte("../")))
	}}
	return scan.folder(s.Path, nil) == nil && bounded
}

// closed reports whether what is read in a folder is in it: no link, file of Jsonnet or dependency leads out of it.
func closed(fsys fs.FS, dir string) bool {
	leaves := errors.New("leaves")
	err := fs.WalkDir(fsys, dir, func(file string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.Type() == fs.ModeSymlink, path.Ext(file) == jsonnetFile:
			return leaves
		case !slices.Contains([]string{"Chart.yaml", "requirements.yaml"}, e.Name()):
			return nil
		}
		if data, err := fs.ReadFile(fsys, file); err != nil || bytes.Contains(data, []byte("file:")) {
			return leaves
		}
		return nil
	})
	return err == nil
}
