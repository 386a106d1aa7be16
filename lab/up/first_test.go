package up_test

import (
	"slices"
	"strings"
	"testing"

	"homelab/lab/up"
)

func TestFollowFirstRun(t *testing.T) {
	s := newStage(t)
	s.fetches = true
	p := &process{stage: s}
	changes, err := p.up(t.Context(), up.Options{})
	must(t, err)
	var got []string
	for _, c := range changes {
		if file, ok := strings.CutPrefix(c, "estate: "); ok && strings.Contains(file, "/") || strings.HasPrefix(c, "images: ") {
			continue // files of the working tree, and images, which are fetched by whichever step is first
		}
		got = append(got, c)
	}
	want := []string{
		"network: created", "forge: absent", "cluster/dev: absent", "cluster/hub: absent", "cluster/prod: absent", "engine: absent",
		"estate: podinfo 6.7.0", "estate: podinfo 6.9.2", "estate: webhook to argo cd",
		"bridge/dev: registered as https://demo-dev-control-plane:6443", "bridge/hub: registered as https://kubernetes.default.svc",
		"bridge/prod: registered as https://demo-prod-control-plane:6443",
		"addons: repository charts: http://lab-demo-forge:3000/api/packages/lab/helm", "addons: repository estate: http://lab-demo-forge:3000/lab/estate.git",
		"addons: root application",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, call := range []string{
		"supply.expect", "supply.image node", "supply.image gitea", "supply.image argocd", "supply.image redis", "supply.image podinfo", "supply.chart argo-cd 3.2.11",
		"supply.chart podinfo 6.7.0", "supply.chart podinfo 6.9.2",
	} {
		if !slices.Contains(p.calls, call) {
			t.Errorf("call %s is missing", call)
		}
	}
	for _, order := range [][]string{
		{"clusters.ensure-network", "forge.start"},
		{"clusters.ensure-network", "clusters.create hub"},
		{"containers.load node", "clusters.create hub"},
		{"clusters.create hub", "clusters.mark hub", "engine.install"},
		{"forge.start", "forge.publish", "forge.push"},
		{"clusters.mark prod", "engine.register prod", "engine.root"},
		{"engine.install", "engine.repositories", "engine.root", "engine.wait"},
		{"forge.push", "engine.root"},
	} {
		for i := range order[1:] {
			if a, b := slices.Index(p.calls, order[i]), slices.Index(p.calls, order[i+1]); a < 0 || b < a {
				t.Errorf("%s is call %d, %s call %d", order[i], a, order[i+1], b)
			}
		}
	}
	again, err := (&process{stage: s}).up(t.Context(), up.Options{})
	if err != nil || len(again) > 0 {
		t.Errorf("second run changed %q, %v", again, err)
	}
}
