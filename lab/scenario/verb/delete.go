package verb

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"homelab/lab/scenario"
)

type remove struct {
	changes            `yaml:",inline"`
	scenario.ObjectRef `yaml:",inline"`
}

func (d *remove) Check(*scenario.Checker) {}

// Subjects returns the object.
func (d *remove) Subjects() []scenario.Subject { return []scenario.Subject{d.Subject()} }

func (d *remove) Do(ctx context.Context, c *scenario.Call) error {
	r, err := resource(c, d.Subject())
	if err != nil {
		return err
	}
	was, err := get(ctx, r, d.Name)
	if err != nil {
		return err
	}
	if was == nil {
		return fmt.Errorf("no %s", d.Subject())
	}
	// An object that the engine recreated meanwhile is kept.
	c.Undo(d.Subject().String(), func(ctx context.Context) error {
		_, err := r.Create(ctx, bare(was), metav1.CreateOptions{FieldManager: "kubectl-create"})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	if err := deleteObject(ctx, r, d.Name); err != nil {
		return err
	}
	c.Deleted(d.Subject(), was.GetResourceVersion())
	c.Did("%s deleted", d.Subject())
	return nil
}
