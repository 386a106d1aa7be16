package estate

import (
	"maps"

	"homelab/lab"
)

// WithLeft adds those of an earlier estate's clusters that left it. lab up keeps them and their registrations, so that Argo CD still generates their applications.
func WithLeft(earlier []lab.Cluster) Option {
	return func(l *loader) { l.earlier = earlier }
}

// keep adds the clusters that left.
func (l *loader) keep() {
	for _, c := range l.earlier {
		if _, is := l.estate.Cluster(c.Name); is {
			continue
		}
		c.Left, c.Selected = true, maps.Clone(c.Selected)
		l.estate.Clusters = append(l.estate.Clusters, c)
	}
}
