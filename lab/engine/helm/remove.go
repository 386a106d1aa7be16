package helm

import (
	"context"
	"fmt"

	"helm.sh/helm/v3/pkg/action"
)

// Remove uninstalls a release. One that is absent is no error; one that was uninstalled in part is uninstalled to the end.
func (c *Client) Remove(ctx context.Context, name string) error {
	last, err := c.last(ctx, name)
	if last == nil || err != nil {
		return err
	}
	un := action.NewUninstall(c.cfg)
	un.IgnoreNotFound = true
	un.DisableHooks = true // they would run the images of a chart that is on its way out
	un.Timeout = hookTimeout
	un.DeletionPropagation = "background"
	if _, err := un.Run(name); err != nil {
		return fmt.Errorf("uninstall %s: %w", name, err)
	}
	return nil
}
