package source

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
)

// index finds files in a layer's tar file.
type index struct {
	file    string
	entries map[string]indexed
	libs    []string // the loader's search path
}

type indexed struct {
	header tar.Header
	offset int64
}

func openIndex(file string) (*index, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	x := &index{file: file, entries: map[string]indexed{}}
	tr := tar.NewReader(f)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		at, err := f.Seek(0, io.SeekCurrent) // the reader does not read ahead
		if err != nil {
			return nil, err
		}
		name := strings.Trim(h.Name, "/")
		x.entries[name] = indexed{header: *h, offset: at}
		if ok, _ := path.Match("usr/lib/*-linux-gnu*", name); ok && h.Typeflag == tar.TypeDir {
			x.libs = append(x.libs, name)
		}
	}
	x.libs = append(x.libs, "usr/lib", "usr/lib64")
	return x, nil
}

// maxLinks is Linux's limit of symlinks in a path.
const maxLinks = 40

// resolve follows all symlinks of a path, which need not exist.
func (x *index) resolve(name string) string {
	rest := strings.Split(strings.Trim(path.Clean("/"+name), "/"), "/")
	at := ""
	for links := 0; len(rest) > 0; rest = slices.Clip(rest) {
		next := path.Join(at, rest[0])
		rest = rest[1:]
		e, ok := x.entries[next]
		if !ok || e.header.Typeflag != tar.TypeSymlink || links == maxLinks {
			at = next
			continue
		}
		links++
		target := e.header.Linkname
		if path.IsAbs(target) {
			at = ""
		}
		joined := strings.Trim(path.Clean("/"+path.Join(at, target)), "/")
		rest = append(strings.Split(joined, "/"), rest...)
		at = ""
	}
	return at
}

// regular returns the regular file at a path.
func (x *index) regular(name string) (indexed, bool) {
	e, ok := x.entries[x.resolve(name)]
	if ok && e.header.Typeflag == tar.TypeLink {
		e, ok = x.entries[strings.Trim(e.header.Linkname, "/")]
	}
	return e, ok && e.header.Typeflag == tar.TypeReg
}

func (x *index) open(e indexed) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		f, err := os.Open(x.file)
		if err != nil {
			return nil, err
		}
		return struct {
			io.Reader
			io.Closer
		}{io.NewSectionReader(f, e.offset, e.header.Size), f}, nil
	}
}

func (x *index) read(name string) ([]byte, bool, error) {
	e, ok := x.regular(name)
	if !ok {
		return nil, false, nil
	}
	r, err := x.open(e)()
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = r.Close() }()
	data, err := io.ReadAll(r)
	return data, err == nil, err
}

// take adds the files that match a glob to a layer, with their shared libraries.
func (x *index) take(l layer, glob string) error {
	glob = strings.Trim(path.Clean("/"+glob), "/")
	var found []string
	for name := range x.entries {
		if ok, err := path.Match(glob, name); err != nil {
			return fmt.Errorf("%s: %w", glob, err)
		} else if ok {
			found = append(found, name)
		}
	}
	if len(found) == 0 {
		return fmt.Errorf("/%s: no such file in the root file system", glob)
	}
	for _, name := range found {
		if err := x.takeFile(l, name); err != nil {
			return err
		}
	}
	return nil
}

func (x *index) takeFile(l layer, name string) error {
	if _, ok := l[name]; ok {
		return nil
	}
	e, ok := x.regular(name)
	if !ok {
		return fmt.Errorf("/%s: not a file in the root file system", name)
	}
	h := tar.Header{Typeflag: tar.TypeReg, Mode: e.header.Mode, Uid: e.header.Uid, Gid: e.header.Gid, Size: e.header.Size}
	l.put(name, h, x.open(e))
	loader, libs, err := x.libraries(e)
	if err != nil {
		return fmt.Errorf("/%s: %w", name, err)
	}
	for _, lib := range libs {
		dir := slices.IndexFunc(x.libs, func(dir string) bool { _, ok := x.regular(path.Join(dir, lib)); return ok })
		if dir < 0 {
			return fmt.Errorf("/%s: needs %s, which is missing", name, lib)
		}
		if err := x.takeFile(l, path.Join(x.libs[dir], lib)); err != nil {
			return err
		}
	}
	if loader == "" {
		return nil
	}
	// The loader's path is compiled in; /lib and /lib64 are symlinks in Debian, and here.
	top, rest, _ := strings.Cut(strings.Trim(loader, "/"), "/")
	if top == "lib" || top == "lib64" {
		l.link(top, "usr/"+top)
		l.link("lib", "usr/lib")
		return x.takeFile(l, path.Join("usr", top, rest))
	}
	return x.takeFile(l, strings.Trim(loader, "/"))
}

// libraries returns the loader and shared libraries of an ELF file, or nothing.
func (x *index) libraries(e indexed) (loader string, libs []string, err error) {
	f, err := os.Open(x.file)
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = f.Close() }()
	section := io.NewSectionReader(f, e.offset, e.header.Size)
	magic := make([]byte, len(elf.ELFMAG))
	if _, err := section.ReadAt(magic, 0); err != nil || !bytes.Equal(magic, []byte(elf.ELFMAG)) {
		return "", nil, nil
	}
	bin, err := elf.NewFile(section)
	if err != nil {
		return "", nil, err
	}
	if libs, err = bin.ImportedLibraries(); err != nil {
		return "", nil, err
	}
	for _, p := range bin.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		data, err := io.ReadAll(p.Open())
		if err != nil {
			return "", nil, err
		}
		loader = string(bytes.TrimRight(data, "\x00"))
	}
	return loader, libs, nil
}
