package archive

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"homelab/lab"
)

// dockerArchive is an open docker-archive.
type dockerArchive struct {
	file   *os.File
	config []byte
	layers []layer
}

// layer locates a layer in a docker-archive.
type layer struct {
	Blob         // uncompressed
	offset, size int64
	isCompressed bool
}

// openImage reads the metadata of a docker-archive. Sizes of uncompressed layers are found without reading them.
func openImage(image lab.Image) (*dockerArchive, error) {
	f, err := os.Open(image.Archive)
	if err != nil {
		return nil, err
	}
	a := &dockerArchive{file: f}
	if err := a.read(image); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", image.Archive, err)
	}
	return a, nil
}

func (a *dockerArchive) Close() error { return a.file.Close() }

type span struct{ offset, size int64 }

func (a *dockerArchive) read(image lab.Image) error {
	entries, links := map[string]span{}, map[string]string{}
	tr := tar.NewReader(a.file)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		name := path.Clean(h.Name)
		switch h.Typeflag {
		case tar.TypeReg:
			// The tar reader does not buffer, so the file's offset is the entry's first byte.
			at, err := a.file.Seek(0, io.SeekCurrent)
			if err != nil {
				return err
			}
			entries[name] = span{at, h.Size}
		case tar.TypeSymlink, tar.TypeLink: // docker save links to other images' layers
			target := h.Linkname
			if h.Typeflag == tar.TypeSymlink {
				target = path.Join(path.Dir(name), target)
			}
			links[name] = path.Clean(target)
		}
	}
	for from, to := range links {
		if s, ok := entries[to]; ok {
			entries[from] = s
		}
	}
	small := func(name string) ([]byte, error) {
		s, ok := entries[path.Clean(name)]
		if !ok || s.size > maxIndex {
			return nil, fmt.Errorf("has no %s of a valid size", name)
		}
		data := make([]byte, s.size)
		_, err := a.file.ReadAt(data, s.offset)
		return data, err
	}
	data, err := small("manifest.json")
	if err != nil {
		return err
	}
	var manifests []struct {
		Config string
		Layers []string
	}
	if err := json.Unmarshal(data, &manifests); err != nil {
		return fmt.Errorf("manifest.json: %w", err)
	}
	for _, m := range manifests {
		config, err := small(m.Config)
		if err != nil {
			return err
		}
		if digestOf(config) != image.Digest {
			continue
		}
		a.config = config
		return a.findLayers(m.Layers, entries)
	}
	return fmt.Errorf("does not hold image %s", image.Digest)
}

func (a *dockerArchive) findLayers(names []string, entries map[string]span) error {
	diffs, err := diffIDs(a.config)
	if err != nil {
		return err
	}
	if len(diffs) != len(names) {
		return fmt.Errorf("has %d layers where the configuration names %d", len(names), len(diffs))
	}
	for i, name := range names {
		s, ok := entries[path.Clean(name)]
		if !ok {
			return fmt.Errorf("has no layer %s", name)
		}
		l := layer{Blob: Blob{Digest: diffs[i], Size: s.size}, offset: s.offset, size: s.size}
		magic := make([]byte, 2)
		if _, err := a.file.ReadAt(magic, s.offset); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
			l.isCompressed = true
			r, err := a.open(l)
			if err != nil {
				return err
			}
			if l.Size, err = io.Copy(io.Discard, r); err != nil {
				return fmt.Errorf("layer %s: %w", name, err)
			}
		}
		a.layers = append(a.layers, l)
	}
	return nil
}

// diffIDs returns the digests of an image's layers from its configuration.
func diffIDs(config []byte) ([]string, error) {
	var c struct {
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return c.RootFS.DiffIDs, nil
}

// inputs returns the key of the recipe in an image's labels.
func inputs(config []byte) string {
	var c struct {
		Config struct{ Labels map[string]string }
	}
	_ = json.Unmarshal(config, &c) // read before
	return c.Config.Labels[lab.LabelInputs]
}

// open returns a layer, uncompressed.
func (a *dockerArchive) open(l layer) (io.Reader, error) {
	r := io.NewSectionReader(a.file, l.offset, l.size)
	if !l.isCompressed {
		return r, nil
	}
	return gzip.NewReader(bufio.NewReaderSize(r, 1<<20))
}

// copyBlob copies a blob and verifies its size and digest.
func copyBlob(w io.Writer, r io.Reader, b Blob, buf []byte) error {
	h := sha256.New()
	n, err := io.CopyBuffer(io.MultiWriter(w, h), struct{ io.Reader }{io.LimitReader(r, b.Size+1)}, buf)
	if err != nil {
		return err
	}
	if got := "sha256:" + hex.EncodeToString(h.Sum(nil)); n != b.Size || got != b.Digest {
		return fmt.Errorf("%s has digest %s and %d bytes where %d were expected", b.Digest, got, n, b.Size)
	}
	return nil
}
