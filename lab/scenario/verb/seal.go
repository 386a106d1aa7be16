package verb

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"homelab/lab/scenario"
	"homelab/lab/scenario/seal"
)

// sealing encrypts values for a SealedSecret, as kubeseal does, with the certificate that the controller serves.
type sealing struct {
	Cluster   string            `yaml:"cluster" need:"true" doc:"that runs addon sealed-secrets"`
	Namespace string            `yaml:"namespace" need:"true" doc:"of the Secret"`
	Name      string            `yaml:"name" need:"true" doc:"of the Secret"`
	Values    map[string]string `yaml:"values" need:"true" doc:"variable -> value; the variable gets the encrypted value, for spec.encryptedData"`
}

func (*sealing) Check(*scenario.Checker) {}

// Captures returns the variables that it sets.
func (s *sealing) Captures() []string { return slices.Sorted(maps.Keys(s.Values)) }

func (s *sealing) Do(ctx context.Context, c *scenario.Call) error {
	controller := request{URL: "http://localhost:8080/v1/cert.pem", From: &requestFrom{Cluster: s.Cluster, Namespace: "kube-system", Pod: "sealed-secrets-controller"}}
	answer := controller.inside(ctx, c)
	certificate, ok := answer["body"].(string)
	if !ok {
		return fmt.Errorf("the certificate of sealed-secrets in %s: %v", s.Cluster, answer["error"])
	}
	for name, value := range s.Values {
		encrypted, err := seal.Value([]byte(certificate), s.Namespace, s.Name, value)
		if err != nil {
			return fmt.Errorf("the certificate of sealed-secrets in %s: %w", s.Cluster, err)
		}
		if err := c.Set(name, encrypted); err != nil {
			return err
		}
	}
	c.Did("%d sealed for Secret %s/%s of %s", len(s.Values), s.Namespace, s.Name, s.Cluster)
	return nil
}
