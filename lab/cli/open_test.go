package cli

import (
	"testing"

	"homelab/lab/door/entrance"
)

func TestRoutesTo(t *testing.T) {
	routes := []entrance.Route{
		{Host: "*.dev.demo.localhost", Path: "/", Cluster: "dev", Object: "Ingress podinfo/podinfo"},
		{Host: "shop.dev.demo.localhost", Path: "/", Cluster: "dev", Object: "Ingress podinfo/web"},
		{Host: "podinfo.podinfo.dev.demo.localhost", Path: "/", Cluster: "dev", Object: "Service podinfo/podinfo"},
		{Host: "podinfo.dev.demo.localhost", Path: "/", Cluster: "dev", Object: "Service podinfo/podinfo"},
		{Host: "shop.prod.demo.localhost", Path: "/", Cluster: "prod", Object: "Ingress podinfo/web"},
	}
	for in, want := range map[string][]string{"": {"podinfo.dev.demo.localhost", "shop.prod.demo.localhost"}, "prod": {"shop.prod.demo.localhost"}, "hub": nil} {
		var got []string
		for _, r := range routesTo(routes, "podinfo", in, "demo.localhost") {
			got = append(got, r.Host)
		}
		same(t, got, want)
	}
}
