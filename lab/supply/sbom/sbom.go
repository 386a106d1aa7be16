// Package sbom describes images and charts in a CycloneDX document: the Go modules of their programs, read
// from the programs themselves, also of the images inside of node images, and the Debian packages that lab installed.
package sbom

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/klauspost/compress/zstd"

	"homelab/lab"
)

// Image is an image with what its files do not say.
type Image struct {
	lab.Image
	Version string
	Debian  []string // NAME=VERSION
}

// Maker is who makes a document, and when.
type Maker struct {
	Version string // of lab
	At      time.Time
}

// Make describes images and charts that are on disk.
func Make(ctx context.Context, by Maker, images []Image, charts []lab.Chart) (*cdx.BOM, error) {
	var all []cdx.Component
	for _, img := range images {
		c, err := image(ctx, img)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", img.Ref, err)
		}
		all = append(all, c)
	}
	for _, c := range charts {
		all = append(all, cdx.Component{
			Type: cdx.ComponentTypeApplication, BOMRef: "chart/" + c.Name + "@" + c.Version, Name: c.Name, Version: c.Version, Description: "Helm chart", Hashes: hashes(c.Digest),
		})
	}
	bom := cdx.NewBOM()
	tool := cdx.Component{Type: cdx.ComponentTypeApplication, Name: "lab", Version: by.Version}
	bom.Metadata = &cdx.Metadata{Timestamp: by.At.UTC().Format(time.RFC3339), Tools: &cdx.ToolsChoice{Components: &[]cdx.Component{tool}}}
	bom.Components = &all
	return bom, nil
}

func hashes(digest string) *[]cdx.Hash {
	return &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: strings.TrimPrefix(digest, "sha256:")}}
}

func image(ctx context.Context, of Image) (cdx.Component, error) {
	img, err := tarball.ImageFromPath(of.Archive, nil)
	if err != nil {
		return cdx.Component{}, err
	}
	layers, err := img.Layers()
	if err != nil {
		return cdx.Component{}, err
	}
	found := modules{}
	for _, l := range layers {
		r, err := l.Uncompressed()
		if err != nil {
			return cdx.Component{}, err
		}
		if err = errors.Join(found.layer(ctx, r), r.Close()); err != nil {
			return cdx.Component{}, err
		}
	}
	ref := "image/" + of.Ref
	parts := found.components(ref)
	for _, p := range of.Debian {
		name, version, _ := strings.Cut(p, "=")
		parts = append(parts, cdx.Component{
			Type: cdx.ComponentTypeLibrary, BOMRef: ref + "/deb/" + name, Name: name, Version: version, PackageURL: "pkg:deb/debian/" + name + "@" + version,
		})
	}
	return cdx.Component{
		Type: cdx.ComponentTypeContainer, BOMRef: ref, Name: strings.TrimSuffix(of.Ref, ":"+of.Version), Version: of.Version, Hashes: hashes(of.Digest), Components: &parts,
	}, nil
}

// modules are Go modules, by path and version.
type modules map[[2]string]debug.Module

func (m modules) add(d *debug.Module) {
	if d.Replace != nil {
		d = d.Replace
	}
	if d.Path != "" {
		m[[2]string{d.Path, d.Version}] = *d
	}
}

func (m modules) components(within string) []cdx.Component {
	var list []cdx.Component
	for _, key := range slices.SortedFunc(maps.Keys(m), func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) }) {
		d := m[key]
		c := cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: within + "/go/" + d.Path + "@" + d.Version, Name: d.Path, Version: d.Version, PackageURL: "pkg:golang/" + d.Path + "@" + d.Version}
		if d.Sum != "" {
			c.Properties = &[]cdx.Property{{Name: "lab:sum", Value: d.Sum}}
		}
		list = append(list, c)
	}
	return list
}

// contentStore is containerd's folder of blobs; node images have layers of other images there.
const contentStore = "io.containerd.content.v1.content/blobs/"

// layer reads the programs of a layer.
func (m modules) layer(ctx context.Context, r io.Reader) error {
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		in := bufio.NewReader(tr)
		magic, err := in.Peek(4)
		if err != nil { // shorter than that
			continue
		}
		switch {
		case bytes.Equal(magic, []byte("\x7fELF")):
			err = m.program(in)
		case !strings.Contains(h.Name, contentStore):
		case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
			var zr *gzip.Reader
			if zr, err = gzip.NewReader(in); err == nil {
				err = m.layer(ctx, zr)
			}
		case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
			var zr *zstd.Decoder
			if zr, err = zstd.NewReader(in); err == nil {
				err = m.layer(ctx, zr)
				zr.Close()
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
}

// program reads the modules that the go command wrote into a program; others have none.
func (m modules) program(r io.Reader) error {
	f, err := os.CreateTemp("", "lab-sbom-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := io.Copy(f, r); err != nil {
		return err
	}
	info, err := buildinfo.Read(f)
	if err != nil {
		return nil
	}
	m.add(&info.Main)
	for _, d := range info.Deps {
		m.add(d)
	}
	if info.GoVersion != "" {
		m.add(&debug.Module{Path: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")})
	}
	return nil
}
