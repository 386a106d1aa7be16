package argocd

import (
	"cmp"
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"homelab/lab"
	"homelab/lab/engine"
	"homelab/lab/engine/kube"
	"homelab/lab/engine/survey"
)

// Components of Argo CD.
const (
	chartComponent = "argo-cd"
	imageComponent = "argocd"
	imageRedis     = "redis"
)

// Definition returns the definition of Argo CD in a namespace; "" means Namespace.
func Definition(namespace string) engine.Definition {
	namespace = cmp.Or(namespace, Namespace)
	return engine.Definition{
		Type: lab.EngineArgoCD, Title: "argo cd", Namespace: namespace, Kinds: []schema.GroupVersionResource{applications, applicationSets},
		Chart: chartComponent, Images: []string{imageComponent, imageRedis}, Memory: 1 << 30,
		UI: true, Port: 8080, NodePort: DefaultNodePort, Service: "http://" + releaseName + "-server." + namespace + ".svc",
		WebhookPath: func(string) string { return "/api/webhook" },
		Values: func(s engine.Settings, over map[string]any) map[string]any {
			return Values(Settings{
				Lab: s.Lab, Namespace: namespace, Image: lab.Image{Ref: s.Ref(imageComponent)}, Redis: lab.Image{Ref: s.Ref(imageRedis)},
				PasswordHash: s.PasswordHash, WebhookSecret: s.WebhookSecret, URL: s.URL, Waves: s.Waves, LinksOut: s.LinksOut, Addresses: s.Addresses, Replaces: s.Replaces,
			}, over)
		},
		Inputs: Inputs,
		Contests: func(ctx context.Context, cluster *rest.Config, names []string) ([]string, error) {
			c, err := kube.Connect(cluster)
			if err != nil {
				return nil, err
			}
			return contests(ctx, c, cluster.Host, names)
		},
		Tracking: func(ctx context.Context, hub *rest.Config) (survey.Tracking, error) {
			c, err := kube.Connect(hub)
			if err != nil {
				return survey.Tracking{}, err
			}
			return tracking(ctx, c, namespace)
		},
		Apart: "set an installationID in its ConfigMap argocd-cm",
		Connect: func(h engine.Hub) (engine.Engine, error) {
			a, err := New(h.Lab, h.Config, WithNamespace(namespace), WithReach(h.Reach), WithAttached(h.Guest), WithChartVersion(h.ChartVersion), WithNames(h.Names))
			if err != nil {
				return nil, err
			}
			return a, nil
		},
	}
}
