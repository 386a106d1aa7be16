package verb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"homelab/lab/scenario"
)

var errNoRegistry = errors.New("the lab has no registry: spec.registry of the hub")

// pushTimeout is how long an undo may take to move or remove a tag.
const pushTimeout = time.Minute

// pushImage pushes an image to the lab's registry until the story ends.
type pushImage struct {
	changes `yaml:",inline"`
	Image   string `yaml:"image" need:"true" doc:"an image of the docker engine, or one that lab has: requires.images brings it"`
	As      string `yaml:"as" need:"true" doc:"NAME:TAG in the registry; a tag that exists is moved, and moved back when the story ends"`
}

func (m *pushImage) Check(c *scenario.Checker) {
	if strings.Contains(m.As, "${") {
		return // known at run time
	}
	if _, err := name.NewTag("registry:5000/"+m.As, name.StrictValidation); m.As != "" && (err != nil || !fs.ValidPath(m.As)) {
		c.Fail("as", fmt.Sprintf("%q is not NAME:TAG", m.As), "a name in lower case and a tag, such as team/podinfo:1.2.3")
	}
}

// Alone returns why it is not played beside other stories.
func (*pushImage) Alone() string { return "pushes to the registry" }

func (m *pushImage) Do(ctx context.Context, c *scenario.Call) error {
	if c.Registry == nil {
		return errNoRegistry
	}
	was, err := c.Registry.Digest(ctx, m.As)
	if err != nil {
		return err
	}
	c.UndoWithin("tag "+m.As+" of the registry", pushTimeout, func(ctx context.Context) error { return c.Registry.Tag(ctx, m.As, was) })
	digest, err := c.Registry.Push(ctx, m.Image, m.As)
	if err != nil {
		return err
	}
	c.Did("%s is %s", m.As, digest)
	return nil
}
