package verb

import (
	"context"

	"filippo.io/age"

	"homelab/lab/scenario"
)

// ageKey makes a key pair of age. The private half goes into a Secret of a cluster, and nowhere else.
type ageKey struct {
	changing
	Cluster   string `yaml:"cluster" need:"true"`
	Namespace string `yaml:"namespace" need:"true" doc:"of the Secret"`
	Name      string `yaml:"name" need:"true" doc:"of the Secret, which gets the private key as age.agekey, until the story ends"`
	Recipient string `yaml:"recipient" need:"true" doc:"variable that gets the public key"`
}

func (*ageKey) Check(*scenario.Checker) {}

// Captures returns the variable that it sets.
func (k *ageKey) Captures() []string { return []string{k.Recipient} }

// Subjects returns the Secret.
func (k *ageKey) Subjects() []scenario.Subject {
	return []scenario.Subject{secretAt(k.Cluster, k.Namespace, k.Name)}
}

func (k *ageKey) Do(ctx context.Context, c *scenario.Call) error {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		return err
	}
	if err := putSecret(ctx, c, k.Subjects()[0], nil, map[string]string{"age.agekey": key.String()}); err != nil {
		return err
	}
	c.Did("%s, its private half in secret %s of %s", key.Recipient(), k.Name, k.Namespace)
	return c.Set(k.Recipient, key.Recipient().String())
}
