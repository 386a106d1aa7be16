package supply

import (
	"context"
	"errors"
	"time"

	"homelab/lab"
	"homelab/lab/supply/archive"
	"homelab/lab/supply/registry"
	"homelab/lab/supply/source"
)

// all fetches all images and charts.
func (s *Supply) all(ctx context.Context, p lab.Progress) ([]lab.Image, []lab.Chart, error) {
	items, err := s.List(ctx)
	if err != nil {
		return nil, nil, err
	}
	items = s.needed(items)
	var names []string
	for _, i := range items {
		if i.Kind == KindImage {
			names = append(names, i.Name)
		}
	}
	if err := s.Expect(names...); err != nil {
		return nil, nil, err
	}
	var images []lab.Image
	var charts []lab.Chart
	for _, i := range items {
		switch i.Kind {
		case KindImage:
			img, err := s.Image(ctx, i.Name, p)
			var known *lab.Error
			switch {
			case errors.As(err, &known) && known.Code == source.CodeNoGo:
				p("without " + i.Name + ": " + known.Message)
				continue
			case err != nil:
				return nil, nil, err
			}
			images = append(images, img)
		case KindChart:
			c, err := s.Chart(ctx, i.Name, i.Version, p)
			if err != nil {
				return nil, nil, err
			}
			charts = append(charts, c)
		}
	}
	return images, charts, nil
}

// Save writes all images and charts to an archive and fetches missing ones.
func (s *Supply) Save(ctx context.Context, file string, p lab.Progress) error {
	images, charts, err := s.all(ctx, p)
	if err != nil {
		return err
	}
	made := archive.Made{By: s.options.Lab, At: time.Now().UTC().Truncate(time.Second), From: s.why}
	return archive.Save(ctx, file, archive.Goods{Made: made, Images: images, Charts: charts}, p)
}

// Push publishes all images, under their own names, and charts to a registry, as a mirror for others. It fetches
// missing ones.
func (s *Supply) Push(ctx context.Context, mirror string, p lab.Progress) error {
	images, charts, err := s.all(ctx, p)
	if err != nil {
		return err
	}
	return registry.Publish(ctx, mirror, images, charts, p)
}
