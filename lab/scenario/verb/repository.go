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

func (r *repository) Check(c *scenario.Checker) { c.Creates(r.Name) }

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
		return fmt.Errorf("the forge already has a repository %s, which this story did not create: use another name, or delete it in the forge's web pages", r.Name)
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
		return r, fmt.Errorf("no step has created repository %s: add one before, repository: {name: %[1]s, url: VARIABLE}", name)
	}
	return r, nil
}

// credentials gives an engine the credentials of a repository, or something else the bot's: a Secret as both engines read it.
type credentials struct {
	changing
	Repository string `yaml:"repository" doc:"that the story has created; without it, the credentials are the bot's, for the estate's: it may neither merge nor commit to main"`
	Cluster    string `yaml:"cluster" need:"true" doc:"where the engine runs, or what else uses them"`
	Namespace  string `yaml:"namespace" need:"true" doc:"of the Secret"`
	Name       string `yaml:"name" need:"true" doc:"of the Secret, until the story ends"`
}

func (s *credentials) Check(c *scenario.Checker) { c.Created("repository", s.Repository) }

// Subjects returns the Secret.
func (s *credentials) Subjects() []scenario.Subject {
	return []scenario.Subject{secretAt(s.Cluster, s.Namespace, s.Name)}
}

func (s *credentials) Do(ctx context.Context, c *scenario.Call) error {
	r, err := s.of(ctx, c)
	if err != nil {
		return err
	}
	var labels map[string]string
	if c.Engines == lab.EngineArgoCD && s.Repository != "" {
		labels = map[string]string{argo.SecretType: "repository"}
	}
	data := map[string]string{"type": "git", "url": r.URL, "username": r.User, "password": r.Password}
	if err := putSecret(ctx, c, s.Subjects()[0], labels, data); err != nil {
		return err
	}
	c.Did("secret %s of %s: account %s of repository %s", s.Name, s.Namespace, r.User, r.URL)
	return nil
}

func (s *credentials) of(ctx context.Context, c *scenario.Call) (scenario.Repository, error) {
	if s.Repository != "" {
		return created(c, s.Repository)
	}
	return c.Bot(ctx)
}

// Lacks returns why it cannot be played, or "".
func (s *credentials) Lacks(w scenario.World) string {
	if s.Repository == "" && w.Bot == nil {
		return "the Git server of lab " + w.Lab + " has no bot"
	}
	return ""
}

func secretAt(cluster, namespace, name string) scenario.Subject {
	return scenario.Subject{Cluster: cluster, APIVersion: "v1", Kind: "Secret", Namespace: namespace, Name: name}
}

// putSecret creates or replaces a Secret until the story ends.
func putSecret(ctx context.Context, c *scenario.Call, at scenario.Subject, labels, data map[string]string) error {
	secret := &unstructured.Unstructured{Object: map[string]any{"apiVersion": at.APIVersion, "kind": at.Kind}}
	secret.SetNamespace(at.Namespace)
	secret.SetName(at.Name)
	if len(labels) > 0 {
		secret.SetLabels(labels)
	}
	encoded := map[string]any{}
	for k, v := range data {
		encoded[k] = base64.StdEncoding.EncodeToString([]byte(v))
	}
	secret.Object["data"] = encoded
	return (&apply{Cluster: at.Cluster}).one(ctx, c, secret)
}
