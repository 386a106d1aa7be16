package scenario

import (
	"context"

	"homelab/lab"
)

// switchTo replaces the lab's engine and follows the new one.
func (p *playing) switchTo(ctx context.Context, to lab.EngineType) error {
	w, err := p.world.Switch(ctx, to)
	if err == nil {
		p.moveTo(w)
	}
	return err
}

// renew has a cluster created again and follows the new one.
func (p *playing) renew(ctx context.Context, cluster string) error {
	w, err := p.world.Renew(ctx, cluster)
	if err == nil {
		p.moveTo(w)
	}
	return err
}

// upgrade brings up the engine with other values and follows it.
func (p *playing) upgrade(ctx context.Context, values map[string]any) (map[string][]string, error) {
	w, changed, err := p.world.Upgrade(ctx, values)
	if err == nil {
		p.moveTo(w)
	}
	return changed, err
}

// moveTo follows a lab whose engine was replaced. What was seen before does not count: it was the other's doing.
func (p *playing) moveTo(w World) {
	p.world, p.result.Moved = w, &w
	p.locate()
	p.recorder.replaced(w)
	p.cursor = p.recorder.now()
}
