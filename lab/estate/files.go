package estate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"homelab/lab"
	"homelab/lab/strict"
)

// files reads an estate's files, and notes what cannot be read once for each file.
type files struct {
	fsys     fs.FS
	problems lab.Problems
	beyond   func(file string) (fs.FS, string) // the repository that has a file, and the file in it; nil for the estate's own
}

// within is a file of a repository as messages name it, from the estate on; nil is the estate.
func within(r *lab.Repository, file string) string {
	if r == nil {
		return file
	}
	return path.Join(r.Dir, file)
}

// at is where a file is to be read.
func (f *files) at(file string) (fs.FS, string) {
	if f.beyond != nil {
		if fsys, name := f.beyond(file); fsys != nil {
			return fsys, name
		}
	}
	return f.fsys, file
}

func (f *files) fail(file, message, cure string) {
	f.problems = append(f.problems, lab.Problem{Position: lab.Position{File: file, Line: 1}, Message: message, Cure: cure})
}

// read returns a file's bytes; nil when it cannot be read, which is then noted. A file beyond the bound is cut just after it, for parse to refuse.
func (f *files) read(file string) []byte {
	if !f.inside(file) {
		return nil // the walk notes the link
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
		f.fail(file, "is not there", "")
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

// folders lists the folders within dir, links to folders included and hidden ones not. there is false when dir does not exist.
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

// manifests are the YAML files directly in dir.
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

// walk visits every file below the folders of the estate, and notes links that lead out of it and folders that cannot be read.
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
		f.fail(file, "link leads nowhere", "")
	}
}

func (f *files) inside(file string) bool {
	fsys, name := f.at(file)
	_, err := follow(fsys, name, 0)
	return err == nil
}

// follow is where name leads when every link in it is followed, or an error when that is out of the repository.
func follow(fsys fs.FS, name string, hops int) (string, error) {
	if hops > 40 { // as Linux has it
		return "", errors.New("goes round in circles")
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
