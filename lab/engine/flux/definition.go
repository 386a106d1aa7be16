package flux

import (
	"cmp"
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/flux/reconciliation"
	"homelab/lab/engine/helm"
	"homelab/lab/engine/survey"
	"homelab/lab/flux"
)

// chartComponent is the component name of Flux's chart.
const chartComponent = "flux2"

// nodePort is the hub's node port of the webhook receiver.
const nodePort = 30080

// Standalone returns the definition of a Flux on every cluster.
func Standalone(namespace string) engine.Definition {
	d := Definition(namespace)
	d.Connect = func(h engine.Hub) (engine.Engine, error) {
		t, err := NewFleet(h, d.Namespace)
		if err != nil {
			return nil, err
		}
		return t, nil
	}
	d.On = func(h engine.Hub) (engine.Installer, error) {
		f, err := New(h, d.Namespace)
		if err != nil {
			return nil, err
		}
		f.home = h.Cluster
		return guest{f}, nil
	}
	return d
}

// Definition returns the definition of Flux in a namespace; "" means Namespace. It has no UI: its port is the webhook receiver's.
func Definition(namespace string) engine.Definition {
	namespace = cmp.Or(namespace, flux.Namespace)
	return engine.Definition{
		Type: lab.EngineFlux, Title: "flux", Namespace: namespace,
		Kinds: []schema.GroupVersionResource{kustomizations, helmReleases, gitRepositories, helmRepositories, helmCharts, receivers},
		Tracking: func(context.Context, *rest.Config) (survey.Tracking, error) {
			return survey.Tracking{Own: []string{reconciliation.FromName, reconciliation.FromNamespace, reconciliation.FromRelease, reconciliation.FromReleaseNamespace}}, nil
		},
		Chart: chartComponent, Images: images(), Memory: 320 << 20,
		Port: 8080, NodePort: nodePort, Service: "http://webhook-receiver." + namespace + ".svc",
		WebhookPath: func(secret string) string { return webhookPath(secret, namespace) },
		Values:      Values, Inputs: helm.Inputs,
		Connect: func(h engine.Hub) (engine.Engine, error) {
			f, err := New(h, namespace)
			if err != nil {
				return nil, err
			}
			return f, nil
		},
	}
}
