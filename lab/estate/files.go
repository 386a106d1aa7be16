package estate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"homelab/lab"
	"homelab/lab/finding"
	"homelab/lab/strict"
)

// files reads an estate's files and reports unreadable ones once.
type files struct {
	fsys     fs.FS
	problems lab.Problems
	resolve  func(file string) (fs.FS, string) // resolves files of mounted repositories; nil for the estate's own
}

// within returns the path of a repository's file in messages, relative to the estate; nil is the estate.
func within(r *lab.Repository, file string) string {
	if r == nil {
		return file
	}
	return path.Join(r.Dir, file)
}

// at resolves the file system of a file.
func (f *files) at(file string) (fs.FS, string) {
	if f.resolve != nil {
		if fsys, name := f.resolve(file); fsys != nil {
			return fsys, name
		}
	}
	return f.fsys, file
}

func (f *files) fail(file, message, cure string) {
	f.problems = append(f.problems, lab.Problem{Code: finding.UnreadableFile, Position: lab.Position{File: file, Line: 1}, Message: message, Cure: cure})
}

// read returns a file's content, or nil with a problem. A file over the limit is cut just beyond it, for parse to
// reject.
func (f *files) read(file string) []byte {
	if !f.inside(file) {
		return nil // reported by walk
	}
	fsys, name := f.at(file)
	src, err := fsys.Open(name)
	if err == nil {
		defer src.Close()
		var data []byte
		if data, err = io.ReadAll(io.LimitReader(src, strict.MaxFile+1)); err == nil {
			return append([]byte{}, data...)
		}
	}
	f.unreadable(file, err)
	return nil
}

func (f *files) unreadable(file string, err error) {
	switch {
	case errors.Is(err, fs.ErrPermission):
		f.fail(file, "cannot be read: permission denied", "chmod u+r "+file)
	case errors.Is(err, fs.ErrNotExist):
		f.fail(file, "does not exist", "")
	default:
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		f.fail(file, "cannot be read: "+err.Error(), "")
	}
}

func (f *files) exists(file string) bool {
	_, err := fs.Stat(f.at(file))
	return err == nil || !errors.Is(err, fs.ErrNotExist)
}

// folders lists the folders in dir, without hidden ones, including symlinks to folders. there is false if dir does not
// exist.
func (f *files) folders(dir string) (names []string, there bool) {
	entries, err := fs.ReadDir(f.fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false
	}
	if err != nil {
		f.unreadable(dir, err)
		return nil, true
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		is := e.IsDir()
		if e.Type()&fs.ModeSymlink != 0 {
			info, err := fs.Stat(f.fsys, path.Join(dir, e.Name()))
			is = err == nil && info.IsDir()
		}
		if is {
			names = append(names, e.Name())
		}
	}
	return names, true
}

// manifests returns the YAML files directly in dir.
func (f *files) manifests(dir string) []string {
	entries, _ := fs.ReadDir(f.fsys, dir)
	var names []string
	for _, e := range entries {
		if ext := path.Ext(e.Name()); (ext == ".yaml" || ext == ".yml") && !e.IsDir() {
			names = append(names, path.Join(dir, e.Name()))
		}
	}
	return names
}

// walk visits every file in the estate's folders, and reports symlinks that leave it and unreadable folders.
func (f *files) walk(visit func(file string)) {
	for _, dir := range []string{lab.ClustersDir, lab.EnvironmentsDir, lab.AddonsDir} {
		if !f.exists(dir) {
			continue
		}
		_ = fs.WalkDir(f.fsys, dir, func(file string, e fs.DirEntry, err error) error {
			switch {
			case err != nil:
				if file != dir || e == nil || e.Type()&fs.ModeSymlink == 0 {
					f.unreadable(file, err)
				}
				return nil
			case e.Type()&fs.ModeSymlink != 0:
				f.link(file)
			case e.Type().IsRegular():
				visit(file)
			}
			return nil
		})
	}
}

func (f *files) link(file string) {
	to, err := follow(f.fsys, file, 0)
	switch {
	case err != nil:
		f.fail(file, "link "+err.Error(), "a link stays within the repository")
	case !f.exists(to):
		f.fail(file, "dangling link", "")
	}
}

func (f *files) inside(file string) bool {
	fsys, name := f.at(file)
	_, err := follow(fsys, name, 0)
	return err == nil
}

// follow resolves all symlinks of a name. Leaving the repository is an error.
func follow(fsys fs.FS, name string, hops int) (string, error) {
	if hops > 40 { // Linux's limit
		return "", errors.New("has too many levels of symbolic links")
	}
	done := ""
	parts := strings.Split(name, "/")
	for i, part := range parts {
		at := path.Join(done, part)
		info, err := fs.Lstat(fsys, at)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			done = at
			continue
		}
		target, err := fs.ReadLink(fsys, at)
		if err != nil {
			return "", fmt.Errorf("cannot be read: %w", err)
		}
		to := path.Join(done, target)
		if path.IsAbs(target) || to == ".." || strings.HasPrefix(to, "../") {
			return "", fmt.Errorf("leaves the repository, to %s", target)
		}
		return follow(fsys, path.Join(append([]string{to}, parts[i+1:]...)...), hops+1)
	}
	return done, nil
}
