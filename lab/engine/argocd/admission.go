package argocd

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// admissionWithin bounds the request that Admits sends to a spoke.
const admissionWithin = 10 * time.Second

// Admits returns why a spoke rejects the credentials of its registration, or "" if it accepts them or is not registered. spoke connects to the cluster from
// this machine. Admits has no side effects.
func (a *ArgoCD) Admits(ctx context.Context, cluster string, spoke *rest.Config) (string, error) {
	have, err := a.registrationSecret(ctx, cluster)
	if have == nil || err != nil {
		return "", err
	}
	var config clusterConfig
	if err := json.Unmarshal([]byte(secretField(have, "config")), &config); err != nil || credentialsSince(have).IsZero() {
		return "its credentials are half written", nil
	}
	as := rest.AnonymousClientConfig(spoke)
	as.BearerToken, as.CAData, as.CAFile = config.BearerToken, config.TLS.CAData, ""
	c, err := a.connect(as)
	if err != nil {
		return "its credentials cannot be read", nil
	}
	within, cancel := context.WithTimeout(ctx, admissionWithin)
	defer cancel()
	everything := &authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Resource: "*"}
	review, err := c.typed.AuthorizationV1().SelfSubjectAccessReviews().Create(within,
		&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: everything}}, metav1.CreateOptions{})
	var untrusted *tls.CertificateVerificationError
	switch {
	case apierrors.IsUnauthorized(err):
		return "its token is not known there", nil
	case errors.As(err, &untrusted):
		return "its certificate is of another cluster", nil
	case apierrors.IsForbidden(err), err == nil && !review.Status.Allowed:
		return "its account has no rights there", nil
	case err != nil:
		return "", fmt.Errorf("cluster %s: whether it lets the engine in: %w", cluster, err)
	}
	return "", nil
}
