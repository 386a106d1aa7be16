package source

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"homelab/lab"
	"homelab/lab/supply/store"
)

// fromEngine takes an image from the container engine if its label has the same key. Errors of the engine are ignored:
// the image is built instead.
func (b *Builder) fromEngine(ctx context.Context, c *Component, key string) (store.Entry, bool, error) {
	if b.engine == nil || (c.Kind != KindImage && c.Kind != KindNode) {
		return store.Entry{}, false, nil
	}
	ref, err := b.recipes.Ref(c)
	if err != nil {
		return store.Entry{}, false, err
	}
	out, err := b.engine.Output(ctx, nil, "image", "inspect", "--format", `{{index .Config.Labels "`+lab.LabelInputs+`"}}`, ref)
	if err != nil || strings.TrimSpace(string(out)) != key {
		return store.Entry{}, false, ctx.Err()
	}
	e, err := b.store.Make(ctx, c.Name, key, nil, func(ctx context.Context, dir string) (store.Meta, error) {
		file := filepath.Join(dir, archiveFile)
		if _, err := b.engine.Output(ctx, nil, "save", "--output", file, ref); err != nil {
			return store.Meta{}, err
		}
		img, err := tarball.ImageFromPath(file, nil)
		if err != nil {
			return store.Meta{}, err
		}
		digest, err := img.ConfigName()
		if err != nil {
			return store.Meta{}, err
		}
		return store.Meta{Version: c.Version, Ref: ref, Digest: digest.String(), Origin: lab.OriginEngine}, nil
	})
	if err != nil {
		return store.Entry{}, false, ctx.Err()
	}
	return e, true, nil
}
