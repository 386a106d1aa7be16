package supply

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"testing/fstest"

	"helm.sh/helm/v3/pkg/chart/loader"

	"homelab/lab"
)

// Local opens what is on this machine: a bundle that is chosen or was loaded last, what was pulled, or what was built. It makes no requests.
func Local(ctx context.Context, o Options) (*Supply, error) {
	o.Mirror = "" // would be asked for its pins
	if _, isBundle := o.Mode.Bundle(); isBundle {
		return Open(ctx, o)
	}
	s, err := newSupply(o)
	if err != nil {
		return nil, err
	}
	d, known := s.remembered()
	switch {
	case o.Mode == ModeSource:
		s.useSource()
	case o.Mode == ModeRegistry:
		_, err = s.useRegistry()
	default:
		ok := false
		if known {
			ok, err = s.again(ctx, d)
		}
		if !ok {
			s.useSource()
		}
	}
	if err == nil {
		err = s.list(ctx)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Files opens a chart of lab's own that is present, as a folder.
func (s *Supply) Files(ctx context.Context, use lab.ChartUse) (fs.FS, error) {
	switch {
	case use.Repository != "":
		return nil, fmt.Errorf("the engine pulls it from %s", use.Repository)
	case !s.HasChart(use.Name, use.Version):
		return nil, fmt.Errorf("lab has no such chart: lab bundle ls")
	case !s.Present("", use.Name, use.Version):
		return nil, fmt.Errorf("lab bundle build %s-%s", use.Name, use.Version)
	}
	c, err := s.Chart(ctx, use.Name, use.Version, nil)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(c.Archive)
	if err != nil {
		return nil, err
	}
	unpacked, err := loader.LoadArchiveFiles(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Archive, err)
	}
	files := fstest.MapFS{}
	for _, f := range unpacked {
		files[f.Name] = &fstest.MapFile{Data: f.Data, Mode: 0o444}
	}
	return files, nil
}
