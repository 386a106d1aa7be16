package estate

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"homelab/lab"
	"homelab/lab/fluxset"
)

const (
	podinfoRelease = "addons/podinfo/flux/release.yaml"
	podinfoSet     = "addons/podinfo/applicationset.yaml"
	metricsSet     = "addons/metrics-server/applicationset.yaml"
)

// depends makes podinfo depend on another addon in Flux.
func depends(f fstest.MapFS, on string) {
	replace(f, podinfoRelease, "spec:\n", "spec:\n  dependsOn: [{name: "+on+"}]\n")
}

// inWave gives an ApplicationSet a sync wave.
func inWave(f fstest.MapFS, file, wave string) {
	replace(f, file, "  namespace: argocd\n", "  namespace: argocd\n  annotations: {argocd.argoproj.io/sync-wave: \""+wave+"\"}\n")
}

// regenerate updates files like lab generate.
func regenerate(t *testing.T, files fstest.MapFS) {
	t.Helper()
	e, err := Load(files, "", "homelab", WithEngine(lab.EngineFlux), Ungenerated())
	if err != nil {
		return // the caller checks problems
	}
	written, err := fluxset.Files(files, e.Clusters)
	if err != nil {
		t.Fatal(err)
	}
	left, err := fluxset.Left(files, written)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range left {
		delete(files, name)
	}
	for name, text := range written {
		files[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
}

func TestOrder(t *testing.T) {
	const differs = podinfoSet + ":%AT% podinfo does not wait for metrics-server in Argo CD (wave %WAVES%), as it does in Flux (" + podinfoRelease + ":6:15): use a later wave in its ApplicationSet: annotations: {argocd.argoproj.io/sync-wave: \"%CURE%\"}"
	same := func(at, waves, cure string) string {
		return strings.NewReplacer("%AT%", at, "%WAVES%", waves, "%CURE%", cure).Replace(differs)
	}
	for name, c := range map[string]struct {
		edit   func(f fstest.MapFS)
		both   []string // problems with either engine
		flux   []string // problems with Flux only
		notes  []string // with Argo CD
		noArgo bool     // skip Argo CD
	}{
		"none":       {edit: func(fstest.MapFS) {}},
		"same order": {edit: func(f fstest.MapFS) { depends(f, "metrics-server"); inWave(f, podinfoSet, "1") }},
		"early wave": {edit: func(f fstest.MapFS) { depends(f, "metrics-server"); inWave(f, metricsSet, "-1") }},
		"wave without need": {edit: func(f fstest.MapFS) {
			depends(f, "metrics-server")
			inWave(f, metricsSet, "-1")
			inWave(f, "addons/identity/applicationset.yaml", "1")
		}, notes: []string{"addons/identity/applicationset.yaml:7 addon identity is in sync wave 1 of Argo CD, but Flux starts it immediately"}},
		"Flux only": {
			edit: func(f fstest.MapFS) { depends(f, "metrics-server") },
			both: []string{same("1", "0, and 0 at "+metricsSet+":1:1", "1")},
		},
		"reversed": {
			edit: func(f fstest.MapFS) {
				depends(f, "metrics-server")
				inWave(f, podinfoSet, "-2")
				inWave(f, metricsSet, "3")
			},
			both: []string{same("6", "-2, and 3 at "+metricsSet+":6:47", "4")},
		},
		"through a Flux-only addon": {
			edit: func(f fstest.MapFS) {
				delete(f, "addons/identity/applicationset.yaml")
				depends(f, "identity")
				replace(f, "addons/identity/flux/release.yaml", "spec:\n", "spec:\n  dependsOn: [{name: metrics-server}]\n")
				replace(f, "clusters/hub/cluster.yaml", "metrics-server: true", "metrics-server: true, identity: false")
				for _, c := range []string{"dev", "prod", "staging"} {
					replace(f, "clusters/"+c+"/cluster.yaml", "identity: true", "identity: false")
					replace(f, "clusters/"+c+"/cluster.yaml", "podinfo: true", "podinfo: false")
				}
			},
			flux: []string{podinfoSet + ":1 podinfo does not wait for metrics-server in Argo CD (wave 0, and 0 at " + metricsSet + ":1:1), as it does in Flux (addons/identity/flux/release.yaml:7:15)"},
			// Argo CD misses the ApplicationSet
			noArgo: true,
		},
		"missing need": {
			edit: func(f fstest.MapFS) {
				replace(f, "clusters/dev/cluster.yaml", "identity: true", "identity: false")
				depends(f, "identity")
				inWave(f, podinfoSet, "1")
			},
			flux: []string{"clusters/dev/cluster.yaml:8 addon podinfo needs identity (" + podinfoRelease + ":6:15), which dev does not have: enable identity for the cluster, or use annotation lab.homelab/after if it is optional"},
		},
		"missing optional need": {
			edit: func(f fstest.MapFS) {
				replace(f, "clusters/dev/cluster.yaml", "identity: true", "identity: false")
				replace(f, podinfoRelease, "metadata:\n", "metadata:\n  annotations: {lab.homelab/after: identity}\n")
				inWave(f, podinfoSet, "1")
			},
		},
		"cycle and unknown name": {
			edit: func(f fstest.MapFS) {
				depends(f, "identity")
				replace(f, "addons/identity/flux/release.yaml", "spec:\n", "spec:\n  dependsOn: [{name: podinfo}, {name: certs}]\n")
				inWave(f, podinfoSet, "1")
				inWave(f, "addons/identity/applicationset.yaml", "2")
			},
			flux: []string{
				"addons/identity/flux/release.yaml:7 HelmRelease identity depends on certs, which is not a HelmRelease of any addon: there are ",
				podinfoRelease + ":6 dependency cycle: identity needs podinfo needs identity",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := defaultFiles(t)
			c.edit(files)
			regenerate(t, files)
			_, problems := onFlux(t, files)
			checkProblems(t, "Flux", problems, slices.Concat(c.both, c.flux))
			e, err := Load(files, "", "homelab")
			var failed *lab.Error
			switch {
			case c.noArgo:
			case errors.As(err, &failed):
				checkProblems(t, "Argo CD", failed.Problems, c.both)
			default:
				checkProblems(t, "Argo CD", nil, c.both)
				checkProblems(t, "notes", e.Notes, c.notes)
				waves := false
				for name, file := range files {
					waves = waves || strings.HasSuffix(name, "/applicationset.yaml") && strings.Contains(string(file.Data), "sync-wave")
				}
				if e.Waves != waves {
					t.Errorf("waves %v, want %v", e.Waves, waves)
				}
			}
		})
	}
}

func checkProblems(t *testing.T, where string, problems lab.Problems, want []string) {
	t.Helper()
	slices.Sort(want)
	if len(problems) != len(want) {
		t.Fatalf("%s: %d problems, want %d:\n%v", where, len(problems), len(want), problems)
	}
	problems.Sort()
	for i, p := range problems {
		got := lab.Position{File: p.File, Line: p.Line}.String() + " " + p.Message + ": " + p.Cure
		if !strings.HasPrefix(got, want[i]) {
			t.Errorf("%s: %s\nwant %s", where, got, want[i])
		}
	}
}
