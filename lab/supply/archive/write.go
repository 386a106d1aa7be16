package archive

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"homelab/lab"
)

// writer turns archive entries into docker-archives and charts as they arrive. A layer of one image is written straight
// into its file; a shared one is buffered in a file.
type writer struct {
	dir    string
	wanted Contents
	images []*imageFile
	users  map[string][]*imageFile // layer -> its images
	blobs  map[string]Blob         // expected blobs, by name in the archive
	charts map[string]Chart        // expected charts
	shared map[string]string       // layer -> its buffer file
	small  map[string]bool         // OCI layout files, which are ignored
	buf    []byte
}

// imageFile is a docker-archive being written.
type imageFile struct {
	Image
	file   *os.File
	tw     *tar.Writer
	config []byte
}

func newWriter(wanted Contents, dir string) (*writer, error) {
	w := &writer{
		dir: dir, wanted: wanted, users: map[string][]*imageFile{}, blobs: map[string]Blob{}, charts: map[string]Chart{}, shared: map[string]string{},
		small: map[string]bool{layoutFile: true, ociIndex: true}, buf: make([]byte, 256<<10),
	}
	for _, img := range wanted.Images {
		f, err := os.Create(filepath.Join(dir, img.Name+"-"+short(img.Digest)+".tar"))
		if err != nil {
			w.close()
			return nil, err
		}
		i := &imageFile{Image: img, file: f, tw: tar.NewWriter(f)}
		w.images = append(w.images, i)
		for _, b := range append([]Blob{{img.Digest, img.Config}, img.Manifest}, img.Layers...) {
			w.blobs[blobName(b.Digest)] = b
		}
		for _, l := range img.Layers {
			if !slices.Contains(w.users[l.Digest], i) {
				w.users[l.Digest] = append(w.users[l.Digest], i)
			}
		}
	}
	for _, c := range wanted.Charts {
		w.charts[c.file()] = c
	}
	return w, nil
}

func short(digest string) string { return strings.TrimPrefix(digest, "sha256:")[:12] }

func (w *writer) close() {
	for _, i := range w.images {
		i.file.Close()
	}
}

// take reads one entry. Unknown and duplicate entries are rejected.
func (w *writer) take(name string, size int64, r io.Reader) error {
	if w.small[name] {
		delete(w.small, name)
		if size > maxIndex {
			return fmt.Errorf("%s has %d bytes", name, size)
		}
		return nil
	}
	if c, ok := w.charts[name]; ok {
		delete(w.charts, name)
		return w.toFile(filepath.Join(w.dir, filepath.Base(name)), r, c.Blob)
	}
	b, ok := w.blobs[name]
	if !ok {
		return fmt.Errorf("unexpected %q", name)
	}
	delete(w.blobs, name)
	if size != b.Size {
		return fmt.Errorf("%s has %d bytes where %d were expected", name, size, b.Size)
	}
	switch users := w.users[b.Digest]; len(users) {
	case 0:
		return w.takeSmall(b, r)
	case 1:
		if err := users[0].tw.WriteHeader(header(layerName(b.Digest), b.Size)); err != nil {
			return err
		}
		return copyBlob(users[0].tw, r, b, w.buf)
	default:
		w.shared[b.Digest] = filepath.Join(w.dir, short(b.Digest)+".layer")
		return w.toFile(w.shared[b.Digest], r, b)
	}
}

// takeSmall reads a configuration or manifest and checks it against the index.
func (w *writer) takeSmall(b Blob, r io.Reader) error {
	var buf strings.Builder
	if err := copyBlob(&buf, r, b, w.buf); err != nil {
		return err
	}
	data := []byte(buf.String())
	for _, i := range w.images {
		if i.Digest != b.Digest {
			continue
		}
		diffs, err := diffIDs(data)
		if err != nil {
			return err
		}
		if key := inputs(data); i.Key != "" && i.Key != key {
			return fmt.Errorf("image %s is labelled with recipe %q, the index has %q", i.Ref, key, i.Key)
		}
		if !slices.EqualFunc(diffs, i.Layers, func(d string, l Blob) bool { return d == l.Digest }) {
			return fmt.Errorf("image %s and its configuration have different layers", i.Ref)
		}
		i.config = data
	}
	return nil
}

func (w *writer) toFile(name string, r io.Reader, b Blob) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(copyBlob(f, r, b, w.buf), f.Close())
}

// finish completes the docker-archives.
func (w *writer) finish() ([]lab.Image, []lab.Chart, error) {
	if n := len(w.blobs) + len(w.charts); n > 0 {
		return nil, nil, fmt.Errorf("%d files of its index are missing", n)
	}
	var images []lab.Image
	for _, i := range w.images {
		if err := w.complete(i); err != nil {
			return nil, nil, err
		}
		info, err := os.Stat(i.file.Name())
		if err != nil {
			return nil, nil, err
		}
		images = append(images, lab.Image{
			Name: i.Name, Ref: i.Ref, Digest: i.Digest, Archive: i.file.Name(), Size: info.Size(), Origin: lab.OriginBundle,
			Key: i.Key, Manifests: i.Manifests,
		})
	}
	var charts []lab.Chart
	for _, c := range w.wanted.Charts {
		charts = append(charts, lab.Chart{
			Name: c.Name, Version: c.Version, Digest: c.Digest, Archive: filepath.Join(w.dir, filepath.Base(c.file())), Origin: lab.OriginBundle,
			Key: c.Key,
		})
	}
	return images, charts, nil
}

func (w *writer) complete(i *imageFile) error {
	if i.config == nil { // its digest was also listed as a layer
		return fmt.Errorf("image %s has no configuration", i.Ref)
	}
	names := make([]string, len(i.Layers))
	written := map[string]bool{}
	for n, l := range i.Layers {
		names[n] = layerName(l.Digest)
		if from := w.shared[l.Digest]; from != "" && !written[l.Digest] {
			written[l.Digest] = true
			if err := i.copyIn(from, l, w.buf); err != nil {
				return err
			}
		}
	}
	config := strings.TrimPrefix(i.Digest, "sha256:") + ".json"
	manifest, err := json.Marshal([]map[string]any{{"Config": config, "RepoTags": []string{i.Ref}, "Layers": names}})
	if err != nil {
		return err
	}
	return errors.Join(writeSmall(i.tw, config, i.config), writeSmall(i.tw, "manifest.json", manifest), i.tw.Close(), i.file.Close())
}

func (i *imageFile) copyIn(from string, l Blob, buf []byte) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := i.tw.WriteHeader(header(layerName(l.Digest), l.Size)); err != nil {
		return err
	}
	// Already verified when it was buffered.
	_, err = io.CopyBuffer(i.tw, struct{ io.Reader }{f}, buf)
	return err
}

func layerName(digest string) string { return strings.TrimPrefix(digest, "sha256:") + ".tar" }
