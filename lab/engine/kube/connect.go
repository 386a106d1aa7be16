package kube

import (
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Clients are the clients of one cluster.
type Clients struct {
	Dynamic dynamic.Interface
	Typed   kubernetes.Interface
}

// Connect returns Clients of a cluster without a rate limit. It connects lazily.
func Connect(cfg *rest.Config) (Clients, error) {
	c := rest.CopyConfig(cfg)
	c.QPS = -1 // the API server sheds load by itself; five requests a second would dominate our waits
	c.WarningHandler = rest.NoWarnings{}
	c.UserAgent = "lab"
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		return Clients{}, err
	}
	d, err := dynamic.NewForConfigAndClient(c, client)
	if err != nil {
		return Clients{}, err
	}
	t, err := kubernetes.NewForConfigAndClient(c, client)
	if err != nil {
		return Clients{}, err
	}
	return Clients{Dynamic: d, Typed: t}, nil
}
