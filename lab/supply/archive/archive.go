// Package archive packs images and charts into one file, for machines without registry and compiler. The file is a tar, compressed with zstd:
//
//	lab.json                    contents: names, refs, digests, sizes
//	oci-layout, index.json      the same images for any tool that reads an OCI image layout
//	charts/NAME-VERSION.tgz
//	blobs/sha256/...            configurations, manifests and layers; shared layers once
//
// Layers are uncompressed: one zstd stream over all of them is smaller than a gzip each, and their digests are those in the image's configuration.
package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode"

	"homelab/lab"
	"homelab/lab/supply/disk"
)

// version of the format. Version 1 lacks the origins in Made, Image and Chart; others are rejected.
const version = 2

// Names in the archive.
const (
	indexFile  = "lab.json"
	layoutFile = "oci-layout"
	ociIndex   = "index.json"
	blobDir    = "blobs/sha256/"
	chartDir   = "charts/"
)

// Limits for broken or hostile files.
const (
	maxIndex   = 4 << 20  // bytes of lab.json and of other small files
	maxEntries = 1000     // images, charts, and layers per image
	maxBlob    = 16 << 30 // bytes of a layer
	maxTotal   = 64 << 30 // bytes in total
)

// Contents are the contents of an archive.
type Contents struct {
	Made   Made    `json:"made,omitzero"`
	Images []Image `json:"images"`
	Charts []Chart `json:"charts"`
}

// Made is the unverified origin of an archive.
type Made struct {
	By   string    `json:"by,omitempty"` // version of lab
	At   time.Time `json:"at,omitzero"`
	From string    `json:"from,omitempty"` // the origin of that lab's images, as it described it
}

// Image is an image in an archive.
type Image struct {
	Name     string `json:"name"`
	Ref      string `json:"ref"`
	Digest   string `json:"digest"` // of the configuration: lab.Image.Digest
	Config   int64  `json:"config"` // bytes of the configuration
	Manifest Blob   `json:"manifest"`
	Layers   []Blob `json:"layers"` // with digests of the uncompressed layers

	Key       string `json:"key,omitempty"`       // lab.Image.Key
	Manifests string `json:"manifests,omitempty"` // lab.Image.Manifests
}

// Size returns the total size of an image's files, shared layers included.
func (i Image) Size() int64 {
	n := i.Config
	for _, l := range i.Layers {
		n += l.Size
	}
	return n
}

// Blob is a file named by its digest.
type Blob struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// Chart is a chart in an archive.
type Chart struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Blob
	Key string `json:"key,omitempty"` // lab.Chart.Key
}

func (c Chart) file() string { return chartDir + c.Name + "-" + c.Version + ".tgz" }

// index is lab.json.
type index struct {
	Version int `json:"version"`
	Contents
}

var (
	digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	keyForm    = regexp.MustCompile(`^[0-9a-f]{64}$`)

	// Compiled when needed: it takes more than a millisecond.
	nameForm = lazy(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,127}$`)
	refForm  = lazy(`^[a-z0-9][A-Za-z0-9._/:-]{0,254}:[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
)

func lazy(form string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(form) })
}

// check validates an index.
func (x index) check() error {
	if x.Version < 1 || x.Version > version {
		return fmt.Errorf("it has format %d, this version of lab reads formats 1 to %d", x.Version, version)
	}
	if len(x.Images) > maxEntries || len(x.Charts) > maxEntries {
		return fmt.Errorf("it names %d images and %d charts", len(x.Images), len(x.Charts))
	}
	names := map[string]bool{}
	var total int64
	sizes := map[string]int64{}
	blob := func(what string, b Blob, most int64) error {
		if !digestForm.MatchString(b.Digest) {
			return fmt.Errorf("%s has digest %q", what, b.Digest)
		}
		if b.Size < 0 || b.Size > most {
			return fmt.Errorf("%s has %d bytes", what, b.Size)
		}
		if old, ok := sizes[b.Digest]; ok && old != b.Size {
			return fmt.Errorf("%s has two sizes", b.Digest)
		}
		sizes[b.Digest] = b.Size
		total += b.Size
		if total > maxTotal {
			return fmt.Errorf("it holds more than %d bytes", int64(maxTotal))
		}
		return nil
	}
	if !printable(x.Made.By) || !printable(x.Made.From) { // shown on terminals
		return errors.New("it was not made by a lab")
	}
	for _, i := range x.Images {
		what := "image " + i.Name
		if i.Key != "" && !keyForm.MatchString(i.Key) {
			return fmt.Errorf("%s has key %q", what, i.Key)
		}
		if !nameForm().MatchString(i.Name) || !refForm().MatchString(i.Ref) || len(i.Layers) > maxEntries || names[what] {
			return fmt.Errorf("image %q called %q is not one that lab writes", i.Name, i.Ref)
		}
		names[what] = true
		err := errors.Join(blob(what, Blob{i.Digest, i.Config}, maxIndex), blob(what, i.Manifest, maxIndex))
		for _, l := range i.Layers {
			err = errors.Join(err, blob("a layer of "+what, l, maxBlob))
		}
		if err != nil {
			return err
		}
	}
	for _, c := range x.Charts {
		if c.Key != "" && !keyForm.MatchString(c.Key) {
			return fmt.Errorf("chart %s has key %q", c.Name, c.Key)
		}
		if !nameForm().MatchString(c.Name) || !nameForm().MatchString(c.Version) || names[c.file()] {
			return fmt.Errorf("chart %q %q is not one that lab writes", c.Name, c.Version)
		}
		names[c.file()] = true
		if err := blob(c.file(), c.Blob, maxIndex*8); err != nil {
			return err
		}
	}
	return nil
}

func printable(s string) bool {
	return len(s) <= 200 && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

func blobName(digest string) string { return blobDir + strings.TrimPrefix(digest, "sha256:") }

func digestOf(data []byte) string {
	h := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(h[:])
}

// bad wraps the error of an unreadable bundle. Cancellations and errors with a code are returned unchanged.
func bad(ctx context.Context, file string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err = disk.Explain(err, filepath.Dir(file), disk.CacheCure)
	var labErr *lab.Error
	if errors.As(err, &labErr) {
		return labErr
	}
	var broken *fs.PathError
	if errors.As(err, &broken) { // a disk error is not the bundle's fault
		return fmt.Errorf("bundle %s: %w", filepath.Base(file), err)
	}
	return &lab.Error{
		Exit: lab.ExitInvalid, Code: "bad_bundle", Message: filepath.Base(file) + " is not a valid bundle",
		Cure: "copy it again, or recreate it with lab bundle save", Err: err,
	}
}
