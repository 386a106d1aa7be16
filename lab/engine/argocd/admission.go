package argocd

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/client-go/rest"

	"homelab/lab/engine/kube"
)

// Admits asks a spoke whether it admits Argo CD by the credentials of its registration, and returns why not; empty if it does, or if it is not registered.
// spoke leads into the cluster from here. It changes nothing.
func (a *ArgoCD) Admits(ctx context.Context, cluster string, spoke *rest.Config) (string, error) {
	have, err := a.registrationSecret(ctx, cluster)
	if have == nil || err != nil {
		return "", err
	}
	var config clusterConfig
	if err := json.Unmarshal([]byte(kube.SecretField(have, "config")), &config); err != nil || credentialsSince(have).IsZero() {
		return "its credentials are half written", nil
	}
	why, err := kube.Refusal(ctx, a.connect, spoke, kube.Credential{Token: config.BearerToken, CA: config.TLS.CAData})
	if err != nil {
		return "", fmt.Errorf("cluster %s: whether it lets the engine in: %w", cluster, err)
	}
	return why, nil
}
