//go:build e2e

package e2e

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine/enginetest"
	"homelab/lab/flux"
)

// namesOf are words in the objects of an engine, and in its traces in others.
var namesOf = map[lab.EngineType][]string{
	lab.EngineArgoCD: {"argoproj.io", "argocd-", `"argocd"`},
	lab.EngineFlux:   {"toolkit.fluxcd.io", "flux-system", "flux-manager", "helm-controller", "kustomize-controller"},
}

// switched replaces the engine by the other one and back.
func switched(t *testing.T, l *testLab) {
	was := l.engine()
	other := map[lab.EngineType]lab.EngineType{lab.EngineArgoCD: lab.EngineFlux, lab.EngineFlux: lab.EngineArgoCD}[was]
	before := l.kept()
	l.replaced(t, before, was, other, namesOf[was])
	l.replaced(t, before, other, was, namesOf[other])
}

// reshaped lets one Flux manage all clusters, and then each cluster its own again.
func reshaped(t *testing.T, l *testLab) {
	before := l.kept()
	l.edit("clusters/hub/cluster.yaml", "shape: standalone", "shape: hub")
	l.must("generate")
	l.replaced(t, before, lab.EngineFlux, lab.EngineFlux, nil)
	for _, cluster := range []string{"dev", "staging", "prod"} {
		if left := enginetest.Naming(t, map[string]*rest.Config{cluster: l.rest(cluster)}, flux.Namespace); len(left) > 0 {
			t.Errorf("left of %s's own Flux:\n%s", cluster, strings.Join(left, "\n"))
		}
		if _, err := l.kube(cluster).CoreV1().Namespaces().Get(t.Context(), flux.NamespaceOf(cluster), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s still has its own namespace: %v", cluster, err)
		}
	}
	l.edit("clusters/hub/cluster.yaml", "shape: hub", "shape: standalone")
	l.must("generate")
	l.replaced(t, before, lab.EngineFlux, lab.EngineFlux, nil)
	eachItsOwn(t, l)
}

// replaced replaces an engine by another. Objects of addons must survive, and nothing with any of the words may remain.
func (l *testLab) replaced(t *testing.T, before map[string]string, from, to lab.EngineType, words []string) {
	t.Helper()
	plan := l.must("up", "--engine", string(to), "--switch-engine", "--dry-run")
	if !strings.Contains(plan.stdout, "retire") {
		t.Errorf("the plan does not retire %s:\n%s", from, plan.stdout)
	}
	catalogue := l.catalogue(t)
	began := time.Now()
	l.must("up", "--engine", string(to), "--switch-engine")
	t.Logf("%s to %s in %.0fs, %d objects with their uids", from, to, time.Since(began).Seconds(), len(before))
	if s := l.converged(4, 10); s.Engine != string(to) {
		t.Errorf("status names engine %q", s.Engine)
	}
	sameIdentities(t, before, l.kept())
	spokes := map[string]*rest.Config{}
	for _, name := range []string{"dev", "staging", "prod"} {
		spokes[name] = l.rest(name)
	}
	left := enginetest.Naming(t, map[string]*rest.Config{"hub": l.rest("hub")}, words...)
	if from == lab.EngineFlux && to != from { // on the hub it is the other engine's release
		words = append(slices.Clone(words), "meta.helm.sh")
	}
	if left = append(left, enginetest.Naming(t, spokes, words...)...); len(left) > 0 {
		t.Errorf("left of %s:\n%s", from, strings.Join(left, "\n"))
	}
	untouched(t, l)
	sameCatalogue(t, "before", catalogue, "after", l.catalogue(t))
}

// kept returns the uids of everything except the engine's own objects.
func (l *testLab) kept() map[string]string {
	l.t.Helper()
	all := l.identities("hub", "dev", "staging", "prod")
	maps.DeleteFunc(all, func(what, _ string) bool {
		kind, name := strings.Fields(what)[1], strings.Fields(what)[2]
		namespace, own, _ := strings.Cut(name, "/")
		if kind == "namespaces" {
			namespace = own
		}
		return kind == "secrets" || slices.Contains([]string{"argocd", "flux-system", "lab-system"}, namespace) || strings.HasPrefix(namespace, "cluster-")
	})
	return all
}
