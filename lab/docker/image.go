package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"homelab/lab"
)

// Arch returns the architecture of the engine, "amd64", which need not be that of lab's machine.
func (d *Docker) Arch(ctx context.Context) (string, error) {
	out, err := d.Output(ctx, nil, "version", "--format", "{{.Server.Arch}}")
	return strings.TrimSpace(string(out)), err
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
