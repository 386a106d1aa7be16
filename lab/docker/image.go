package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"homelab/lab"
)

// LoadImage loads an image from its archive, unless present. An image without an archive must be present.
func (d *Docker) LoadImage(ctx context.Context, image lab.Image, p lab.Progress) error {
	id, found, err := d.ImageID(ctx, image.Ref)
	if err != nil || found && (id == image.Digest || image.Archive == "") {
		return err
	}
	if found {
		if same, err := d.holds(ctx, image); same || err != nil {
			return err
		}
	}
	p("loading " + image.Ref)
	f, err := os.Open(image.Archive)
	if err != nil {
		return fmt.Errorf("image %s: %w", image.Name, err)
	}
	defer f.Close()
	_, err = d.Output(ctx, f, "load", "--quiet")
	return err
}

// ImageID returns the engine's id (sha256:...) of an image, or false: the digest of its configuration, or with containerd's
// image store, the default since Docker 29, of the manifest that the engine made for it.
func (d *Docker) ImageID(ctx context.Context, ref string) (string, bool, error) {
	out, err := d.Output(ctx, nil, "image", "inspect", "--format", "{{.Id}}", ref)
	if NotFound(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	return strings.TrimSpace(string(out)), true, nil
}

// holds reports whether the engine's image of this name is the one in the archive, though its id is not the digest of a
// configuration: its layers and its configuration are the same.
func (d *Docker) holds(ctx context.Context, image lab.Image) (bool, error) {
	out, err := d.Output(ctx, nil, "image", "inspect", image.Ref)
	if err != nil {
		return false, err
	}
	var has []struct {
		Architecture string
		Config       v1.Config
		RootFS       struct{ Layers []string }
	}
	if err := json.Unmarshal(out, &has); err != nil || len(has) != 1 {
		return false, fmt.Errorf("docker image inspect %s: %d images: %w", image.Ref, len(has), err)
	}
	archive, err := tarball.ImageFromPath(image.Archive, nil)
	if err != nil {
		return false, fmt.Errorf("image %s: %w", image.Name, err)
	}
	want, err := archive.ConfigFile()
	if err != nil {
		return false, fmt.Errorf("image %s: %w", image.Name, err)
	}
	same := slices.EqualFunc(has[0].RootFS.Layers, want.RootFS.DiffIDs, func(a string, b v1.Hash) bool { return a == b.String() })
	if !same || has[0].Architecture != want.Architecture {
		return false, nil
	}
	a, err := json.Marshal(has[0].Config) // without what is empty
	if err != nil {
		return false, err
	}
	b, err := json.Marshal(want.Config)
	return bytes.Equal(a, b), err
}

// FileIn returns the content of a file in an image's archive, by its absolute path.
func FileIn(image lab.Image, file string) ([]byte, error) {
	archive, err := tarball.ImageFromPath(image.Archive, nil)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", image.Name, err)
	}
	files := mutate.Extract(archive)
	defer files.Close()
	for r := tar.NewReader(files); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("image %s has no file %s", image.Name, file)
		}
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", image.Name, err)
		}
		if h.Typeflag == tar.TypeReg && path.Join("/", h.Name) == file {
			return io.ReadAll(r)
		}
	}
}
