package present

import (
	"runtime"
	"runtime/debug"

	"homelab/lab/ui"
)

// Version returns the versions of the program and of its parts.
func Version() ui.VersionResult {
	v := ui.VersionResult{Version: "dev", Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Revision = s.Value
		}
	}
	for _, m := range info.Deps {
		switch m.Path {
		case "sigs.k8s.io/kind":
			v.Kind = m.Version
		case "helm.sh/helm/v3":
			v.Helm = m.Version
		}
	}
	return v
}
