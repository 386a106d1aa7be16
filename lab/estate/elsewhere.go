package estate

import "homelab/lab"

// EveryEngine also reads the addons' manifests for the other engine into Addon.Elsewhere, ignoring their problems.
func EveryEngine() Option { return func(l *loader) { l.everyEngine = true } }

func (l *loader) elsewhere() {
	other := l.otherEngine()
	for i := range l.estate.Addons {
		if a, ok := other.estate.Addon(l.estate.Addons[i].Name); ok && a.File != "" {
			l.estate.Addons[i].Elsewhere = &a
		}
	}
}

// otherEngine reads the manifests of the engine that does not run the estate.
func (l *loader) otherEngine() *loader {
	if l.other == nil {
		l.other = newLoader(l.fsys, l.estate.Dir, l.estate.Name)
		l.other.engine, l.other.mounted.Earlier, l.other.mounted.Open = lab.EngineFlux, l.mounted.Earlier, l.mounted.Open
		if l.isFlux() {
			l.other.engine = lab.EngineArgoCD
		}
		l.other.manifest()
	}
	return l.other
}
