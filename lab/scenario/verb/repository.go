package verb

import (
	"context"
	"encoding/base64"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"homelab/lab"
	"homelab/lab/argo"
	"homelab/lab/scenario"
)

// repository creates a private repository beside the estate's.
type repository struct {
	changing
	Name string `yaml:"name" need:"true" doc:"a-z, 0-9 and -; it must not exist"`
	URL  string `yaml:"url" need:"true" doc:"variable that gets the address for engines"`
}

func (*repository) Check(*scenario.Checker) {}

// Captures returns the variable that it sets.
func (r *repository) Captures() []string { return []string{r.URL} }

// Alone returns why it is not played beside other stories.
func (*repository) Alone() string { return "changes Git" }

func (r *repository) Do(ctx context.Context, c *scenario.Call) error {
	if c.Others == nil {
		return fmt.Errorf("the Git server of lab %s has no other repositories", c.Lab)
	}
	there, err := c.Others.Exists(ctx, r.Name)
	if err != nil {
		return err
	}
	if there {
		return fmt.Errorf("the forge has a repository %s already: it is not this story's", r.Name)
	}
	c.Undo("repository "+r.Name, func(ctx context.Context) error { return c.Others.Remove(ctx, r.Name) })
	made, err := c.Others.Create(ctx, r.Name)
	if err != nil {
		return err
	}
	c.Memory["repository "+r.Name] = made
	c.Did("%s", made.URL)
	return c.Set(r.URL, made.URL)
}

// created returns a repository that the story has created.
func created(c *scenario.Call, name string) (scenario.Repository, error) {
	r, ok := c.Memory["repository "+name].(scenario.Repository)
	if !ok {
		return r, fmt.Errorf("no step has created repository %s", name)
	}
	return r, nil
}

// credentials gives an engine the credentials of a repository: a Secret as both engines read it.
type credentials struct {
	changing
	Repository string `yaml:"repository" need:"true" doc:"that the story has created"`
	Cluster    string `yaml:"cluster" need:"true" doc:"where the engine runs"`
	Namespace  string `yaml:"namespace" need:"true" doc:"of the Secret"`
	Name       string `yaml:"name" need:"true" doc:"of the Secret, until the story ends"`
}

func (*credentials) Check(*scenario.Checker) {}

// Subjects returns the Secret.
func (s *credentials) Subjects() []scenario.Subject {
	return []scenario.Subject{{Cluster: s.Cluster, APIVersion: "v1", Kind: "Secret", Namespace: s.Namespace, Name: s.Name}}
}

func (s *credentials) Do(ctx context.Context, c *scenario.Call) error {
	r, err := created(c, s.Repository)
	if err != nil {
		return err
	}
	meta := map[string]any{"name": s.Name, "namespace": s.Namespace}
	if c.Engines == lab.EngineArgoCD {
		meta["labels"] = map[string]any{argo.SecretType: "repository"}
	}
	data := map[string]any{}
	for k, v := range map[string]string{"type": "git", "url": r.URL, "username": r.User, "password": r.Password} {
		data[k] = base64.StdEncoding.EncodeToString([]byte(v))
	}
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data}}
	if err := (&apply{Cluster: s.Cluster}).one(ctx, c, o); err != nil {
		return err
	}
	c.Did("secret %s of %s: %s may read repository %s", s.Name, s.Namespace, r.User, s.Repository)
	return nil
}
