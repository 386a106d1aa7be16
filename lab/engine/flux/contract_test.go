package flux

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"homelab/lab"
	"homelab/lab/engine/enginetest"
	"homelab/lab/engine/helm"
	"homelab/lab/engine/kube/kubetest"
	"homelab/lab/flux"
)

// keptRelease is a release that is left alone if its inputs are the same.
type keptRelease struct{ fakeRelease }

func (r *keptRelease) Ensure(ctx context.Context, want helm.Release, p lab.Progress) (helm.Result, error) {
	inputs, err := helm.Inputs(want.Chart, want.Values)
	if err != nil || r.state.Inputs == inputs {
		return helm.Result{State: r.state}, err
	}
	r.state.Inputs = inputs
	return r.fakeRelease.Ensure(ctx, want, p)
}

// The contract of engines on a simulated API, as far as it goes without Flux's controllers; with them, TestFluxContract.
func TestContract(t *testing.T) {
	hub, spoke := kubetest.New(t, kinds(), ownDefinitions).Live(t), kubetest.New(t, kinds()).Live(t)
	f := &Flux{lab: "homelab", cluster: "hub", namespace: flux.Namespace, hub: hub.Clients(), release: &keptRelease{}, connect: spoke.Connect}
	s := enginetest.Simulation{
		Hub: hub, Spoke: spoke, Account: "flux-manager", Registration: types.NamespacedName{Namespace: flux.NamespaceOf("spoke"), Name: flux.ClusterKubeconfig},
		Synced: kustomizations, Others: "fluxinstances.",
	}
	subject := s.Subject(f, lab.Chart{Name: "flux2", Version: "2.9.5"}, rootManifest)
	subject.Off = func(t *testing.T) string { // no controller reads Git, which a departure would wait for
		hub.Patch(t, kustomizations, flux.Namespace, "flux-system", map[string]any{"spec": map[string]any{"suspend": true}})
		return "one"
	}
	subject.On = func(*testing.T) string { return "one" }
	enginetest.Contract(t, subject)
}
