package argocd

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/client-go/rest"

	"homelab/lab/engine/kube"
)

// CheckCredentials reports why a spoke rejects Argo CD's registered credentials, or "" if it accepts them or is not registered. spoke reaches the cluster from here.
func (a *ArgoCD) CheckCredentials(ctx context.Context, cluster string, spoke *rest.Config) (string, error) {
	have, err := a.registrationSecret(ctx, cluster)
	if have == nil || err != nil {
		return "", err
	}
	var config clusterConfig
	if err := json.Unmarshal([]byte(kube.SecretField(have, "config")), &config); err != nil || kube.CredentialsSince(have).IsZero() {
		return "its credentials are incomplete", nil
	}
	why, err := kube.Refusal(ctx, a.connect, spoke, kube.Credential{Token: config.BearerToken, CA: config.TLS.CAData})
	if err != nil {
		return "", fmt.Errorf("cluster %s: check credentials: %w", cluster, err)
	}
	return why, nil
}
