package source

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// fixedTime is the mtime of all files in layers, for reproducible digests.
var fixedTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// entry is a file, folder or link of a layer.
type entry struct {
	header tar.Header // Name has no leading slash; folders end in one
	open   func() (io.ReadCloser, error)
}

// layer maps paths to entries; later ones replace earlier ones.
type layer map[string]entry

func (l layer) put(name string, h tar.Header, open func() (io.ReadCloser, error)) {
	name = strings.Trim(path.Clean("/"+name), "/")
	if name == "" {
		return
	}
	h.Name = name
	if h.Typeflag == tar.TypeDir {
		h.Name += "/"
	}
	l[name] = entry{header: h, open: open}
}

func (l layer) dir(name string, mode int64, uid, gid int) {
	l.put(name, tar.Header{Typeflag: tar.TypeDir, Mode: mode, Uid: uid, Gid: gid}, nil)
}

func (l layer) link(name, target string) {
	l.put(name, tar.Header{Typeflag: tar.TypeSymlink, Linkname: target, Mode: 0o777}, nil)
}

func (l layer) bytes(name string, data []byte, mode int64, uid, gid int) {
	h := tar.Header{Typeflag: tar.TypeReg, Mode: mode, Uid: uid, Gid: gid, Size: int64(len(data))}
	l.put(name, h, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil })
}

func (l layer) file(name, file string, mode int64, uid, gid int) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	h := tar.Header{Typeflag: tar.TypeReg, Mode: mode, Uid: uid, Gid: gid, Size: info.Size()}
	l.put(name, h, func() (io.ReadCloser, error) { return os.Open(file) })
	return nil
}

// parents adds missing parent folders, except those of the base.
func (l layer) parents(has func(dir string) bool) {
	for name := range l {
		for dir := path.Dir(name); dir != "." && dir != "/"; dir = path.Dir(dir) {
			if _, ok := l[dir]; ok || has(dir) {
				continue
			}
			l.dir(dir, 0o755, 0, 0)
		}
	}
}

// write writes the layer as a tar stream, sorted by name.
func (l layer) write(w io.Writer) error {
	names := make([]string, 0, len(l))
	for name := range l {
		names = append(names, name)
	}
	// Folder by folder, as in a tree walk: a hard link then follows its target.
	slices.SortFunc(names, func(a, b string) int {
		return strings.Compare(strings.ReplaceAll(a, "/", "\x00"), strings.ReplaceAll(b, "/", "\x00"))
	})
	tw := tar.NewWriter(w)
	for _, name := range names {
		e := l[name]
		h := e.header
		h.ModTime = fixedTime
		if err := tw.WriteHeader(&h); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if e.open == nil {
			continue
		}
		if err := copyFrom(tw, e.open); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return tw.Close()
}

func copyFrom(w io.Writer, open func() (io.ReadCloser, error)) error {
	r, err := open()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	_, err = io.Copy(w, r)
	return err
}

// writeFile writes the layer to a file.
func (l layer) writeFile(file string) (*fileLayer, error) {
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	err = l.write(io.MultiWriter(f, h))
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, err
	}
	return openLayer(file, sum(h))
}

func sum(h hash.Hash) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}
}

// fileLayer is a layer in a file, stored as is. go-containerregistry's own file layers compress on the fly, on every
// write and again in every node.
type fileLayer struct {
	file   string
	digest v1.Hash
	diffID v1.Hash
	size   int64
	media  types.MediaType
}

// openLayer returns the uncompressed layer in a file with a known digest.
func openLayer(file string, digest v1.Hash) (*fileLayer, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	return &fileLayer{file: file, digest: digest, diffID: digest, size: info.Size(), media: types.DockerUncompressedLayer}, nil
}

// Digest implements v1.Layer.
func (l *fileLayer) Digest() (v1.Hash, error) { return l.digest, nil }

// DiffID implements v1.Layer.
func (l *fileLayer) DiffID() (v1.Hash, error) { return l.diffID, nil }

// Compressed implements v1.Layer. It returns the file as is.
func (l *fileLayer) Compressed() (io.ReadCloser, error) { return os.Open(l.file) }

// Uncompressed implements v1.Layer.
func (l *fileLayer) Uncompressed() (io.ReadCloser, error) {
	if l.digest != l.diffID {
		return nil, fmt.Errorf("%s: only the compressed layer is available", l.file)
	}
	return os.Open(l.file)
}

// Size implements v1.Layer.
func (l *fileLayer) Size() (int64, error) { return l.size, nil }

// MediaType implements v1.Layer.
func (l *fileLayer) MediaType() (types.MediaType, error) { return l.media, nil }
