package estate

import (
	"cmp"
	"maps"
	"path"
	"slices"

	"homelab/lab"
	"homelab/lab/appset"
)

// describe sets the common settings of each addon's Applications, and the versions that environments pin.
func (l *loader) describe() {
	environments := []string{""}
	for _, e := range l.estate.Environments {
		if e.Name != lab.DefaultEnvironment {
			environments = append(environments, e.Name)
		}
	}
	for i := range l.estate.Addons {
		l.describeAddon(&l.estate.Addons[i], environments)
	}
}

type pin struct {
	version string
	at      lab.Position
}

func (l *loader) describeAddon(a *lab.Addon, environments []string) {
	pins := map[string]pin{}
	namespaces := map[string]lab.Position{}
	in := l.inputs()
	for _, env := range environments {
		for _, app := range l.sample(a.Name, env) {
			at := app.Origins("spec", "destination", "namespace")
			fromBridge := slices.ContainsFunc(at, func(o appset.Origin) bool { return o.Annotation != "" || o.Label != "" })
			if len(at) > 0 && !fromBridge {
				namespaces[app.Spec.Destination.Namespace] = at[0].Position
			}
			for i, source := range app.Spec.All() {
				switch {
				case source.Chart != "" && cmp.Or(a.Chart, source.Chart) == source.Chart:
					a.Chart, a.Positions["chart"] = source.Chart, place(app, sourceField(&app.Template, i, "chart")...)
					if a.Repository = source.RepoURL; a.Repository == in.ChartRepoURL {
						a.Repository = ""
					}
					pins[env] = pin{source.TargetRevision, place(app, sourceField(&app.Template, i, "targetRevision")...)}
				case source.Path != "" && a.Path == "":
					if r, ok := l.source(source.RepoURL); ok {
						if r != nil {
							if at, err := r.Of(source.TargetRevision); err == nil {
								r = at
							}
						}
						a.Path, a.Positions["path"] = within(r, path.Clean(source.Path)), place(app, sourceField(&app.Template, i, "path")...)
					}
				}
			}
		}
	}
	if len(namespaces) == 1 {
		for ns, at := range namespaces {
			a.Namespace, a.Positions["namespace"] = ns, at
		}
	}
	a.Versions = map[string]string{}
	base, ok := pins[""]
	if !ok && len(pins) > 0 { // no cluster without an environment gets it
		base, ok = pins[slices.Sorted(maps.Keys(pins))[0]], true
		for _, p := range pins {
			ok = ok && p == base
		}
	}
	if ok {
		a.Versions[""], a.Positions["version"] = base.version, base.at
	}
	for env, p := range pins {
		if env != "" && p.at != base.at || env != "" && !ok {
			a.Versions[env], a.Positions["version."+env] = p.version, p.at
		}
	}
}

// sample returns what an addon's sets generate for a cluster of an environment with all addons.
func (l *loader) sample(addon, env string) []*appset.Application {
	probe := allAddons(lab.Cluster{Name: cmp.Or(env, "cluster"), Role: lab.RoleSpoke, Environment: env, ControlPlanes: 1}, l.estate.Addons)
	w := World(l.estate, []lab.Cluster{probe})
	var apps []*appset.Application
	for _, s := range l.sets {
		if s.addon != addon {
			continue
		}
		x, err := s.Expand(w)
		if err != nil {
			continue // reported for real clusters
		}
		for i := range x.Applications {
			if x.Applications[i].Cluster == probe.Name {
				apps = append(apps, &x.Applications[i])
			}
		}
	}
	return apps
}
