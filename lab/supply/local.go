package supply

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"homelab/lab"
	"homelab/lab/supply/charts"
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

// Files opens a chart that is on this machine. It makes no requests.
func (s *Supply) Files(ctx context.Context, use lab.ChartUse) (lab.ChartFiles, error) {
	switch carried := Carried(use.Name, use.Version); {
	case use.Repository == "" && isFile(filepath.Join(s.options.CacheDir, carried)):
		data, err := os.ReadFile(filepath.Join(s.options.CacheDir, carried))
		if err != nil {
			return lab.ChartFiles{}, err
		}
		files, err := charts.Unpack(data)
		return lab.ChartFiles{FS: files, Version: use.Version}, err
	case use.Repository != "":
		return s.Charts().Files(use)
	case !s.HasChart(use.Name, use.Version):
		return lab.ChartFiles{}, fmt.Errorf("lab has no such chart: lab bundle ls")
	case !s.Present("", use.Name, use.Version):
		return lab.ChartFiles{}, fmt.Errorf("lab bundle build %s-%s", use.Name, use.Version)
	}
	c, err := s.Chart(ctx, use.Name, use.Version, nil)
	if err != nil {
		return lab.ChartFiles{}, err
	}
	data, err := os.ReadFile(c.Archive)
	if err != nil {
		return lab.ChartFiles{}, err
	}
	files, err := charts.Unpack(data)
	if err != nil {
		return lab.ChartFiles{}, fmt.Errorf("%s: %w", c.Archive, err)
	}
	return lab.ChartFiles{FS: files, Version: c.Version}, nil
}

// Carried returns the name of a chart of lab's in the cache of a place that has nothing but charts, the runner's. It is read only if it is there.
func Carried(name, version string) string {
	return filepath.Join("carried", url.PathEscape(name+"-"+version)+".tgz")
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// Charts returns the charts of other people's repositories.
func (s *Supply) Charts() charts.Cache {
	return charts.Cache{Dir: filepath.Join(s.options.CacheDir, "charts")}
}
