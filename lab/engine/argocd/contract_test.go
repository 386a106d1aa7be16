package argocd

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"homelab/lab"
	"homelab/lab/engine/enginetest"
)

// The contract of engines on a simulated API, as far as it goes without Argo CD's controllers; with them, TestArgoCDContract.
func TestContract(t *testing.T) {
	hub, spoke := newCluster(t, ownDefinitions, theDefaultProject).Live(t), newCluster(t).Live(t)
	a := &ArgoCD{lab: "homelab", namespace: Namespace, hub: hub.Clients(), release: &fakeRelease{}, connect: spoke.Connect}
	s := enginetest.Simulation{
		Hub: hub, Spoke: spoke, Account: "argocd-manager", Registration: types.NamespacedName{Namespace: Namespace, Name: secretPrefix + "spoke"}, Synced: applications, Others: "rollouts.",
	}
	enginetest.Contract(t, s.Subject(a, lab.Chart{Name: "argo-cd", Version: "3.2.11"}, rootManifest))
}
