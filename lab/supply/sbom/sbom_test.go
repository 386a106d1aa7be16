package sbom

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/klauspost/compress/zstd"

	"homelab/lab"
)

// layer is a tar with one file.
func layer(t *testing.T, file string, data []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	err := tw.WriteHeader(&tar.Header{Name: file, Mode: 0o755, Size: int64(len(data))})
	_, writeErr := tw.Write(data)
	if err := errors.Join(err, writeErr, tw.Close()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// The program of this test is in one image as it is, and in another inside of a layer in containerd's store.
func TestMake(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	var small bytes.Buffer
	zw, err := zstd.NewWriter(&small)
	if err != nil {
		t.Fatal(err)
	}
	_, err = zw.Write(layer(t, "usr/bin/lab", program))
	if err := errors.Join(err, zw.Close()); err != nil {
		t.Fatal(err)
	}
	var images []Image
	for ref, content := range map[string][]byte{
		"example.com/a:1":    layer(t, "lab", program),
		"example.com/node:1": layer(t, "var/lib/containerd/"+contentStore+"sha256/0", small.Bytes()),
	} {
		l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, Image{Image: write(t, ref, l), Version: "1", Debian: []string{"bash=5.2.15-2+b9"}})
	}
	bom, err := Make(t.Context(), Maker{"v0.0.0-test", time.Unix(0, 0)}, images, []lab.Chart{{Name: "podinfo", Version: "6.9.2", Digest: "sha256:" + strings.Repeat("0", 64)}})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).Encode(bom); err != nil {
		t.Fatal(err)
	}
	var read cdx.BOM
	if err := cdx.NewBOMDecoder(&text, cdx.BOMFileFormatJSON).Decode(&read); err != nil {
		t.Fatal(err)
	}
	if len(*read.Components) != 3 || read.SpecVersion != bom.SpecVersion {
		t.Fatalf("%d components, version %s", len(*read.Components), read.SpecVersion)
	}
	refs := map[string]bool{}
	for _, c := range *read.Components {
		if c.Type != cdx.ComponentTypeContainer {
			continue
		}
		var purls []string
		for _, part := range *c.Components {
			purls = append(purls, part.PackageURL)
			if refs[part.BOMRef] {
				t.Errorf("%s is there twice", part.BOMRef)
			}
			refs[part.BOMRef] = true
		}
		for _, want := range []string{"pkg:deb/debian/bash@5.2.15-2+b9", "pkg:golang/homelab@", "pkg:golang/stdlib@"} {
			if !slices.ContainsFunc(purls, func(p string) bool { return strings.HasPrefix(p, want) }) {
				t.Errorf("%s lacks %s: %q", c.Name, want, purls)
			}
		}
	}
}

func write(t *testing.T, ref string, l v1.Layer) lab.Image {
	t.Helper()
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := tarball.WriteToFile(file, tag, img); err != nil {
		t.Fatal(err)
	}
	digest, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	return lab.Image{Name: "a", Ref: ref, Digest: digest.String(), Archive: file}
}

// A replaced module is listed as what was compiled.
func TestReplacement(t *testing.T) {
	m := modules{}
	m.add(&debug.Module{Path: "example.com/a", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/b", Version: "v2.0.0", Sum: "h1:x"}})
	list := m.components("image/x")
	if len(list) != 1 || list[0].PackageURL != "pkg:golang/example.com/b@v2.0.0" || (*list[0].Properties)[0].Value != "h1:x" {
		t.Errorf("%+v", list)
	}
}
