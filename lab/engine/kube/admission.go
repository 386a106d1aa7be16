package kube

import (
	"context"
	"crypto/tls"
	"errors"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// admissionWithin bounds the request of Refusal.
const admissionWithin = 10 * time.Second

// Refusal reports why a cluster rejects a credential with all rights, or "" if it accepts it. spoke reaches the cluster from here.
func Refusal(ctx context.Context, connect func(*rest.Config) (Clients, error), spoke *rest.Config, cred Credential) (string, error) {
	as := rest.AnonymousClientConfig(spoke)
	as.BearerToken, as.CAData, as.CAFile = cred.Token, cred.CA, ""
	c, err := connect(as)
	if err != nil {
		return "its credentials cannot be read", nil
	}
	within, cancel := context.WithTimeout(ctx, admissionWithin)
	defer cancel()
	everything := &authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Resource: "*"}
	review, err := c.Typed.AuthorizationV1().SelfSubjectAccessReviews().Create(within,
		&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: everything}}, metav1.CreateOptions{})
	var untrusted *tls.CertificateVerificationError
	switch {
	case apierrors.IsUnauthorized(err):
		return "its token is unknown there", nil
	case errors.As(err, &untrusted):
		return "its certificate is another cluster's", nil
	case apierrors.IsForbidden(err), err == nil && !review.Status.Allowed:
		return "its account has no rights there", nil
	}
	return "", err
}
