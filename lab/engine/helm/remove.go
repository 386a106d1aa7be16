package helm

import (
	"context"
	"fmt"

	"helm.sh/helm/v3/pkg/action"
)

// Remove uninstalls a release, completing an interrupted uninstall. A missing release is not an error.
func (c *Client) Remove(ctx context.Context, name string) error {
	last, err := c.last(ctx, name)
	if last == nil || err != nil {
		return err
	}
	un := action.NewUninstall(c.cfg)
	un.IgnoreNotFound = true
	un.DisableHooks = true // they would run images of a removed chart
	un.Timeout = hookTimeout
	un.DeletionPropagation = "background"
	if _, err := un.Run(name); err != nil {
		return fmt.Errorf("uninstall %s: %w", name, err)
	}
	return nil
}
