package up

import (
	"context"
	"fmt"
	"time"

	"homelab/lab"
	"homelab/lab/apply"
)

// doImages fetches all missing images and charts in the order of use; a step that needs one image waits for that one only.
func (r *run) doImages(ctx context.Context, _ lab.Step, p lab.Progress) (apply.Outcome, error) {
	needs := r.needs(r.clusters(r.options))
	var images, changes []string
	for _, n := range needs {
		if n.image != "" {
			images = append(images, n.image)
		}
	}
	if err := r.Supply.Expect(images...); err != nil {
		return apply.Outcome{}, err
	}
	for _, n := range needs {
		if r.Supply.Present(n.image, n.chart, n.version) {
			continue
		}
		origin, err := r.get(ctx, n, p)
		if err != nil {
			return apply.Outcome{}, err
		}
		changes = append(changes, fmt.Sprintf("%s from %s", n, origin))
	}
	return apply.Outcome{Detail: fmt.Sprintf("%d available", len(needs)), Changes: changes}, nil
}

func (r *run) get(ctx context.Context, n need, p lab.Progress) (lab.Origin, error) {
	if n.image != "" {
		img, err := r.Supply.Image(ctx, n.image, p)
		return img.Origin, err
	}
	chart, err := r.Supply.Chart(ctx, n.chart, n.version, p)
	return chart.Origin, err
}

// image waits until an image is available. Its build progress is shown by the images step only.
func (r *run) image(ctx context.Context, name string, p lab.Progress) (lab.Image, error) {
	if !r.Supply.Present(name, "", "") {
		p("waiting for image " + name)
	}
	return r.Supply.Image(ctx, name, silent)
}

// loadImage loads an image into the container engine unless present. Concurrent calls for one image share the load.
func (r *run) loadImage(ctx context.Context, name string, p lab.Progress) (lab.Image, error) {
	img, err := r.image(ctx, name, p)
	if err != nil {
		return img, err
	}
	_, err, _ = r.loads.Do(name, func() (any, error) { return nil, r.Containers.LoadImage(ctx, img, p) })
	return img, err
}

// images waits until all images of a cluster are available.
func (r *run) images(ctx context.Context, c lab.Cluster, p lab.Progress) ([]lab.Image, error) {
	var list []lab.Image
	for _, name := range r.imagesOf(c) {
		img, err := r.image(ctx, name, p)
		if err != nil {
			return nil, err
		}
		list = append(list, img)
	}
	return list, nil
}

// LoadImages loads images into the nodes of a cluster, building or fetching missing ones.
func (l *Lab) LoadImages(ctx context.Context, cluster string, names []string, p lab.Progress) error {
	if err := l.Supply.Expect(names...); err != nil {
		return err
	}
	var list []lab.Image
	for _, name := range names {
		image, err := l.Supply.Image(ctx, name, p)
		if err != nil {
			return err
		}
		list = append(list, image)
	}
	return l.Clusters.Load(ctx, cluster, list, p)
}

// clusterBootTime is roughly the time from creating a cluster until it can load images.
const clusterBootTime = 45 * time.Second

// waitForBuilds waits until the remaining build time is below clusterBootTime: a cluster that idles while images build takes CPU from the build.
func (r *run) waitForBuilds(ctx context.Context, p lab.Progress) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for reported := false; r.Supply.Left() > clusterBootTime; reported = true {
		if !reported {
			p("waiting until the images are almost built")
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	return nil
}
