package live

import (
	"context"
	"errors"

	"homelab/lab"
	"homelab/lab/registry"
)

// Registry is the lab's registry.
type Registry struct {
	// Client returns its client, or why it cannot be reached: a story that does not push needs no registry.
	Client func(ctx context.Context) (registry.Client, error)
	// Archive returns an archive of an image that this machine has; done removes it if it is temporary.
	Archive func(ctx context.Context, image string) (file string, done func(), err error)
}

// Push implements scenario.Registry.
func (r Registry) Push(ctx context.Context, image, as string) (string, error) {
	c, err := r.Client(ctx)
	if err != nil {
		return "", err
	}
	file, done, err := r.Archive(ctx, image)
	if err != nil {
		return "", err
	}
	defer done()
	pushed, err := c.PushImage(ctx, registry.Source{Archive: file}, as)
	return pushed.Digest, err
}

// Digest implements scenario.Registry.
func (r Registry) Digest(ctx context.Context, name string) (string, error) {
	c, err := r.Client(ctx)
	if err != nil {
		return "", err
	}
	content, err := c.Look(ctx, name)
	if missing(err) {
		return "", nil
	}
	return content.Digest, err
}

// Tag implements scenario.Registry.
func (r Registry) Tag(ctx context.Context, name, digest string) error {
	c, err := r.Client(ctx)
	if err != nil {
		return err
	}
	if digest != "" {
		return c.Tag(ctx, name, digest)
	}
	if _, err = c.Remove(ctx, name); missing(err) {
		return nil
	}
	return err
}

func missing(err error) bool {
	var e *lab.Error
	return errors.As(err, &e) && e.Code == registry.CodeNoTag
}
