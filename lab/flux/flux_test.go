package flux_test

import (
	"testing"

	"homelab/lab"
	"homelab/lab/flux"
)

func TestScope(t *testing.T) {
	shared := flux.ScopeOf("hub", []lab.Cluster{
		{Name: "hub"},
		{Name: "live", KubeconfigSecrets: []lab.KubeconfigSecret{{Namespace: "production", Name: "cluster-kubeconfig"}, {Namespace: "flux-system", Name: "live"}, {Namespace: "team", Name: "live"}}},
		{Name: "edge", KubeconfigSecrets: []lab.KubeconfigSecret{{Namespace: "flux-system", Name: "edge"}, {Namespace: "team", Name: "edge"}, {Namespace: "cluster-x", Name: "edge"}}},
	})
	one := flux.ScopeOf("hub", []lab.Cluster{{Name: "live", KubeconfigSecrets: []lab.KubeconfigSecret{{Namespace: "production", Name: "cluster-kubeconfig"}}}})
	alone := flux.ScopeOf("hub", []lab.Cluster{{Name: "hub"}, {Name: "dev"}})
	for _, c := range []struct {
		scope           flux.Scope
		namespace, name string
		secrets         []string
		cluster, as     string
	}{
		{alone, "cluster-dev", "web", nil, "dev", "web"},
		{alone, "flux-system", "web", nil, "", "web"},
		{flux.Scope{Home: "dev"}, "flux-system", "web", nil, "dev", "web"},
		{flux.Scope{Home: "dev"}, "team", "web", nil, "dev", "team-web"},
		{flux.Scope{Home: "dev"}, "cluster-dev", "web", nil, "dev", "web"},
		{flux.Scope{Home: "dev"}, "cluster-config", "web", nil, "dev", "cluster-config-web"},
		{shared, "cluster-edge", "web", nil, "edge", "web"},
		{shared, "cluster-config", "web", nil, "hub", "cluster-config-web"},
		{shared, "cluster-dev", "web", []string{flux.ClusterKubeconfig}, "dev", "web"},
		{shared, "flux-system", "web", nil, "hub", "web"},
		{shared, "flux-system", "web", []string{"unknown"}, "hub", "web"},
		{shared, "flux-system", "web", []string{"unknown", "edge", "live"}, "edge", "web"},
		{shared, "production", "web", nil, "live", "production-web"},
		{shared, "production", "web", []string{"cluster-kubeconfig"}, "live", "production-web"},
		{one, "production", "web", nil, "live", "web"},
		{shared, "team", "web", nil, "hub", "team-web"},
		{shared, "team", "web", []string{"live"}, "live", "team-web"},
		{shared, "cluster-x", "web", nil, "edge", "cluster-x-web"},
	} {
		if cluster, as := c.scope.Application(c.namespace, c.name, c.secrets...); cluster != c.cluster || as != c.as {
			t.Errorf("%s/%s with %q: %s of %q, want %s of %q", c.namespace, c.name, c.secrets, as, cluster, c.as, c.cluster)
		}
	}
	if shared.Home != "hub" || alone.Home != "" {
		t.Errorf("homes %q and %q", shared.Home, alone.Home)
	}
	if got := shared.ClusterOf("cluster-dev", flux.ClusterKubeconfig); got != "dev" {
		t.Errorf("own Secret: %q", got)
	}
}
