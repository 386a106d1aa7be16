package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"github.com/klauspost/compress/zstd"

	"homelab/lab"
	"homelab/lab/supply/meter"
)

// reader reads an archive, entry by entry.
type reader struct {
	raw   io.Reader // the tar
	tr    *tar.Reader
	index index
}

func decompress(r io.Reader) (io.ReadCloser, error) {
	// Limits the memory that a frame may demand; Save needs a fraction of it.
	zr, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(64<<20))
	if err != nil {
		return nil, err
	}
	return zr.IOReadCloser(), nil
}

// newReader reads the index, the first entry of the tar.
func newReader(r io.Reader) (*reader, error) {
	a := &reader{raw: r, tr: tar.NewReader(r)}
	return a, a.readIndex()
}

func (a *reader) readIndex() error {
	h, err := a.tr.Next()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	if h.Name != indexFile || h.Typeflag != tar.TypeReg || h.Size > maxIndex {
		return fmt.Errorf("it begins with %q, not with its index", h.Name)
	}
	data, err := io.ReadAll(a.tr)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&a.index); err != nil {
		return fmt.Errorf("%s: %w", indexFile, err)
	}
	return a.index.check()
}

// lockPoll is the polling interval of a folder's lock.
const lockPoll = 100 * time.Millisecond

// Inspect returns the contents according to the index. It reads only the beginning of the file; Load verifies the rest.
func Inspect(file string) (Contents, error) {
	f, err := open(file)
	if err != nil {
		return Contents{}, err
	}
	defer f.Close()
	zr, err := decompress(f)
	if err != nil {
		return Contents{}, bad(context.Background(), file, err)
	}
	defer zr.Close()
	a, err := newReader(zr)
	if err != nil {
		return Contents{}, bad(context.Background(), file, err)
	}
	return a.index.Contents, nil
}

func open(file string) (*os.File, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, &lab.Error{Exit: lab.ExitInvalid, Code: "bad_bundle", Message: "bundle " + file + " cannot be opened", Cure: "check the path", Err: err}
	}
	return f, nil
}

// Load verifies an archive and writes its images (as docker-archives) and charts to destDir. A broken, truncated or
// hostile file leaves nothing there: everything is moved into place after the last byte was verified.
func Load(ctx context.Context, file, destDir string, p lab.Progress) ([]lab.Image, []lab.Chart, error) {
	f, err := open(file)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(destDir, 0o755); err != nil {
		return nil, nil, err
	}
	guard := flock.New(filepath.Join(destDir, ".load.lock"))
	if _, err := guard.TryLockContext(ctx, lockPoll); err != nil {
		return nil, nil, err
	}
	defer guard.Unlock()
	stage := filepath.Join(destDir, ".load")
	if err := errors.Join(os.RemoveAll(stage), os.Mkdir(stage, 0o755)); err != nil { // a killed run may have left it
		return nil, nil, err
	}
	defer os.RemoveAll(stage)
	zr, err := decompress(meter.New("loading "+filepath.Base(file), info.Size(), p).Reader(interruptible{ctx, f}))
	if err != nil {
		return nil, nil, bad(ctx, file, err)
	}
	defer zr.Close()
	images, charts, err := unpack(zr, stage)
	if err != nil {
		return nil, nil, bad(ctx, file, err)
	}
	for i := range images {
		if images[i].Archive, err = move(images[i].Archive, destDir); err != nil {
			return nil, nil, err
		}
	}
	for i := range charts {
		if charts[i].Archive, err = move(charts[i].Archive, destDir); err != nil {
			return nil, nil, err
		}
	}
	return images, charts, nil
}

func move(file, dir string) (string, error) {
	to := filepath.Join(dir, filepath.Base(file))
	return to, os.Rename(file, to)
}

// unpack extracts a tar into dir.
func unpack(r io.Reader, dir string) ([]lab.Image, []lab.Chart, error) {
	a, err := newReader(r)
	if err != nil {
		return nil, nil, err
	}
	if err := enoughRoom(dir, a.index.Contents); err != nil {
		return nil, nil, err
	}
	w, err := newWriter(a.index.Contents, dir)
	if err != nil {
		return nil, nil, err
	}
	defer w.close()
	for {
		h, err := a.tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		if h.Typeflag != tar.TypeReg {
			return nil, nil, fmt.Errorf("%q is not a plain file", h.Name)
		}
		if err := w.take(h.Name, h.Size, a.tr); err != nil {
			return nil, nil, err
		}
	}
	// Read to the end: padding follows the tar, and zstd's checksum comes last.
	if n, err := io.Copy(io.Discard, io.LimitReader(a.raw, maxIndex)); err != nil {
		return nil, nil, err
	} else if n == maxIndex {
		return nil, nil, errors.New("trailing data")
	}
	return w.finish()
}

// enoughRoom fails early if the content does not fit on the disk.
func enoughRoom(dir string, c Contents) error {
	free, known := freeBytes(dir)
	var need int64
	for _, i := range c.Images {
		need += i.Size()
	}
	if known && need > free {
		return &lab.Error{
			Exit: lab.ExitFailed, Code: "no_space", Message: fmt.Sprintf("the bundle needs %s in %s, which has %s free", meter.Bytes(need), filepath.Dir(dir), meter.Bytes(free)),
			Cure: "free space, or move lab's cache with XDG_CACHE_HOME",
		}
	}
	return nil
}
