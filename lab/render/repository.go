package render

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing/fstest"

	"sigs.k8s.io/kustomize/kyaml/filesys"

	"homelab/lab/strict"
)

// repository is a read-only filesys.FileSystem for kustomize with root "/"; edited files are overlaid.
type repository struct {
	fs.FS
	budget  *Budget
	edited  map[string][]byte
	read    map[string][]byte
	origins bool // the result has them

	inflated map[string][]Document // of charts, by the edited file that stands for one
}

var errReadOnly = errors.New("the repository is read-only")

func within(name string) string {
	if name = strings.TrimPrefix(path.Clean("/"+filepath.ToSlash(name)), "/"); name == "" {
		return "."
	}
	return name
}

// Create returns an error, like the other methods that write.
func (r *repository) Create(string) (filesys.File, error) { return nil, errReadOnly }
func (r *repository) Mkdir(string) error                  { return errReadOnly }
func (r *repository) MkdirAll(string) error               { return errReadOnly }
func (r *repository) RemoveAll(string) error              { return errReadOnly }
func (r *repository) WriteFile(string, []byte) error      { return errReadOnly }

// Open is not used by kustomize.
func (r *repository) Open(string) (filesys.File, error) { return nil, errReadOnly }

// IsDir implements filesys.FileSystem.
func (r *repository) IsDir(name string) bool {
	info, err := fs.Stat(r.FS, within(name))
	return err == nil && info.IsDir()
}

// Exists implements filesys.FileSystem.
func (r *repository) Exists(name string) bool {
	name = within(name)
	_, err := fs.Stat(r.FS, name)
	return err == nil || r.inflated[name] != nil
}

// ReadDir implements filesys.FileSystem.
func (r *repository) ReadDir(name string) ([]string, error) {
	entries, err := fs.ReadDir(r.FS, within(name))
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

// CleanedAbs implements filesys.FileSystem.
func (r *repository) CleanedAbs(name string) (filesys.ConfirmedDir, string, error) {
	name = within(name)
	info, err := fs.Stat(r.FS, name)
	switch {
	case r.inflated[name] != nil:
		return filesys.ConfirmedDir(path.Join("/", path.Dir(name))), path.Base(name), nil
	case err != nil:
		return "", "", err
	case info.IsDir():
		return filesys.ConfirmedDir(path.Join("/", name)), "", nil
	}
	return filesys.ConfirmedDir(path.Join("/", path.Dir(name))), path.Base(name), nil
}

// Glob implements filesys.FileSystem.
func (r *repository) Glob(pattern string) ([]string, error) {
	names, err := fs.Glob(r.FS, within(pattern))
	for i := range names {
		names[i] = path.Join("/", names[i])
	}
	return names, err
}

// folder is a repository as seen from one of its folders, in which kustomizations may be overlaid.
type folder struct {
	*repository
	dir string
}

func (f folder) Exists(name string) bool { return f.repository.Exists(path.Join(f.dir, name)) }
func (f folder) IsDir(name string) bool  { return f.repository.IsDir(path.Join(f.dir, name)) }
func (f folder) ReadFile(name string) ([]byte, error) {
	return f.repository.ReadFile(path.Join(f.dir, name))
}

func (f folder) WriteFile(name string, b []byte) error {
	f.edited[path.Join(f.dir, name)] = b
	return nil
}

// Glob returns names relative to the folder.
func (f folder) Glob(pattern string) ([]string, error) {
	names, err := fs.Glob(f.FS, path.Join(f.dir, pattern))
	for i := range names {
		if names[i], err = filepath.Rel(f.dir, names[i]); err != nil {
			return nil, err
		}
		names[i] = filepath.ToSlash(names[i])
	}
	return names, err
}

// ReadFile implements filesys.FileSystem.
func (r *repository) ReadFile(name string) ([]byte, error) {
	name = within(name)
	if data, ok := r.edited[name]; ok {
		return data, nil
	}
	if data, ok := r.read[name]; ok {
		return data, nil
	}
	data, err := r.budget.read(r.FS, name)
	if err == nil {
		r.read[name] = data
	}
	return data, err
}

// manifests returns the documents of a file that was read, or of a chart.
func (r *repository) manifests(name string) []Document {
	if of := r.inflated[name]; of != nil {
		return of
	}
	nodes, _ := strict.Parse(name, r.read[name])
	var docs []Document
	for _, n := range nodes {
		docs = append(docs, Document{Node: n, File: name})
	}
	return docs
}

// malformed returns an error for the first file that was not valid YAML.
func (r *repository) malformed() error {
	for _, name := range slices.Sorted(maps.Keys(r.read)) {
		if ext := path.Ext(name); ext != ".yaml" && ext != ".yml" {
			continue
		}
		_, problems := strict.Parse(name, r.read[name])
		for _, p := range problems {
			if strings.HasPrefix(p.Message, "not YAML") {
				return &Error{Problem: p}
			}
		}
	}
	return nil
}

// Walk implements filesys.FileSystem.
func (r *repository) Walk(name string, visit filepath.WalkFunc) error {
	return fs.WalkDir(r.FS, within(name), func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return visit(path.Join("/", name), nil, err)
		}
		info, err := e.Info()
		return visit(path.Join("/", name), info, err)
	})
}

// HasFolder reports whether Git has a folder: one with a file, outside of submodules, whose content a mirror lacks.
func HasFolder(fsys fs.FS, dir string) bool {
	for at := dir; at != "."; at = path.Dir(at) {
		if _, err := fs.Lstat(fsys, path.Join(at, ".git")); err == nil {
			return false
		}
	}
	found := false
	err := fs.WalkDir(fsys, dir, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && name != dir:
			if _, err := fs.Lstat(fsys, path.Join(name, ".git")); err == nil {
				return fs.SkipDir
			}
		case !e.IsDir():
			found = true
			return fs.SkipAll
		}
		return nil
	})
	return found || err != nil
}

// Overlay is a file system with other contents of some files, which may be missing in it; those without any are hidden.
type Overlay struct {
	fs.FS
	Files map[string][]byte
}

// Open implements fs.FS.
func (o Overlay) Open(name string) (fs.File, error) {
	data, changed := o.Files[name]
	switch {
	case !changed:
		return o.FS.Open(name)
	case data == nil:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return fstest.MapFS{name: {Data: data, Mode: 0o444}}.Open(name)
}

// ReadDir implements fs.ReadDirFS.
func (o Overlay) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(o.FS, name)
	entries = slices.DeleteFunc(slices.Clone(entries), func(e fs.DirEntry) bool { _, changed := o.Files[path.Join(name, e.Name())]; return changed })
	for file, data := range o.Files {
		if path.Dir(file) == name && data != nil {
			made, _ := fs.ReadDir(fstest.MapFS{path.Base(file): {Data: data, Mode: 0o444}}, ".")
			entries = append(entries, made...)
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}
