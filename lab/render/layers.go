package render

import (
	"path"

	"homelab/lab/appset"
)

// Layer is a file with values of a chart.
type Layer struct {
	Ref  string // name of the source that has it; empty for the chart's own repository
	File string
}

// Layers returns the value files of a chart, the last of which wins: its own, and those of the Application. It returns nil for other sources, and if one is unavailable.
func (s Source) Layers() []Layer {
	if s.Path = path.Clean(s.Path); TypeOf(s.FS, s.Source) != Helm {
		return nil
	}
	o := appset.Helm{}
	if s.Helm != nil {
		o = *s.Helm
	}
	files, err := s.valueFiles(o)
	if err != nil {
		return nil
	}
	layers := []Layer{{File: path.Join(s.Path, "values.yaml")}}
	for _, f := range files {
		ref := ""
		if f.ref != "" {
			ref = f.ref[1:]
		}
		layers = append(layers, Layer{Ref: ref, File: f.name})
	}
	return layers
}
